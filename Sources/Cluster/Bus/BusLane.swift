internal import MQTTCodec

/// One node's end of the bus lane: what its clients want of the other nodes, and what they publish, by way of the engine's subjects.
///
///     detached ── attached ──► joining ── fence complete ──► open
///         ▲                       │                            │
///         └───────────────────────┴────────── detached ────────┘
///
/// - detached: there is no connection. What is published is dropped and counted.
/// - joining: all interest has been asked for on a new connection, and every other node asked for an answer. What is published waits, because
///   the server may not have heard of the others' interest; at the latest when their answers come it has.
/// - open: what is published leaves at once.
///
/// The promise: interest whose ticket is confirmed gets every message that any node publishes afterwards, as long as the connections of the
/// two nodes stand; in the order of each publisher; once.
///
/// Owned by the loop that speaks to the engine. The order of calls is free, but for `attached` and `detached`, which alternate.
public struct BusLane {
    /// What becomes of a message that is published.
    public enum Outcome: Equatable, Sendable {
        case sent
        /// It leaves when the lane is open.
        case held
        /// There is no connection, or too much waits.
        case dropped
    }

    public enum State: Equatable, Sendable {
        case detached
        case joining
        case open
    }

    /// What has been counted since the node has started.
    public struct Counters: Equatable, Sendable {
        public var sent: UInt64 = 0
        public var received: UInt64 = 0
        /// Second copies, and messages that were overtaken.
        public var copies: UInt64 = 0
        /// Messages that found no connection, or no room to wait in.
        public var dropped: UInt64 = 0
        /// What came and cannot be read.
        public var illegible: UInt64 = 0
        /// Messages of fences that were sent, answers among them.
        public var nodeMessages: UInt64 = 0
    }

    /// What waits for the lane to open.
    struct HeldMessage {
        let subject: [UInt8]
        let payload: [UInt8]
        /// The share groups of other nodes whose turn it was when it was published.
        let shares: [(share: GroupShare, name: ShareGroupName)]
    }

    public internal(set) var node: NodeID
    let space: SubjectSpace
    let worksDetached: Bool
    /// Whether the node reads the log.
    let readsLog: Bool
    public internal(set) var state = State.detached
    public internal(set) var counters = Counters()
    var interest: InterestTable
    /// The engine's identifiers of a filter's subjects.
    var identifiers: [[UInt8]: [UInt64]] = [:]
    var lastIdentifier: UInt64 = 0
    var fences = FenceBook()
    var groups: GroupBook
    /// What the other nodes have told of their share groups.
    var memories: [NodeID: GroupMemory] = [:]
    var lastMemory: UInt64 = 0
    /// Up to which change of this node's share groups an answer to the fence under way has to know all.
    var fenceVersion: UInt64 = 0
    /// When fences go on for nodes that do not know of the share groups here, or have not told of theirs, though no interest waits for them.
    var tellsAgainAt: UInt64?
    var told: UInt64 = 0
    /// Of the newest filter that the engine was asked for.
    var interestTicket: UInt64 = 0
    /// When every node knows that a share group has members here, and connected ones: of those of which some do not yet.
    var groupTickets: [ShareGroupName: UInt64] = [:]
    /// The other nodes by the list of leases; nil until it came.
    var listed: Set<NodeID>?
    /// Others that have been heard of before the list named them.
    var arrived: Set<NodeID> = []
    var copies = SecondCopies()
    var lastSequence: UInt64 = 0
    var held: [HeldMessage] = []
    var heldBytes = 0
    /// What has been published and not sent.
    var batch = BusBatch()
    var batchBytesMax = 0
    var subject: [UInt8] = []
    var envelope: [UInt8] = []
    var topic: [UInt8] = []

