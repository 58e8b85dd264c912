import BrokerModel
import MQTTCodec

/// A walk over the retained messages that match a filter, a few steps at a time.
///
/// A hundred thousand of them delay nobody: the shard takes some steps each turn, as its receiver keeps up. What is
/// retained after the scan began is passed over: the subscription is in force by then and has got it as a live message.
struct RetainedScan {
    enum Step {
        case message(Message)
        /// The steps allowed are used up; go on in a later turn.
        case pause
        case finished
    }

    private enum Level {
        case literal([UInt8])
        case single
        case multi
    }

    /// A chain of siblings of which `cursor` is the next to visit, to be matched against the levels from `depth` on.
    private struct Frame {
        var cursor: UInt32
        let depth: Int
    }

    private let levels: [Level]
    private let startStamp: UInt64
    private var stack: [Frame] = []
    private var isStarted = false
    /// A node that matched and waits to be handed out.
    private var found = RetainedStore.none

    /// - Parameter startStamp: the store's stamp when the subscription began, if that was earlier.
    init(filter: UnsafeRawBufferPointer, store: borrowing RetainedStore, startStamp: UInt64? = nil) {
        self.startStamp = startStamp ?? store.stamp
        var levels: [Level] = []
        var sequence = LevelSequence(filter)
        while let text = sequence.next() {
            if LevelSequence.isSingleLevelWildcard(text) {
                levels.append(.single)
            } else if LevelSequence.isMultiLevelWildcard(text) {
                levels.append(.multi)
            } else {
                levels.append(.literal(Array(text)))
            }
        }
        self.levels = levels
    }

    /// The next match, after at most `steps` nodes.
    mutating func next(in store: inout RetainedStore, steps: inout Int) -> Step {
        if !isStarted {
            isStarted = true
            enter(RetainedStore.root, depth: 0, &store)
        }
        while steps > 0 {
            steps -= 1
            if found != RetainedStore.none {
                let node = found
                found = RetainedStore.none
                let message = store.nodes[node].stamp <= startStamp ? store.message(of: node) : nil
                store.unpin(node)
                if let message { return .message(message) }
                continue
            }
            guard var frame = stack.popLast() else { return .finished }
            let node = frame.cursor
            frame.cursor = store.nodes[node].nextSibling
            if frame.cursor != RetainedStore.none { push(frame, &store) }
            if !isHidden(node, store) { enter(node, depth: frame.depth, &store) }
            store.unpin(node)
        }
        return .pause
    }

    /// Ends the scan before it has come to its end: it gives up its place in the tree.
    mutating func end(in store: inout RetainedStore) {
        if found != RetainedStore.none { store.unpin(found) }
        for frame in stack { store.unpin(frame.cursor) }
        (found, stack) = (RetainedStore.none, [])
    }

    private mutating func push(_ frame: Frame, _ store: inout RetainedStore) {
        store.pin(frame.cursor)
        stack.append(frame)
    }

    private mutating func find(_ node: UInt32, _ store: inout RetainedStore) {
        store.pin(node)
        found = node
    }

    /// Works off a node whose path matches the levels before `depth`.
    private mutating func enter(_ start: UInt32, depth startDepth: Int, _ store: inout RetainedStore) {
        var node = start
        var depth = startDepth
        // Literal levels lead straight down; no frame is needed for them.
        while depth < levels.count, case .literal(let text) = levels[depth] {
            let level = store.level(text)
            guard level != LevelTable.none else { return }
            node = store.edges.child(of: node, level: level)
            guard node != EdgeTable.none else { return }
            depth += 1
        }
        guard depth < levels.count else {
            find(node, &store)
            return
        }
        let child = store.nodes[node].firstChild
        if case .multi = levels[depth] {
            // `a/#` matches `a` too; and below, every node matches, with the same level.
            if node != RetainedStore.root { find(node, &store) }
            if child != RetainedStore.none { push(Frame(cursor: child, depth: depth), &store) }
        } else if child != RetainedStore.none {
            push(Frame(cursor: child, depth: depth + 1), &store)
        }
    }

