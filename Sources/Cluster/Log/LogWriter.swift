import Bytes

/// Takes what has to be in the log to one of its partitions, packed into records as large as the servers' pace makes
/// them.
///
///     append ──► queue 0   entries that wait   [record under way]  ──► servers
///                queue 1   entries that wait   [record under way]  ──►
///                …        by publisher: what one publishes stays in one queue
///
/// A queue has one record under way. While it is, what comes waits, and goes together in the next one: slow servers get
/// few large records, quick ones many small ones. With four queues four are under way at once, which is what servers
/// need that sync each record.
///
/// What became of a record is unknown until the servers have answered: without an answer the same record is sent again
/// under the same Nats-Msg-Id, until there is one. Nothing of the same queue is sent in between, so each publisher's
/// order holds whatever happens. (With several records of one publisher under way, the first could be lost with a
/// leader and the second not.) It is given up before the servers forget the identifier, and nobody is told that it is
/// stored then.
///
/// Without a connection it waits as long, and is refused then.
///
/// Of a log that has no room the servers say so at once. What they were asked to store then is not there, unless the
/// same record had been sent before: that one is tried on. Messages that come are refused from then on, also those that
/// might fit, so that each publisher's order holds. Every second the writer looks whether there is room again, with a
/// record that says nothing and is as large as the one that was refused.
///
/// Invariant: a queue with entries that wait has a record under way while there is a connection.
public struct LogWriter {
    private struct Waiting {
        /// What goes into one record.
        let entries: ArraySlice<UInt8>
        let waiter: LogWaiter
    }

    private struct Record {
        let number: UInt64
        let bytes: [UInt8]
        let waiters: [LogWaiter]
        let firstSentAt: UInt64
        var sendsAt: UInt64
        /// Whether it was sent more than once: an earlier one may have been stored.
        var isRepeated = false
    }

    private struct Queue {
        var waiting = Deque<Waiting>()
        var record: Record?
        /// Since when entries wait without a record under way: there is no connection.
        var waitsSince: UInt64?
        var lastNumber: UInt64 = 0
        /// How many entries are over: stored, or given up.
        var finished: UInt64 = 0
    }

    /// Up to which of a queue's entries a publisher's messages had been appended.
    public struct Place: Hashable, Sendable {
        let queue: Int
        let count: UInt64
    }

    private var node: NodeID
    private let partition: Int
    private let recordBytesMax: Int
    private let outageMilliseconds: UInt64
    private var queues: [Queue]
    private var isAttached = false
    /// While the log has no room: bytes of the largest record that was refused, up to those of one that was packed; and
    /// when it is looked next.
    private var lacking: (byteCount: Int, looksAt: UInt64)?
    /// Bytes that wait, and are under way.
    public private(set) var waitingBytes = 0

    /// - Parameters:
    ///   - node: this incarnation of this node.
    ///   - partition: goes into the identifiers of the records.
    ///   - recordBytesMax: entries are packed up to so many bytes; a larger entry has a record of its own.
    ///   - outageMilliseconds: how long an answer is waited for; well below the stream's duplicate window.
    public init(node: NodeID, partition: Int, recordBytesMax: Int? = nil, outageMilliseconds: UInt64? = nil) {
        self.node = node
        self.partition = partition
        self.recordBytesMax = recordBytesMax ?? Limits.recordBytesMax
        self.outageMilliseconds = outageMilliseconds ?? Limits.outageMilliseconds
        queues = Array(repeating: Queue(), count: Limits.logQueues)
    }

    /// Whether so much waits that nothing more should be read from publishers.
    public var isFull: Bool { waitingBytes > Limits.logWaitingBytesMax }

    /// Whether the servers have refused a record for want of room, and none of its size has been stored since.
    public var lacksRoom: Bool { lacking != nil }

    /// How many records are under way.
    public var recordCount: Int { queues.count { $0.record != nil } }

