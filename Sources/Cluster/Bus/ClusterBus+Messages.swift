public import BrokerModel
import Bytes
internal import MQTTCodec

/// What nodes publish to each other.
extension ClusterBus {
    /// Publishes a message of this node's clients to the other nodes. What follows on a topic leaves together, with
    /// `sendCollected` at the latest. Not for `$SYS`, which is each node's own.
    public mutating func collect(_ message: ClusterMessage, now: UInt64, _ sink: some BusSink) {
        guard state != .detached else { return drop() }
        let isNamed = message.change == .none && space.write(topic: message.topic, to: &subject)
        if !isNamed { subject = space.overflow }
        envelope.removeAll(keepingCapacity: true)
        message.encode(from: node, sequence: lastSequence + 1, withTopic: !isNamed, now: now, into: &envelope)
        if state == .joining {
            let shares = (message.dispatch?.shares ?? []).compactMap { share in
                memories[NodeID(share.node)]?.name(of: share.number).map { (share: share, name: $0) }
            }
            guard held.append(HeldMessage(subject: subject, payload: envelope, shares: shares)) else { return drop() }
            lastSequence += 1
            return
        }
        lastSequence += 1
        if !batch.takes(envelope.count, on: subject) { sendCollected(sink) }
        // What would fill it alone is not copied into it.
        if envelope.count < batch.bytesMax {
            counters.sent += 1
            batch.append(envelope, on: subject)
        } else {
            send(subject, envelope, sink)
        }
    }

    /// Sends the messages that were collected.
    public mutating func sendCollected(_ sink: some BusSink) {
        guard !batch.isEmpty else { return }
        batch.take { sink.publish($0, reply: UnsafeRawBufferPointer(start: nil, count: 0), payload: $1, count: $2) }
    }

    /// Handles a message that the servers have delivered.
    ///
    /// - Parameters:
    ///   - subject: where it was published to.
    ///   - reply: the subject for answers; empty if there is none.
    ///   - isNobodyThere: whether this is the servers' word (status 503) that nobody listens on the subject of a
    ///     request.
    ///   - payload: without headers.
    ///   - now: milliseconds of any clock that does not go back.
    ///   - sink: what is to be done goes there.
    public mutating func received(
        subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, isNobodyThere: Bool, payload: UnsafeRawBufferPointer,
        now: UInt64, _ sink: some BusSink
    ) {
        if let (receiver, nodeMessage) = space.nodeMessage(subject) {
            guard receiver == node else { return }
            return take(nodeMessage, reply: reply, isNobodyThere: isNobodyThere, payload, now: now, sink)
        }
        let isNamed = space.read(subject: subject, topic: &topic) && topic.withUnsafeBytes(TopicName.isLegal)
        let isWhole = BusBatch.forEach(payload) { take($0, isNamed: isNamed, now: now, sink) }
        if !isWhole { counters.illegible += 1 }
    }

    /// - Parameters:
    ///   - envelope: of one message.
    ///   - isNamed: whether `topic` is that of the subject.
    ///   - now: as above.
    ///   - sink: as above.
    private mutating func take(_ envelope: UnsafeRawBufferPointer, isNamed: Bool, now: UInt64, _ sink: some BusSink) {
        guard var decoded = ClusterMessage.decode(envelope, now: now) else {
            counters.illegible += 1
            return
        }
        guard decoded.node != node else { return }
        guard decoded.hasTopic ? TopicName.isLegal(decoded.message.topic) : isNamed else {
            counters.illegible += 1
            return
        }
        guard copies.isNew(decoded.sequence, from: decoded.node) else {
            counters.copies += 1
            return
        }
        counters.received += 1
        if let dispatch = decoded.message.dispatch {
            let names = dispatch.shares.filter { $0.node == node.rawValue }.compactMap { groups.name(of: $0.number) }
            decoded.message.dispatched = DispatchedGroups(names, hops: dispatch.hops)
        } else {
            decoded.message.undispatched = (by: decoded.node.rawValue, here: node.rawValue)
        }
        if decoded.hasTopic { return sink.deliver(decoded.message) }
        topic.withUnsafeBytes { bytes in
            decoded.message.topic = bytes
            sink.deliver(decoded.message)
        }
    }

    private mutating func drop() { counters.dropped += 1 }

    // MARK: What was held

    /// Sends what was held. Where a node that was chosen is gone since, or has no member any more, another one is
    /// chosen.
    mutating func leave(_ held: HeldMessage, now: UInt64, _ sink: some BusSink) {
        let peers = peers
        let stale = held.shares.filter {
            !peers.contains(NodeID($0.share.node)) || memories[NodeID($0.share.node)]?.number(of: $0.name) != $0.share.number
        }
        guard !stale.isEmpty else { return send(held.subject, held.payload, sink) }
        held.payload.withUnsafeBytes { bytes in
            guard let decoded = ClusterMessage.decode(bytes, now: now), var dispatch = decoded.message.dispatch else { return }
            var message = decoded.message
            dispatch.shares.removeAll { share in stale.contains { $0.share == share } }
            var here: [ShareGroupName] = []
            for (_, name) in stale {
                guard let chosen = choose(name, turn: decoded.sequence) else { continue }
                if chosen.node == node.rawValue { here.append(name) } else { dispatch.shares.append(chosen) }
            }
            message.dispatch = dispatch
            envelope.removeAll(keepingCapacity: true)
            message.encode(from: node, sequence: decoded.sequence, withTopic: decoded.hasTopic, now: now, into: &envelope)
            send(held.subject, envelope, sink)
            guard !here.isEmpty else { return }
            // For these groups alone, as if another node had passed it on.
            message.dispatched = DispatchedGroups(here, hops: max(1, dispatch.hops))
            if decoded.hasTopic { return sink.deliver(message) }
            guard held.subject.withUnsafeBytes({ space.read(subject: $0, topic: &topic) }) else { return }
            topic.withUnsafeBytes { bytes in
                message.topic = bytes
                sink.deliver(message)
            }
        }
    }