    /// Whether a wildcard at the first level must not match the node. [MQTT-4.7.2-1 v5]
    private func isHidden(_ node: UInt32, _ store: borrowing RetainedStore) -> Bool {
        guard store.nodes[node].parent == RetainedStore.root else { return false }
        switch levels.first {
        case .single, .multi: return store.levels.text(of: store.nodes[node].level).first == UInt8(ascii: "$")
        case .literal, nil: return false
        }
    }
}

/// A scan of this shard's retained messages that is under way, for a session of this shard or of another one.
///
/// One for another shard may be ahead of its session by as many messages as its query allows. Where half of these have
/// been sent since it last asked for more, the message asks; once that has been taken, and the session has room, the
/// same number is granted anew.
struct OpenScan {
    /// Tells it from every other scan of the shard.
    let number: UInt64
    let query: RetainedQuery
    var scan: RetainedScan
    /// For a scan on behalf of another shard: how many messages it may still send.
    private(set) var credit: Int
    /// How many it has sent since it last asked for more.
    private var unasked = 0
    /// Whether nothing is left to be found.
    var isFinished = false

    init(number: UInt64, query: RetainedQuery, scan: RetainedScan) {
        self.number = number
        self.query = query
        self.scan = scan
        credit = query.credit
    }

    /// A message of it goes to another shard. Returns how many more are to be granted once that has taken it; mostly 0.
    ///
    /// Each KiB beyond the first counts as a message more: what waits for a receiver that does not read is bounded in
    /// bytes, too.
    mutating func send(byteCount: Int) -> UInt32 {
        let count = 1 + byteCount / 1024
        credit -= count
        unasked += count
        guard unasked >= (query.credit + 1) / 2 else { return 0 }
        defer { unasked = 0 }
        return UInt32(unasked)
    }

    mutating func grant(_ count: Int) { credit += count }
}

/// A subscription's wish for the retained messages that match it, to be answered by the shards that hold them; or the
/// mark behind such wishes.
struct RetainedQuery: Sendable {
    /// The filter, without a `$share` prefix.
    let filter: [UInt8]
    /// The shard and the session to deliver to.
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The subscription's options when its turn came.
    var terms: SubscriptionTerms
    /// What `RetainedArrivals` of the asking shard gave when the subscription began.
    let stamp: UInt64
    /// The stamp of the asking shard's own store from which on messages came live.
    var startStamp: UInt64 = 0
    /// How many messages each other shard may send ahead of what the session has taken.
    var credit = 0
    /// The mark that this is instead, which has the turn behind all that were asked before it.
    var mark: EndOfRetained?
}

extension RetainedQuery {
    /// A mark of a session of `shard`.
    init(mark: EndOfRetained, shard: Int, _ session: Session) {
        self.init(
            filter: mark.topic.bytes, shard: shard, sessionIndex: session.index, sessionKey: session.key,
            terms: SubscriptionTerms(maximumQoS: .atMostOnce), stamp: 0, mark: mark)
    }
}

/// A client's wish to be told when it has every retained message that a SUBSCRIBE asked for.
///
/// A client that names the filter `$SYS/broker/subscribed/NONCE` in a SUBSCRIBE, with a nonce of its own, gets a
/// message on that topic, alone and once: QoS 0, without payload, behind all that was retained when the other filters
/// of the packet came into force. Elsewhere it is an ordinary filter on which nothing comes. It is no subscription: no
/// session keeps it, nobody else's messages match it, and rights do not bear on it, as it tells nothing but when the
/// broker has done.
///
///     SUBSCRIBE ─► queries … mark ─► every scan before it has ended ─► other shards' messages are in ─► what waits before it is sent ─► PUBLISH
struct EndOfRetained: Sendable {
    /// What the client has named, and gets.
    let topic: EncodedString
    /// The client's: on another connection of the session nobody has asked.
    let connection: ConnectionID
    /// The Subscription Identifier of the SUBSCRIBE, 0 for none. [MQTT-3.3.4-3 v5]
    let identifier: UInt32
    /// At most so many messages that go first still wait in the session's queue.
    var messagesBefore = 0

    private static let prefix = Array("$SYS/broker/subscribed/".utf8)

