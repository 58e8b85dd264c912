public import BrokerModel
internal import MQTTCodec

/// One record of the log: what a node has packed together, each entry with all that its readers need.
///
///     version 2 │ node 8 │ queue │ number │ entry │ entry …        entry: kind │ length │ body
///
/// Numbers without a size are variable integers. The number counts the records of one queue of one node, from 1.
public struct Bundle {
    /// Where a bundle comes from: the queues of a node's incarnation.
    public struct Origin: Hashable, Sendable {
        public let node: NodeID
        public let queue: UInt8

        public init(node: NodeID, queue: UInt8) {
            self.node = node
            self.queue = queue
        }
    }

    /// One thing that has happened.
    public enum Entry {
        /// A message that lasting sessions are interested in, or that is retained.
        case message(BusMessage)
        /// The will of a session's connection; see `WillOrder`.
        case will(session: UnsafeRawBufferPointer, WillName, BusMessage)
        /// Up to this record of the partition all that share groups of the bundle's node were dispatched is done.
        case dispatched(through: UInt64)
        /// A node is gone, and the bundle's node would dispatch what it was not done with: of those who say so the
        /// first one in the log's first partition does. In each partition nothing counts that the node that is gone has
        /// behind it.
        case successor(of: NodeID)
        /// A node is gone, and the bundle's node does not know what that was not done with.
        case gone(NodeID)
        /// What has become of a packet identifier of a session, what a share group has dispatched to it, or that a node
        /// takes it up.
        case step(session: UnsafeRawBufferPointer, FlowStep)
    }

    private static let version: UInt8 = 2
    private static let messageKind: UInt8 = 1
    private static let willKind: UInt8 = 2
    private static let stepKind: UInt8 = 3
    private static let dispatchedKind: UInt8 = 4
    private static let successorKind: UInt8 = 5
    private static let goneKind: UInt8 = 6

    // MARK: Writing

    /// The bytes of a record in front of its entries.
    static func header(_ origin: Origin, number: UInt64) -> [UInt8] {
        var bytes = [version]
        append(origin.node.rawValue, to: &bytes)
        bytes.append(origin.queue)
        VariableInteger.append(number, to: &bytes)
        return bytes
    }

    /// The bytes of an entry.
    static func encode(_ entry: Entry) -> [UInt8] {
        var body: [UInt8] = []
        var bytes: [UInt8]
        switch entry {
        case .message(let message):
            bytes = [messageKind]
            message.encodeEntry(into: &body)
        case .will(let session, let name, let message):
            bytes = [willKind]
            appendWill(of: session, name, to: &body)
            message.encodeEntry(into: &body)
        case .dispatched(let sequence):
            bytes = [dispatchedKind]
            VariableInteger.append(sequence, to: &body)
        case .successor(let gone):
            bytes = [successorKind]
            append(gone.rawValue, to: &body)
        case .gone(let node):
            bytes = [goneKind]
            append(node.rawValue, to: &body)
        case .step(let session, let step):
            bytes = [stepKind]
            VariableInteger.append(UInt64(session.count), to: &body)
            body.append(contentsOf: session)
            append(step, to: &body)
        }
        bytes.reserveCapacity(body.count + 6)
        VariableInteger.append(UInt64(body.count), to: &bytes)
        return bytes + body
    }

    /// An entry that says nothing to anybody, of so many bytes or some more: a step of a session that there is not.
    static func encodeNothing(byteCount: Int) -> [UInt8] {
        let name = Array(repeating: UInt8(ascii: " "), count: min(byteCount, Limits.recordBytesMax))
        return name.withUnsafeBytes { encode(.step(session: $0, .nothing)) }
    }

