import Bytes

/// One node's part in the cluster's retained messages: takes its changes to the stream, and follows it.
///
/// ```
///   away ──► reading ──────────► settling ──► sweeping ──► following
///    ▲ └───► catching up ──────────►  └─────────────────────► │ │ └──► reading
///    └────────────────────────────────────────────────────────┘
/// ```
/// reading: all of the stream, since the node has just started, or was away for longer than tombstones of deleted
/// messages stay, or the stream is another one, or another node has told of a change that was never stored. catching
/// up: what has changed while it was away. settling: the shards, one after the other, say that they have taken in what
/// was read. sweeping: what the stream does not have is removed, shard after shard; or offered to it, if the node's
/// retained messages were never in this cluster. following: as it comes.
public struct RetainedReplica {
    enum State: Equatable {
        case away
        case reading
        case catchingUp
        case settling(shard: Int)
        case sweeping(shard: Int)
        case following
    }

    private var node: NodeID
    /// The earlier incarnations of this node.
    private var earlier: Set<NodeID> = []
    private let space: SubjectSpace
    private let shardCount: Int
    private var isMember: Bool
    private(set) var state = State.away
    private var writer: RetainedWriter
    /// The number of the record that is to be read next.
    private var nextSequence: UInt64 = 1
    /// Whether all was read and swept since the node has started.
    private var hasRead = false
    /// The last record that was there when the reading began.
    private var target: UInt64 = 0
    private var awaySince: UInt64 = 0
    /// Whether the sweep offers what the stream does not have: the node is new to the cluster, or the stream has never
    /// had anything, so that it was lost with the servers' disks and the nodes' own stores are what is left.
    private var offers = false
    /// Which sweep; the answers to an earlier one do not count.
    private var round: UInt64 = 0
    /// Where the sweep goes on when the offers are stored.
    private var sweepCursor: Int?
    private var looksAt: UInt64 = 0
    /// Records that could not be read, and changes that the servers have refused for good.
    public private(set) var illegible: UInt64 = 0
    public private(set) var refused: UInt64 = 0

    /// - Parameters:
    ///   - node: this incarnation of this node.
    ///   - space: the cluster's.
    ///   - shardCount: how many shards the node has.
    ///   - isMember: whether the node's retained messages have been in this cluster before.
    public init(node: NodeID, space: SubjectSpace, shardCount: Int, isMember: Bool) {
        (self.node, self.space, self.shardCount, self.isMember) = (node, space, shardCount, isMember)
        writer = RetainedWriter(shardCount: shardCount)
    }

    /// Goes on as another incarnation of this node. Changes that wait for the stream keep the names that they were
    /// given.
    public mutating func begin(as node: NodeID) {
        earlier.insert(self.node)
        self.node = node
    }

    /// Whether the node has what the stream has, as far as anybody can tell.
    public var isCurrent: Bool {
        switch state {
        case .away, .reading, .catchingUp, .settling: false
        // What is offered is there.
        case .sweeping: offers
        case .following: true
        }
    }

    /// Whether so many changes wait that no more should come.
    public var isFull: Bool { writer.isFull }
    /// How many changes wait for the stream.
    public var waitingCount: Int { writer.count }

    // MARK: Changes

    /// Begins a group of changes that belong together.
    ///
    /// - Parameters:
    ///   - count: how many there are; `change` follows for each, with the ticket.
    ///   - shard: whose changes they are.
    ///   - serial: named by `isSafe`; 0 for no need.
    /// - Returns: the ticket; nil if nobody is to be told.
    public mutating func begin(_ count: Int, of shard: Int, serial: UInt64) -> UInt64? {
        serial == 0 || count == 0 ? nil : writer.ledger.begin(serial, of: shard, count: count)
    }

    /// Takes a change of a retained message to the stream.
    ///
    /// - Parameters:
    ///   - record: with the change's number; its node is this one's.
    ///   - millisecondsLeft: of its life; nil for ever.
    ///   - ticket: from `begin`; nil for an offer.
    ///   - isOffer: whether it counts only if the stream has nothing of its topic.
    ///   - now: milliseconds of a clock that does not go back.
    ///   - sink: what is to be done goes there.
    public mutating func change(
        _ record: RetainedRecord, millisecondsLeft: UInt64?, _ ticket: UInt64?, isOffer: Bool = false, now: UInt64,
        _ sink: some RetainedSink
    ) {
        var record = record
        record.node = node
        writer.append(
            RetainedChangeToStore(
                subject: space.retained(record.topic), record: record.encoded(), number: record.number,
                secondsToLive: record.secondsToLive(millisecondsLeft), isOffer: isOffer), ticket, now: now, sink)
    }