    /// - Parameters:
    ///   - node: this one.
    ///   - space: the cluster's subjects.
    ///   - worksDetached: whether interest counts as in force while there is no connection; otherwise it waits for one.
    ///   - readsLog: whether the node reads the log, so that share groups may be dealt what stands there.
    ///   - filtersMax: beyond so many filters they are cut to prefixes; nil for the default.
    ///   - groupNewsBytesMax: bytes that a message tells of share groups at once; nil for the default.
    public init(
        node: NodeID, space: SubjectSpace, worksDetached: Bool, readsLog: Bool = false, filtersMax: Int? = nil,
        groupNewsBytesMax: Int? = nil
    ) {
        self.node = node
        self.space = space
        self.worksDetached = worksDetached
        self.readsLog = readsLog
        interest = InterestTable(filtersMax: filtersMax ?? Limits.interestFiltersMax)
        groups = GroupBook(newsBytesMax: groupNewsBytesMax ?? Limits.groupNewsBytesMax)
    }

    // MARK: The connection

    /// There is a connection to one of the engine's servers, which takes messages of so many bytes, and nothing has been sent on it.
    public mutating func attached(now: UInt64, payloadBytesMax: Int = .max, _ sink: some BusSink) {
        precondition(state == .detached, "a lane has one connection")
        state = .joining
        batchBytesMax = min(payloadBytesMax, Limits.batchBytesMax)
        ask(space.nodeMessages(to: node), sink)
        ask(space.overflow, sink)
        for filter in interest.asked { identifiers[filter] = space.subjects(of: filter).map { ask($0, sink) } }
        interestTicket = fences.need()
        join(now: now, sink)
    }

    /// The connection is gone.
    public mutating func detached(_ sink: some BusSink) {
        guard state != .detached else { return }
        state = .detached
        identifiers = [:]
        counters.dropped += UInt64(held.count)
        (held, heldBytes) = ([], 0)
        counters.sent -= UInt64(batch.count)
        counters.dropped += UInt64(batch.count)
        batch = BusBatch()
        fences.interrupt()
        if worksDetached { fences.waive() }
        tell(sink)
    }

    /// Without a connection: this node is another one for all others from now on. They may be others too: the list of them is waited for, unless the
    /// node goes on without the servers that have it.
    public mutating func begin(as node: NodeID) {
        precondition(state == .detached, "on a connection the others know who it is")
        self.node = node
        if !worksDetached { listed = nil }
    }

    /// The list of all nodes that hold a lease, this one's apart.
    ///
    /// A node writes its own lease before it reads the list for the first time: of two that start together one knows the other then,
    /// and asks it.
    public mutating func live(_ nodes: some Sequence<NodeID>, now: UInt64, _ sink: some BusSink) {
        let isFirst = listed == nil
        let all = Set(nodes).subtracting([node])
        listed = all
        arrived.subtract(all)
        let peers = all.union(arrived)
        copies.keep(peers)
        fences.keep(peers)
        keepGroups(sink)
        if state != .detached, all.contains(where: groups.isBehind) { _ = fences.need() }
        if isFirst, state == .joining { join(now: now, sink) }
        settle(now: now, sink)
    }

    /// Time has passed; to be called when `wakesAt` has come.
    public mutating func tick(now: UInt64, _ sink: some BusSink) {
        guard state != .detached else { return }
        if let tellsAgainAt, now >= tellsAgainAt {
            self.tellsAgainAt = nil
            _ = fences.need()
            settle(now: now, sink)
        }
        if fences.isRepeatDue(now: now) { askAll(sink) }
    }

    /// When `tick` has something to do, in the clock of `now`; nil for never.
    public var wakesAt: UInt64? {
        state == .detached ? nil : [fences.repeatsAt, tellsAgainAt].compactMap { $0 }.min()
    }

    // MARK: Interest

    /// One more wants what a filter matches (without `$share/NAME/`).
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when the interest is in force everywhere; nil if it is.
    public mutating func want(_ filter: [UInt8], now: UInt64, _ sink: some BusSink) -> UInt64? {
        let isAsked = carryOut(interest.insert(filter), sink)
        if state == .detached {
            guard !worksDetached else { return nil }
            interestTicket = fences.need()
            return interestTicket
        }
        if isAsked {
            interestTicket = fences.need()
            settle(now: now, sink)
        }
        // What was asked for before may not be in force yet, and cover it.
        return interestTicket > fences.complete ? interestTicket : nil
    }

    /// One less wants it.
    public mutating func release(_ filter: [UInt8], _ sink: some BusSink) { carryOut(interest.remove(filter), sink) }
}