    /// The position behind all that a publisher has appended so far. `hasPassed` says when all of that is in the log,
    /// or is given up.
    public func place(of publisher: UInt64) -> Place {
        let queue = queueOf(publisher)
        let open = (queues[queue].record?.waiters.count ?? 0) + queues[queue].waiting.count
        return Place(queue: queue, count: queues[queue].finished + UInt64(open))
    }

    public func hasPassed(_ place: Place) -> Bool { queues[place.queue].finished >= place.count }

    private func queueOf(_ publisher: UInt64) -> Int { Int(publisher % UInt64(queues.count)) }

    // MARK: Input

    /// Something has to be in the log. `LogSink.stored` or `failed` follows with who waits for it.
    ///
    /// - Parameters:
    ///   - entries: what, as it will stand there. They go into one record.
    ///   - publisher: whose; what has the same publisher keeps its order.
    ///   - waiter: who waits for it; in the order of one publisher they come back.
    ///   - now: milliseconds of a clock that does not go back.
    ///   - sink: what is to be done goes there.
    public mutating func append(
        _ entries: ArraySlice<UInt8>, publisher: UInt64, for waiter: LogWaiter, now: UInt64, _ sink: some LogSink
    ) {
        let index = queueOf(publisher)
        // What says nothing but a step may fit.
        guard lacking == nil || !waiter.isOfMessage else { return sink.failed(waiter, .noRoom, partition: partition) }
        waitingBytes += entries.count
        queues[index].waiting.append(Waiting(entries: entries, waiter: waiter))
        if !isAttached, queues[index].record == nil, queues[index].waitsSince == nil { queues[index].waitsSince = now }
        send(index, now: now, sink)
    }

    /// Goes on as another incarnation of the node; to be called without a connection. No entry of the last incarnation
    /// is reported as stored any more.
    public mutating func begin(as node: NodeID, _ sink: some LogSink) {
        precondition(!isAttached, "a record under way is the last run's")
        self.node = node
        for index in queues.indices {
            if let record = queues[index].record { giveUp(index, record, sink) } else { turnAway(index, sink) }
        }
    }

    /// Goes on with a new connection: records that are under way are sent again, since they may have been lost with the
    /// last one.
    public mutating func attached(now: UInt64, _ sink: some LogSink) {
        isAttached = true
        for index in queues.indices {
            if queues[index].record == nil { send(index, now: now, sink) } else { resend(index, now: now, sink) }
        }
    }

    public mutating func detached() { isAttached = false }

    /// Takes the servers' answer to a record. An answer to a record that is no longer under way is ignored.
    public mutating func answered(queue index: Int, number: UInt64, _ answer: StoreAnswer, now: UInt64, _ sink: some LogSink) {
        guard queues.indices.contains(index), let record = queues[index].record, record.number == number else { return }
        switch answer {
        case .stored(let sequence):
            if let lacking, record.bytes.count >= lacking.byteCount { self.lacking = nil }
            end(index, record)
            for waiter in record.waiters { sink.stored(waiter, at: sequence, partition: partition) }
            send(index, now: now, sink)
        case .unavailable:
            queues[index].record?.sendsAt = min(record.sendsAt, now + Limits.logRetryMilliseconds)
        case .noRoom:
            // A larger record than others are is no reason to refuse these.
            let byteCount = min(record.bytes.count, recordBytesMax)
            let isLarger = record.bytes.count > recordBytesMax
            lacking = (max(lacking?.byteCount ?? 0, byteCount), isLarger ? now : now + Limits.logRoomMilliseconds)
            guard !record.isRepeated else {
                queues[index].record?.sendsAt = min(record.sendsAt, now + Limits.logRetryMilliseconds)
                return
            }
            end(index, record)
            let behind = queues[index].waiting.filter(\.waiter.isOfMessage)
            queues[index].waiting.removeAll(where: \.waiter.isOfMessage)
            waitingBytes -= behind.reduce(0) { $0 + $1.entries.count }
            queues[index].finished += UInt64(behind.count)
            fail(record.waiters + behind.map(\.waiter), .noRoom, sink)
            send(index, now: now, sink)
        // A record expects nothing of those before it.
        case .refused, .conflict:
            end(index, record)
            fail(record.waiters, .refused, sink)
            send(index, now: now, sink)
        }
    }