    /// The mark that a filter stands for; nil if it is an ordinary one: without a nonce, with one of several levels or
    /// wildcards, too long, or shared.
    init?(_ filter: TopicFilter, connection: ConnectionID, identifier: UInt32) {
        guard filter.bytes.first == UInt8(ascii: "$"), filter.bytes.starts(with: Self.prefix),
            (1...Limits.endOfRetainedNonceBytesMax).contains(filter.bytes.count - Self.prefix.count)
        else { return nil }
        let isPlain = filter.bytes.dropFirst(Self.prefix.count).allSatisfy {
            $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "#")
        }
        guard isPlain, let topic = EncodedString(filter.bytes) else { return nil }
        (self.topic, self.connection, self.identifier) = (topic, connection, identifier)
    }
}

/// The end marks that a connection's client waits for.
struct EndsOfRetained {
    /// How many there are, wherever they stand.
    var count = 0
    /// The marks that only wait for messages to leave the queue, in order.
    var behindQueue: [EndOfRetained] = []
}

extension RetainedScanning {
    /// Whether a connection's client may wait for one more mark.
    func takes(_ mark: EndOfRetained, _ connection: Connection) -> Bool {
        let extras = connection.makeExtras()
        guard extras.endsOfRetained.count < Limits.endsOfRetainedMax else { return false }
        extras.endsOfRetained.count += 1
        return true
    }

    /// Every scan that a mark waited for has ended. A message that was retained meanwhile, and that the scans therefore
    /// passed over, may still be on its way from its publisher's shard: the mark goes once these have answered.
    func scansEnded(before mark: EndOfRetained) {
        guard let connection = waitingConnection(of: mark) else { return }
        if shard.shardCount > 1 {
            shard.messaging.hold(.endOfRetained(mark), connection.id)
        } else {
            queue(mark, connection)
        }
    }

    /// The mark goes behind what waits in its session's queue by now.
    func queue(_ mark: EndOfRetained, _ connection: Connection) {
        guard let waiting = connection.session?.queue.waiting, waiting > 0 else {
            return shard.storing.sendWhenDurable(.endOfRetained(mark), to: connection)
        }
        var mark = mark
        mark.messagesBefore = waiting
        connection.makeExtras().endsOfRetained.behindQueue.append(mark)
        connection.hasQueuedEndsOfRetained = true
    }

    /// `count` messages of the queue have gone out, or have been given up; what has disappeared otherwise is no more
    /// than `left` says.
    func queueMoved(by count: Int, left: Int, _ connection: Connection) {
        guard let extras = connection.extras else { return }
        for position in extras.endsOfRetained.behindQueue.indices {
            let before = extras.endsOfRetained.behindQueue[position].messagesBefore
            extras.endsOfRetained.behindQueue[position].messagesBefore = min(before - count, left)
        }
        while let mark = extras.endsOfRetained.behindQueue.first, mark.messagesBefore <= 0 {
            extras.endsOfRetained.behindQueue.removeFirst()
            shard.storing.sendWhenDurable(.endOfRetained(mark), to: connection)
        }
        connection.hasQueuedEndsOfRetained = !extras.endsOfRetained.behindQueue.isEmpty
    }

    /// Sends a mark. One that is larger than the client takes is not sent. [MQTT-3.1.2-24 v5]
    func send(_ mark: EndOfRetained, to connection: Connection) {
        connection.extras?.endsOfRetained.count -= 1
        var packet = PublishPacket(topic: mark.topic)
        if mark.identifier != 0 { packet.properties.subscriptionIdentifiers = [mark.identifier] }
        shard.sending.send(.publish(packet), to: connection)
    }

    private func waitingConnection(of mark: EndOfRetained) -> Connection? {
        guard let connection = shard.connections.find(mark.connection), connection.state == .connected else { return nil }
        return connection
    }
}

extension Limits {
    /// Bytes of the nonce of an end mark; a filter with a longer one is an ordinary filter.
    static let endOfRetainedNonceBytesMax = 64

    /// End marks that a client may wait for; one more is refused with Quota exceeded. Bytes:
    /// `endOfRetainedNonceBytesMax` each.
    static let endsOfRetainedMax = 64
}