    /// Eight bytes, the highest first.
    fileprivate static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
    }

    /// epoch │ number │ packet identifier │ kind │ [digest, or name 8] │ 2 for each identifier whose flow has ended
    private static func append(_ step: FlowStep, to body: inout [UInt8]) {
        VariableInteger.append(step.place.epoch, to: &body)
        VariableInteger.append(step.place.number, to: &body)
        VariableInteger.append(UInt64(step.packetIdentifier), to: &body)
        switch step.kind {
        case .mark: body.append(0)
        case .received(let digest):
            body.append(1)
            VariableInteger.append(UInt64(digest), to: &body)
        case .released: body.append(2)
        case .sent(let name):
            body.append(3)
            append(name.rawValue, to: &body)
        case .acknowledged: body.append(4)
        case .dispatched(let name):
            body.append(5)
            append(name.rawValue, to: &body)
        }
        for identifier in step.finished { body += [UInt8(identifier >> 8), UInt8(identifier & 0xff)] }
    }

    private static func appendWill(of session: some Collection<UInt8>, _ name: WillName, to body: inout [UInt8]) {
        VariableInteger.append(UInt64(session.count), to: &body)
        body.append(contentsOf: session)
        VariableInteger.append(name.epoch, to: &body)
        VariableInteger.append(name.number, to: &body)
    }

    /// The queue of records that have one will each. They are in no order, for several nodes may publish the same one.
    static let willQueue: UInt8 = 255

    /// A record with one will. Whoever publishes it does so under the same name, so that the servers store it once.
    ///
    /// - Parameters:
    ///   - will: with its message as an entry.
    ///   - session: its Client Identifier.
    ///   - node: who publishes it.
    public static func record(of will: SessionRecord.LastWill, of session: [UInt8], by node: NodeID) -> [UInt8] {
        var body: [UInt8] = []
        appendWill(of: session, will.name, to: &body)
        body += will.message
        var bytes = header(Origin(node: node, queue: willQueue), number: 1) + [willKind]
        VariableInteger.append(UInt64(body.count), to: &bytes)
        return bytes + body
    }

    // MARK: Reading

    public let origin: Origin
    public let number: UInt64
    private let entries: UnsafeRawBufferPointer

    /// Reads a record's header; nil if it is none, or of a version that this node does not know.
    public init?(_ record: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(record)
        guard reader.byte() == Self.version, let node = reader.fixed64(), let queue = reader.byte(), let number = reader.integer(),
            number > 0
        else { return nil }
        origin = Origin(node: NodeID(node), queue: queue)
        self.number = number
        entries = reader.rest
    }

    /// Gives each entry to `body`, in order; what lies in one is valid during the call.
    ///
    /// - Returns: false if what follows cannot be read.
    public func forEach(_ body: (Entry) -> Void) -> Bool {
        var reader = EnvelopeReader(entries)
        while !reader.isAtEnd {
            guard let kind = reader.byte(), let bytes = reader.counted(), let entry = Self.decode(kind, bytes) else { return false }
            body(entry)
        }
        return true
    }

    private static func decode(_ kind: UInt8, _ bytes: UnsafeRawBufferPointer) -> Entry? {
        switch kind {
        case messageKind: return BusMessage.decodeEntry(bytes).map { .message($0) }
        case willKind:
            var reader = EnvelopeReader(bytes)
            guard let session = reader.counted(), let epoch = reader.integer(), let number = reader.integer() else { return nil }
            return BusMessage.decodeEntry(reader.rest).map { .will(session: session, WillName(epoch: epoch, number: number), $0) }
        case dispatchedKind:
            var reader = EnvelopeReader(bytes)
            return reader.integer().map { .dispatched(through: $0) }
        case successorKind: return node(bytes).map { .successor(of: $0) }
        case goneKind: return node(bytes).map { .gone($0) }
        case stepKind:
            var reader = EnvelopeReader(bytes)
            guard let session = reader.counted(), let step = readStep(&reader) else { return nil }
            return .step(session: session, step)
        default: return nil
        }
    }

    private static func readStep(_ reader: inout EnvelopeReader) -> FlowStep? {
        guard let epoch = reader.integer(), let number = reader.integer(),
            let packetIdentifier = reader.integer().flatMap({ UInt16(exactly: $0) }), let code = reader.byte()
        else { return nil }
        let kind: FlowStep.Kind
        switch code {
        case 0: kind = .mark
        case 1:
            guard let digest = reader.integer().flatMap({ UInt32(exactly: $0) }) else { return nil }
            kind = .received(digest: digest)
        case 2: kind = .released
        case 3, 5:
            guard let name = reader.fixed64().map({ MessageName(rawValue: $0) }) else { return nil }
            kind = code == 3 ? .sent(name) : .dispatched(name)
        case 4: kind = .acknowledged
        default: return nil
        }
        // A mark and what was dispatched have no packet identifier, and all others have one.
        guard (packetIdentifier == 0) == (code == 0 || code == 5) else { return nil }
        var step = FlowStep(kind, packetIdentifier, at: FlowStep.Place(epoch: epoch, number: number))
        guard step.isOfDelivery || reader.isAtEnd else { return nil }
        while !reader.isAtEnd {
            guard let high = reader.byte(), let low = reader.byte() else { return nil }
            step.finished.append(UInt16(high) << 8 | UInt16(low))
        }
        return step
    }

    /// What the bundle's node says of share groups and of other nodes: up to where all is done that it was dispatched,
    /// if it says so, the nodes whose part it would dispatch, and all that are gone. Reads nothing else.
    public var dispatch: (through: UInt64?, successorOf: [NodeID], gone: [NodeID]) {
        var reader = EnvelopeReader(entries)
        var (through, successorOf, gone): (UInt64?, [NodeID], [NodeID]) = (nil, [], [])
        while let kind = reader.byte(), let bytes = reader.counted() {
            if kind == Self.dispatchedKind {
                var reader = EnvelopeReader(bytes)
                through = reader.integer() ?? through
            } else if kind == Self.successorKind || kind == Self.goneKind, let node = Self.node(bytes) {
                gone.append(node)
                if kind == Self.successorKind { successorOf.append(node) }
            }
        }
        return (through, successorOf, gone)
    }

    /// A node's number, and nothing else.
    private static func node(_ bytes: UnsafeRawBufferPointer) -> NodeID? {
        guard bytes.count == 8 else { return nil }
        return NodeID(bytes.reduce(0 as UInt64) { $0 << 8 | UInt64($1) })
    }
}