    /// The node whose turn it is in a share group, by what all nodes have told: one with a connected member, if there
    /// is any, by turns of members. The number of this node says nothing; nil if there is no member.
    func choose(_ name: ShareGroupName, turn: UInt64) -> GroupShare? {
        var sizes = [(share: GroupShare(node: node.rawValue, number: 0), size: groups.size(of: name))]
        for peer in peers.sorted() {
            guard let memory = memories[peer], let number = memory.number(of: name), let size = memory.size(of: name) else {
                continue
            }
            sizes.append((GroupShare(node: peer.rawValue, number: number), size))
        }
        for part in [\GroupSize.connected, \GroupSize.away] {
            let sum = sizes.reduce(0) { $0 + $1.size[keyPath: part] }
            guard sum > 0 else { continue }
            var place = Int(turn % UInt64(sum))
            for (share, size) in sizes {
                place -= size[keyPath: part]
                if place < 0 { return share }
            }
        }
        return nil
    }

    mutating func send(_ subject: [UInt8], _ payload: [UInt8], _ sink: some BusSink) {
        counters.sent += 1
        Self.publish(subject, reply: [], payload, count: 1, sink)
    }

    /// Sends a message to one node, behind all that was published before.
    mutating func sendNodeMessage(_ subject: [UInt8], reply: [UInt8], _ payload: [UInt8], _ sink: some BusSink) {
        sendCollected(sink)
        counters.nodeMessages += 1
        Self.publish(subject, reply: reply, payload, count: 0, sink)
    }

    private static func publish(_ subject: [UInt8], reply: [UInt8], _ payload: [UInt8], count: Int, _ sink: some BusSink) {
        subject.withUnsafeBytes { subject in
            reply.withUnsafeBytes { reply in
                payload.withUnsafeBytes { sink.publish(subject, reply: reply, payload: $0, count: count) }
            }
        }
    }
}

extension DispatchedGroups {
    init(_ names: [ShareGroupName], hops: UInt8) { self.init(names: names.map { ($0.shareName, $0.filter) }, hops: hops) }
}

/// A message that waits for the bus to open.
struct HeldMessage {
    let subject: [UInt8]
    let payload: [UInt8]
    /// The share groups of other nodes whose turn it was when it was published.
    let shares: [(share: GroupShare, name: ShareGroupName)]
}

/// The messages that wait for the bus to open, in their order.
///
/// Invariant: they have at most `Limits.heldBytesMax`.
struct HeldMessages {
    private var messages: [HeldMessage] = []
    private var byteCount = 0

    /// Returns false if there is no room for it.
    mutating func append(_ message: HeldMessage) -> Bool {
        let size = message.subject.count + message.payload.count
        guard byteCount + size <= Limits.heldBytesMax else { return false }
        byteCount += size
        messages.append(message)
        return true
    }

    mutating func take() -> [HeldMessage] {
        defer { (messages, byteCount) = ([], 0) }
        return messages
    }
}

/// Messages of a node that follow each other on one subject, and leave together: what a client sends quickly costs the
/// servers one message then.
///
///     2 │ (length │ envelope of a message)*
///
/// One alone is the envelope itself. Lengths are variable integers, as in it.
struct BusBatch {
    static let kind: UInt8 = 2

    private(set) var subject: [UInt8] = []
    private(set) var count = 0
    private var bytes: [UInt8] = []
    /// The offset of the first envelope.
    private var first = 0
    /// Bytes that leave together; 0 without a connection.
    var bytesMax = 0

    var isEmpty: Bool { count == 0 }

    /// Whether a message of so many bytes fits into the batch.
    func takes(_ byteCount: Int, on subject: [UInt8]) -> Bool {
        // A length has up to ten bytes.
        count > 0 && bytes.count + 10 + byteCount <= bytesMax && self.subject == subject
    }

    /// - Precondition: it is empty, or takes the message.
    mutating func append(_ envelope: [UInt8], on subject: [UInt8]) {
        if count == 0 {
            // Its room is used again.
            self.subject.removeAll(keepingCapacity: true)
            self.subject.append(contentsOf: subject)
            bytes.removeAll(keepingCapacity: true)
            bytes.append(Self.kind)
        }
        VariableInteger.append(UInt64(envelope.count), to: &bytes)
        if count == 0 { first = bytes.count }
        bytes.append(contentsOf: envelope)
        count += 1
    }

    /// Gives subject, payload and count of the batch to `body`, and empties it.
    mutating func take(_ body: (_ subject: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer, _ count: Int) -> Void) {
        subject.withUnsafeBytes { subject in
            bytes.withUnsafeBytes { bytes in
                body(subject, count == 1 ? UnsafeRawBufferPointer(rebasing: bytes[first...]) : bytes, count)
            }
        }
        count = 0
    }

    /// Gives the envelope of each message of a payload to `body`, which may be one alone.
    ///
    /// - Returns: false if the payload ends too soon, or has nothing in it.
    static func forEach(_ payload: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        guard payload.first == kind else {
            body(payload)
            return true
        }
        var reader = EnvelopeReader(UnsafeRawBufferPointer(rebasing: payload.dropFirst()))
        repeat {
            guard let envelope = reader.counted() else { return false }
            body(envelope)
        } while !reader.isAtEnd
        return true
    }
}

extension Limits {
    /// Bytes of messages that wait while a node joins the bus; what comes beyond them is dropped and counted.
    static let heldBytesMax = 16 << 20
}