    /// The numbers of the changes of a topic that are not in the stream yet.
    public func changes(of topic: UnsafeRawBufferPointer) -> [UInt64] { writer.changes(of: space.retained(topic)) }

    /// Whether one of these changes is still on its way to the stream.
    public func isOpen(_ changes: [UInt64], of topic: UnsafeRawBufferPointer) -> Bool {
        writer.isOpen(changes, of: space.retained(topic))
    }

    /// Takes the servers' answer to a change.
    public mutating func answered(_ number: UInt64, _ answer: StoreAnswer, now: UInt64, _ sink: some RetainedSink) {
        writer.answered(number, answer, now: now, sink)
        if answer == .refused {
            refused += 1
            // What counts here is not what the stream has.
            if state == .following { readAll(sink) }
        }
        goOnSweeping(sink)
    }

    // MARK: The stream

    /// The stream was found, on a new connection or again.
    ///
    /// - Parameters:
    ///   - lastSequence: the number of its last record, 0 for none.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    public mutating func found(lastSequence: UInt64, now: UInt64, _ sink: some RetainedSink) {
        let isSame = lastSequence + 1 >= nextSequence
        target = lastSequence
        guard state == .away else {
            if !isSame { readAll(sink) }
            return
        }
        looksAt = now + Limits.staleLookMilliseconds
        writer.attached(now: now, sink)
        if hasRead, isSame, now - awaySince <= Limits.retainedAbsenceMillisecondsMax {
            state = .catchingUp
            round += 1
            sink.follow(from: nextSequence)
            if nextSequence > target { caughtUp(sink) }
        } else {
            readAll(sink)
        }
    }

    /// The connection is gone.
    public mutating func detached(now: UInt64) {
        writer.detached()
        guard state != .away else { return }
        (state, awaySince) = (.away, now)
    }

    /// Takes a record of the stream, in its order.
    ///
    /// - Parameters:
    ///   - record: its payload; empty for a mark of the servers' own.
    ///   - sequence: its place in the stream.
    ///   - sink: what is to be done about it.
    public mutating func received(_ record: UnsafeRawBufferPointer, sequence: UInt64, _ sink: some RetainedSink) {
        guard state != .away, sequence >= nextSequence else { return }
        nextSequence = sequence + 1
        // The servers' own marks have no payload.
        if !record.isEmpty {
            if var record = RetainedRecord(record) {
                if record.node == node || earlier.contains(record.node) { record.node = NodeID(0) }
                sink.settle(record)
            } else {
                illegible += 1
            }
        }
        if sequence >= target { caughtUp(sink) }
    }

    /// Takes note that the reading has reached the end of the stream. The last records that were there when it was
    /// found may have gone meanwhile.
    public mutating func caughtUp(_ sink: some RetainedSink) {
        switch state {
        case .reading, .catchingUp:
            state = .settling(shard: 0)
            sink.sweep(0, from: .max, offers: false, round: round)
        case .away, .settling, .sweeping, .following: return
        }
    }

    /// Takes note that a shard has swept a part of its messages; `next` is where it goes on, nil when it is done.
    public mutating func swept(next: Int?, round: UInt64, _ sink: some RetainedSink) {
        guard round == self.round else { return }
        switch state {
        case .settling(let shard) where shard + 1 < shardCount:
            state = .settling(shard: shard + 1)
            sink.sweep(shard + 1, from: .max, offers: false, round: round)
        case .settling where hasRead: state = .following
        case .settling:
            state = .sweeping(shard: 0)
            sink.sweep(0, from: 0, offers: offers, round: round)
        case .sweeping:
            sweepCursor = next ?? .max
            goOnSweeping(sink)
        case .away, .reading, .catchingUp, .following: return
        }
    }

    /// Reads the stream anew, because changes that other nodes have told of are not in it.
    public mutating func foundStale(_ sink: some RetainedSink) { if state == .following { readAll(sink) } }

    private mutating func readAll(_ sink: some RetainedSink) {
        (state, hasRead, nextSequence, sweepCursor) = (.reading, false, 1, nil)
        offers = !isMember || target == 0
        round += 1
        sink.beginReading()
        sink.follow(from: 1)
        if target == 0 { caughtUp(sink) }
    }

    private mutating func goOnSweeping(_ sink: some RetainedSink) {
        guard case .sweeping(let shard) = state, let place = sweepCursor, writer.offerCount == 0 else { return }
        sweepCursor = nil
        if place != .max { return sink.sweep(shard, from: place, offers: offers, round: round) }
        if shard + 1 < shardCount {
            state = .sweeping(shard: shard + 1)
            return sink.sweep(shard + 1, from: 0, offers: offers, round: round)
        }
        (state, hasRead) = (.following, true)
        if !isMember { sink.becameMember() }
        isMember = true
    }

    // MARK: Time

    /// Does what is due by now; to be called when `wakesAt` has come.
    ///
    /// - Returns: whether the shards should look for changes that others have told of and the stream does not have.
    public mutating func tick(now: UInt64, _ sink: some RetainedSink) -> Bool {
        writer.tick(now: now, sink)
        guard state == .following, looksAt <= now else { return false }
        looksAt = now + Limits.staleLookMilliseconds
        return true
    }

    /// When `tick` has something to do, in the clock of `now`; nil for never.
    public var wakesAt: UInt64? {
        [writer.wakesAt, state == .following ? looksAt : nil].compactMap { $0 }.min()
    }
}