    /// Does what is due by now; to be called when `wakesAt` has come.
    public mutating func tick(now: UInt64, _ sink: some LogSink) {
        if let lacking, isAttached, now >= lacking.looksAt { lookForRoom(lacking.byteCount, now: now, sink) }
        for index in queues.indices {
            guard let record = queues[index].record else {
                if let since = queues[index].waitsSince, now >= since + outageMilliseconds { turnAway(index, sink) }
                continue
            }
            if now >= record.firstSentAt + outageMilliseconds {
                giveUp(index, record, sink)
            } else if now >= record.sendsAt, isAttached {
                resend(index, now: now, sink)
            }
        }
    }

    /// When `tick` has something to do; nil for never.
    public var wakesAt: UInt64? {
        let ofQueues = queues.compactMap { queue in
            queue.record.map { min($0.firstSentAt + outageMilliseconds, isAttached ? $0.sendsAt : .max) }
                ?? queue.waitsSince.map { $0 + outageMilliseconds }
        }
        return (ofQueues + (isAttached ? [lacking?.looksAt].compactMap { $0 } : [])).min()
    }

    /// Looks whether the log has room again: has a record without meaning stored, in a queue that is empty.
    private mutating func lookForRoom(_ byteCount: Int, now: UInt64, _ sink: some LogSink) {
        lacking?.looksAt = now + Limits.logRoomMilliseconds
        guard let index = queues.indices.first(where: { queues[$0].record == nil && queues[$0].waiting.isEmpty }) else { return }
        let padding = Bundle.encodeNothing(byteCount: byteCount)
        waitingBytes += padding.count
        queues[index].waiting.append(Waiting(entries: padding[...], waiter: .nobody))
        send(index, now: now, sink)
    }

    // MARK: Records

    /// Sends what waits in a queue, unless it has a record under way.
    private mutating func send(_ index: Int, now: UInt64, _ sink: some LogSink) {
        guard isAttached, queues[index].record == nil, !queues[index].waiting.isEmpty else { return }
        queues[index].waitsSince = nil
        queues[index].lastNumber += 1
        let number = queues[index].lastNumber
        var bytes = Bundle.header(Bundle.Origin(node: node, queue: UInt8(index)), number: number)
        var count = 0
        for waiting in queues[index].waiting {
            guard count == 0 || bytes.count + waiting.entries.count <= recordBytesMax else { break }
            bytes += waiting.entries
            count += 1
        }
        let waiters = queues[index].waiting.prefix(count).map(\.waiter)
        waitingBytes += bytes.count - queues[index].waiting.prefix(count).reduce(0) { $0 + $1.entries.count }
        queues[index].waiting.removeFirst(count)
        queues[index].record = Record(
            number: number, bytes: bytes, waiters: waiters, firstSentAt: now, sendsAt: now + Limits.logAnswerMilliseconds)
        sink.store(bytes, messageID: messageID(index, number), partition: partition, queue: index, number: number)
    }

    private mutating func resend(_ index: Int, now: UInt64, _ sink: some LogSink) {
        guard let record = queues[index].record else { return }
        queues[index].record?.sendsAt = now + Limits.logAnswerMilliseconds
        queues[index].record?.isRepeated = true
        let messageID = messageID(index, record.number)
        sink.store(record.bytes, messageID: messageID, partition: partition, queue: index, number: record.number)
    }

    /// Gives a record up whose fate is unknown, and all that waits behind it: its publishers are closed and publish
    /// anew, and their later messages must not come before the earlier ones.
    private mutating func giveUp(_ index: Int, _ record: Record, _ sink: some LogSink) {
        end(index, record)
        let waiting = queues[index].waiting
        waitingBytes -= waiting.reduce(0) { $0 + $1.entries.count }
        queues[index].waiting = []
        queues[index].finished += UInt64(waiting.count)
        fail(record.waiters + waiting.map(\.waiter), .unknown, sink)
    }