extension BusMessage {
    /// The message as an entry of the log has it: without what only the bus carries.
    public var entry: [UInt8] {
        var bytes: [UInt8] = []
        encodeEntry(into: &bytes)
        return bytes
    }

    /// Reads what `entry` has made; nil if it is something else. The bytes have to live as long as the message.
    public init?(entry bytes: UnsafeRawBufferPointer) {
        guard let message = Self.decodeEntry(bytes) else { return nil }
        self = message
    }

    /// As an entry of the log: flags │ [milliseconds left] │ [publisher 8] │ [hops │ [name before 8, with hops] │ count │ (node 8 │ group 8 │ member)*]
    /// │ topic's length │ topic │ properties' length │ properties │ payload.
    fileprivate func encodeEntry(into bytes: inout [UInt8]) {
        bytes.append(
            qos.rawValue | (retain ? 4 : 0) | (millisecondsLeft == nil ? 0 : 8) | (publisher == 0 ? 0 : 16)
                | (logShares.isEmpty ? 0 : 32))
        if let millisecondsLeft { VariableInteger.append(millisecondsLeft, to: &bytes) }
        if publisher != 0 { Bundle.append(publisher, to: &bytes) }
        if !logShares.isEmpty {
            bytes.append(hops)
            if hops > 0 { Bundle.append(nameBefore, to: &bytes) }
            VariableInteger.append(UInt64(logShares.count), to: &bytes)
            for share in logShares {
                for number in [share.node.rawValue, share.group] { Bundle.append(number, to: &bytes) }
                VariableInteger.append(share.member, to: &bytes)
            }
        }
        VariableInteger.append(UInt64(topic.count), to: &bytes)
        bytes.append(contentsOf: topic)
        VariableInteger.append(UInt64(properties.count), to: &bytes)
        bytes.append(contentsOf: properties)
        bytes.append(contentsOf: payload)
    }

    fileprivate static func decodeEntry(_ bytes: UnsafeRawBufferPointer) -> BusMessage? {
        var reader = EnvelopeReader(bytes)
        guard let flags = reader.byte(), flags & 0b1100_0000 == 0, let qos = QoS(rawValue: flags & 3) else { return nil }
        var millisecondsLeft: UInt64?
        if flags & 8 != 0 {
            guard let left = reader.integer() else { return nil }
            millisecondsLeft = left
        }
        var publisher: UInt64 = 0
        if flags & 16 != 0 {
            guard let key = reader.fixed64(), key != 0 else { return nil }
            publisher = key
        }
        var (hops, nameBefore, shares): (UInt8, UInt64, [LogShare]) = (0, 0, [])
        if flags & 32 != 0 {
            guard let some = reader.byte() else { return nil }
            if some > 0 {
                guard let name = reader.fixed64() else { return nil }
                nameBefore = name
            }
            guard let read = readLogShares(&reader) else { return nil }
            (hops, shares) = (some, read)
        }
        guard let topic = reader.counted(), let properties = reader.counted(), TopicName.isLegal(topic) else { return nil }
        var message = BusMessage(
            topic: topic, properties: properties, payload: reader.rest, qos: qos, retain: flags & 4 != 0,
            millisecondsLeft: millisecondsLeft)
        message.publisher = publisher
        (message.hops, message.nameBefore, message.logShares) = (hops, nameBefore, shares)
        return message
    }

    private static func readLogShares(_ reader: inout EnvelopeReader) -> [LogShare]? {
        guard let count = reader.integer() else { return nil }
        var shares: [LogShare] = []
        // Each takes bytes, so that a large count ends where these do.
        for _ in 0..<count {
            guard let node = reader.fixed64(), let group = reader.fixed64(), let member = reader.integer() else { return nil }
            shares.append(LogShare(node: NodeID(node), group: group, member: member))
        }
        return shares
    }
}

extension FlowStep {
    /// Says nothing to anybody.
    public static let nothing = FlowStep(.mark, 0, at: .start)
}