/// Takes changes of retained messages to the stream: of each topic one at a time, the newest of those that wait.
///
///     append ─► waiting[subject] ─► queue ─► under way ─► stored
///               a newer one takes its place, and what it stands for is safe with it
///
/// What became of a change is unknown until the servers have answered: it is sent again under the same name until there
/// is an answer, and no other of its topic in between. So a topic's changes stand in the stream in the order in which
/// the node has made them.
struct RetainedWriter {
    private struct Waiting {
        var change: RetainedChangeToStore
        /// The tickets of what is safe when the change is stored.
        var tickets: [UInt64]
    }

    private struct UnderWay {
        let change: RetainedChangeToStore
        let tickets: [UInt64]
        var sendsAt: UInt64
    }

    private var waiting: [[UInt8]: Waiting] = [:]
    /// The subjects in `waiting` of which nothing is under way, in order.
    private var queue = Deque<[UInt8]>()
    private var underWay: [UInt64: UnderWay] = [:]
    private var busySubjects: Set<[UInt8]> = []
    private var isAttached = false
    private(set) var waitingBytes = 0
    /// How many offers wait or are under way.
    private(set) var offerCount = 0
    var ledger: BatchLedger

    init(shardCount: Int) { ledger = BatchLedger(shardCount: shardCount) }

    var isFull: Bool { waitingBytes > Limits.retainedWaitingBytesMax }
    /// How many changes wait or are under way.
    var count: Int { waiting.count + underWay.count }

    /// The changes of a subject that wait or are under way.
    func changes(of subject: [UInt8]) -> [UInt64] {
        var numbers = waiting[subject].map { [$0.change.number] } ?? []
        guard busySubjects.contains(subject) else { return numbers }
        numbers += underWay.values.filter { $0.change.subject == subject }.map(\.change.number)
        return numbers
    }

    /// Whether one of these changes of a subject waits or is under way: not if a newer one has taken its place.
    func isOpen(_ numbers: [UInt64], of subject: [UInt8]) -> Bool {
        numbers.contains { underWay[$0] != nil || waiting[subject]?.change.number == $0 }
    }

    // MARK: Input

    mutating func append(_ change: RetainedChangeToStore, _ ticket: UInt64?, now: UInt64, _ sink: some RetainedSink) {
        let subject = change.subject
        let isBusy = busySubjects.contains(subject)
        if change.isOffer {
            // What this node has changed since is newer.
            guard !isBusy, waiting[subject] == nil else { return }
            offerCount += 1
        }
        var tickets = ticket.map { [$0] } ?? []
        if let before = waiting[subject] {
            tickets = before.tickets + tickets
            waitingBytes -= before.change.record.count
            if before.change.isOffer { offerCount -= 1 }
        } else if !isBusy {
            queue.append(subject)
        }
        waitingBytes += change.record.count
        waiting[subject] = Waiting(change: change, tickets: tickets)
        send(now: now, sink)
    }

    mutating func attached(now: UInt64, _ sink: some RetainedSink) {
        isAttached = true
        for number in underWay.keys.sorted() { resend(number, now: now, sink) }
        send(now: now, sink)
    }

    mutating func detached() { isAttached = false }