    /// Fails the entries of a queue that were never sent: they are certainly not in the log.
    private mutating func turnAway(_ index: Int, _ sink: some LogSink) {
        let waiting = queues[index].waiting
        waitingBytes -= waiting.reduce(0) { $0 + $1.entries.count }
        (queues[index].waiting, queues[index].waitsSince) = ([], nil)
        queues[index].finished += UInt64(waiting.count)
        fail(waiting.map(\.waiter), .refused, sink)
    }

    private func fail(_ waiters: [LogWaiter], _ failure: LogFailure, _ sink: some LogSink) {
        for waiter in waiters { sink.failed(waiter, failure, partition: partition) }
    }

    private mutating func end(_ index: Int, _ record: Record) {
        queues[index].record = nil
        queues[index].finished += UInt64(record.waiters.count)
        waitingBytes -= record.bytes.count
    }

    private func messageID(_ queue: Int, _ number: UInt64) -> String { "\(node)-\(partition)-\(queue)-\(number)" }
}

/// What the servers answer to a record that is to be stored in a stream.
public enum StoreAnswer: Equatable, Sendable {
    /// The record stands in the stream at this place: now, or since it was sent before.
    case stored(at: UInt64)
    /// It was to be stored if its subject's last record was a certain one, or if there was none, and that is not so.
    case conflict
    /// There is no leader or no majority just now, or the same record is under way: it may be tried again.
    case unavailable
    /// There is no room for it: it is not in the stream, and may be taken when there is.
    case noRoom
    /// The servers do not take it, and would not take it again: the record is too large.
    case refused
}

/// Who waits until something is in the log.
public enum LogWaiter: Hashable, Sendable {
    /// A shard, for a message of its batch with this token of the `BatchLedger`.
    case message(batch: UInt64)
    /// A shard, for a step of its batch that stands in the log without a message.
    case step(batch: UInt64)
    /// A reader with this number, who reads on up to there.
    case reader(UInt64)
    case nobody

    /// What a log without room refuses at once: a step may fit.
    var isOfMessage: Bool { if case .message = self { true } else { false } }
}

/// Why something did not get into the log.
public enum LogFailure: Equatable, Sendable {
    /// The servers have refused it: it is not in the log.
    case refused
    /// The log had no room for it: it is not there, and there may be room later.
    case noRoom
    /// No answer came for longer than may be waited: nobody knows whether it is in the log.
    case unknown
}

/// Carries out what a `LogWriter` decides. It does not call the writer from its methods.
public protocol LogSink: AnyObject {
    /// Asks the servers to store a record; its answer goes to `LogWriter.answered` with the same queue and number.
    ///
    /// - Parameters:
    ///   - record: the payload.
    ///   - messageID: goes along as Nats-Msg-Id, by which the engine knows a record that it has.
    ///   - partition: the writer's.
    ///   - queue: for the answer.
    ///   - number: for the answer.
    func store(_ record: [UInt8], messageID: String, partition: Int, queue: Int, number: UInt64)

    /// What this one waits for is in a partition of the log: it may be acknowledged.
    func stored(_ waiter: LogWaiter, at sequence: UInt64, partition: Int)

    /// What this one waits for is not, or may not be: it must not be acknowledged. Of a fate that is unknown, its
    /// publisher is closed before anything else of it is appended.
    func failed(_ waiter: LogWaiter, _ failure: LogFailure, partition: Int)
}

extension Limits {
    /// Bytes that wait for the log; beyond them publishers are not read from.
    static let logWaitingBytesMax = 16 << 20

    /// How often it is looked whether a log has room again that had none, in milliseconds.
    static let logRoomMilliseconds: UInt64 = 1000

    /// How long a record is tried, in milliseconds: half of the duplicate window that the streams are made with.
    static let outageMilliseconds: UInt64 = 60_000
}