    /// Takes the servers' answer to a change. An answer to a change that is no longer under way is ignored.
    mutating func answered(_ number: UInt64, _ answer: StoreAnswer, now: UInt64, _ sink: some RetainedSink) {
        guard let entry = underWay[number] else { return }
        switch answer {
        case .unavailable, .noRoom:
            underWay[number]?.sendsAt = min(entry.sendsAt, now + Limits.logRetryMilliseconds)
            return
        // Of an offer there is something of its topic.
        case .stored, .conflict, .refused: break
        }
        underWay[number] = nil
        busySubjects.remove(entry.change.subject)
        waitingBytes -= entry.change.record.count
        if entry.change.isOffer { offerCount -= 1 }
        if waiting[entry.change.subject] != nil { queue.append(entry.change.subject) }
        if !entry.tickets.isEmpty {
            for ticket in entry.tickets { ledger.done(ticket) }
            for outcome in ledger.take() { sink.isSafe(outcome.serial, of: outcome.shard) }
        }
        send(now: now, sink)
    }

    mutating func tick(now: UInt64, _ sink: some RetainedSink) {
        guard isAttached else { return }
        for number in underWay.keys.sorted() where underWay[number]?.sendsAt ?? .max <= now { resend(number, now: now, sink) }
    }

    /// When `tick` has something to do; nil for never.
    var wakesAt: UInt64? { isAttached ? underWay.values.map(\.sendsAt).min() : nil }

    // MARK: Sending

    private mutating func send(now: UInt64, _ sink: some RetainedSink) {
        guard isAttached else { return }
        while underWay.count < Limits.retainedUnderWayMax, let subject = queue.popFirst() {
            guard let entry = waiting.removeValue(forKey: subject) else { continue }
            busySubjects.insert(subject)
            underWay[entry.change.number] = UnderWay(
                change: entry.change, tickets: entry.tickets, sendsAt: now + Limits.logAnswerMilliseconds)
            sink.store(entry.change)
        }
    }

    private mutating func resend(_ number: UInt64, now: UInt64, _ sink: some RetainedSink) {
        guard let entry = underWay[number] else { return }
        underWay[number]?.sendsAt = now + Limits.logAnswerMilliseconds
        sink.store(entry.change)
    }
}

/// A change on its way to the stream.
public struct RetainedChangeToStore: Equatable, Sendable {
    public let subject: [UInt8]
    public let record: [UInt8]
    /// Names it in the answer, and, with the node, as Nats-Msg-Id to the servers.
    public let number: UInt64
    /// After how many seconds the stream forgets it; nil for never.
    public let secondsToLive: UInt64?
    /// Whether it is to be stored only if the stream has nothing of its topic.
    public let isOffer: Bool
}

/// Carries out what a `RetainedReplica` decides. It does not call the replica from its methods.
public protocol RetainedSink: AnyObject {
    /// Asks the servers to store a change; its answer goes to `RetainedReplica.answered` with the same number.
    func store(_ change: RetainedChangeToStore)

    /// Says that all changes of a shard up to this serial are in the stream.
    func isSafe(_ serial: UInt64, of shard: Int)

    /// Asks for the records of the stream from this number on, in order.
    func follow(from sequence: UInt64)

    /// Gives a record of the stream to its shard, which compares it with its own retained message.
    func settle(_ record: RetainedRecord)

    /// Says that all of the stream is about to be read: from now on the shards mark the messages that it has.
    func beginReading()

    /// Has a shard remove the messages that the stream does not have, or offer them; `RetainedReplica.swept` follows.
    func sweep(_ shard: Int, from place: Int, offers: Bool, round: UInt64)

    /// Says that the cluster has all retained messages of this node.
    func becameMember()
}

extension Limits {
    /// How many changes of retained messages of one node are under way to the stream. Bytes: `retainedWaitingBytesMax`.
    static let retainedUnderWayMax = 256

    /// Bytes of changes of retained messages that wait for the stream, or are under way; beyond them nothing more is
    /// retained.
    static let retainedWaitingBytesMax = 16 << 20

    /// How long a node may be away and still read on where it was in the stream of retained messages, in milliseconds:
    /// half of what tombstones of deleted messages stay there. Beyond it all is read.
    static let retainedAbsenceMillisecondsMax: UInt64 = 43_200_000

    /// How often a node looks for what others have told it of and the stream has not, in milliseconds.
    static let staleLookMilliseconds: UInt64 = 1_000
}
