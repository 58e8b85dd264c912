internal import MQTTCodec

/// One node's end of the bus: what its clients want of the other nodes, and what they publish, by way of the servers'
/// subjects.
///
///     detached ── attached ──► joining ── fence complete ──► open
///         ▲                       │                            │
///         └───────────────────────┴────────── detached ────────┘
///
/// - detached: there is no connection. What is published is dropped and counted.
/// - joining: all interest has been asked for on a new connection, and every other node asked for an answer. What is
///   published waits, because the server may not have heard of the others' interest; at the latest when their answers
///   come it has.
/// - open: what is published leaves at once.
///
/// The promise: interest whose ticket is confirmed gets every message that any node publishes afterwards, as long as
/// the connections of the two nodes stand; in the order of each publisher; once.
///
/// Owned by the loop that speaks to the servers. The order of calls is free, but for `attached` and `detached`, which
/// alternate.
public struct ClusterBus {
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
        /// Messages that came and cannot be read.
        public var illegible: UInt64 = 0
        /// Messages of fences that were sent, answers among them.
        public var nodeMessages: UInt64 = 0
    }

    public internal(set) var node: NodeID
    let space: SubjectSpace
    let worksDetached: Bool
    /// Whether the node reads the log.
    let readsLog: Bool
    public internal(set) var state = State.detached
    public internal(set) var counters = Counters()
    var interest: InterestTable
    /// The subscriptions of this connection at the servers: those to each filter's subjects.
    var subscriptions: [[UInt8]: [UInt64]] = [:]
    var fences = FenceBook()
    var groups: GroupBook
    /// The share groups of the other nodes, as these have told of them.
    var memories = GroupMemories()
    /// Up to which change of this node's share groups an answer to the fence under way has to know all.
    var fenceVersion: UInt64 = 0
    /// When the next fence begins for nodes that do not know the share groups here, or have not told of theirs, even if
    /// no interest waits for one.
    var tellsAgainAt: UInt64?
    var tickets = InterestTickets()
    /// The other nodes by the list of leases; nil until it came.
    var listed: Set<NodeID>?
    /// The other nodes that have been heard of before the list named them.
    var arrived: Set<NodeID> = []
    var copies = SecondCopies()
    var lastSequence: UInt64 = 0
    var held = HeldMessages()
    /// The messages that are published and not sent yet.
    var batch = BusBatch()
    var subject: [UInt8] = []
    var envelope: [UInt8] = []
    var topic: [UInt8] = []

    /// - Parameters:
    ///   - node: this one.
    ///   - space: the cluster's subjects.
    ///   - worksDetached: whether interest counts as in force while there is no connection; otherwise it waits for one.
    ///   - readsLog: whether the node reads the log, so that share groups may be given what stands there.
    ///   - groupNewsBytesMax: bytes that a message tells of share groups at once; nil for the default.
    public init(
        node: NodeID, space: SubjectSpace, worksDetached: Bool, readsLog: Bool = false, groupNewsBytesMax: Int? = nil
    ) {
        self.node = node
        self.space = space
        self.worksDetached = worksDetached
        self.readsLog = readsLog
        interest = InterestTable(filtersMax: Limits.interestFiltersMax)
        groups = GroupBook(newsBytesMax: groupNewsBytesMax ?? Limits.groupNewsBytesMax)
    }

    // MARK: The connection

    /// There is a new connection to one of the servers, which accepts messages of so many bytes.
    public mutating func attached(now: UInt64, payloadBytesMax: Int = .max, _ sink: some BusSink) {
        precondition(state == .detached, "a lane has one connection")
        state = .joining
        batch.bytesMax = min(payloadBytesMax, Limits.batchBytesMax)
        _ = sink.subscribe(space.nodeMessages(to: node))
        _ = sink.subscribe(space.overflow)
        for filter in interest.asked { subscriptions[filter] = space.subjects(of: filter).map { sink.subscribe($0) } }
        tickets.interest = fences.need()
        if listed != nil { begin(now: now, sink) }
        settle(now: now, sink)
    }

    /// The connection is gone.
    public mutating func detached(_ sink: some BusSink) {
        guard state != .detached else { return }
        state = .detached
        subscriptions = [:]
        counters.dropped += UInt64(held.take().count)
        counters.sent -= UInt64(batch.count)
        counters.dropped += UInt64(batch.count)
        batch = BusBatch()
        fences.interrupt()
        if worksDetached { fences.waive() }
        report(sink)
    }

    /// Goes on as another incarnation of this node; to be called without a connection. The other nodes may have changed
    /// too, so their list is waited for, unless the node goes on without the servers that have it.
    public mutating func begin(as node: NodeID) {
        precondition(state == .detached, "on a connection the others know who it is")
        self.node = node
        if !worksDetached { listed = nil }
    }

    /// The list of all nodes that hold a lease, this one's apart.
    ///
    /// A node writes its own lease before it reads the list for the first time: of two that start together one knows
    /// the other then, and asks it.
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
        if isFirst, state == .joining { begin(now: now, sink) }
        settle(now: now, sink)
    }

    /// Does what is due by now; to be called when `wakesAt` has come.
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

    /// Counts one more subscription to a filter (without `$share/NAME/`).
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when the interest is in force everywhere; nil if it is.
    public mutating func want(_ filter: [UInt8], now: UInt64, _ sink: some BusSink) -> UInt64? {
        let isAsked = carryOut(interest.insert(filter), sink)
        if state == .detached {
            guard !worksDetached else { return nil }
            tickets.interest = fences.need()
            return tickets.interest
        }
        if isAsked {
            tickets.interest = fences.need()
            settle(now: now, sink)
        }
        // What was asked for before may not be in force yet, and cover it.
        return tickets.interest > fences.complete ? tickets.interest : nil
    }

    /// Counts one subscription to a filter less.
    public mutating func release(_ filter: [UInt8], _ sink: some BusSink) { carryOut(interest.remove(filter), sink) }
}

/// Share groups on the bus.
extension ClusterBus {
    /// Takes note of how many members of a share group a shard of this node has.
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when every node knows that the group has members here, and
    ///   connected ones, if it has; nil if all do. How many there are nobody has to wait for.
    public mutating func members(
        of name: ShareGroupName, part: Int, _ size: GroupSize, now: UInt64, _ sink: some BusSink
    ) -> UInt64? {
        let isNew = !groups.knows(name)
        let before = groups.size(of: name)
        if groups.set(name, part: part, size) {
            // Until all know that the last member has gone, messages for it come, which are to go on to others.
            if isNew, carryOut(interest.insert(name.filter), sink) { tickets.interest = fences.need() }
            if state != .detached || !worksDetached {
                let ticket = fences.need()
                let after = groups.size(of: name)
                if before.isEmpty || before.connected == 0 && after.connected > 0 { tickets.groups[name] = ticket }
            }
            if state != .detached { settle(now: now, sink) }
        }
        guard let ticket = tickets.groups[name] else { return nil }
        if ticket > fences.complete { return ticket }
        tickets.groups[name] = nil
        return nil
    }

    /// The ticket behind all interest, and all changes of share groups, so far. `isInForce` says when every node knows
    /// them.
    public var lastTicket: UInt64 { fences.last }

    public func isInForce(_ ticket: UInt64) -> Bool { ticket <= fences.complete }

    /// All shards of this node know what `BusSink.learn` has told them with this receipt.
    public mutating func learned(_ receipt: GroupReceipt, _ sink: some BusSink) {
        memories.learned(receipt)
        if state != .detached, !receipt.reply.isEmpty { answer(receipt.node, receipt.reply, sink) }
    }

    /// Answers a node's fence, with all that it has to know before it opens its bus.
    mutating func answer(_ peer: NodeID, _ reply: [UInt8], _ sink: some BusSink) {
        sendNodeMessage(reply, reply: [], nodeMessage(to: peer).encoded, sink)
    }

    mutating func nodeMessage(to peer: NodeID) -> GroupUpdate {
        var nodeMessage = groups.nodeMessage(for: peer)
        nodeMessage.readsLog = readsLog
        nodeMessage.known = memories[peer]?.learned ?? GroupWord()
        return nodeMessage
    }

    /// Whether a node lacks something of the share groups here, or has not told of its own.
    func isStrange(_ peer: NodeID) -> Bool { groups.isBehind(peer) || memories[peer] == nil }

    mutating func keepGroups(_ sink: some BusSink) {
        let peers = peers
        for name in groups.keep(peers) { carryOut(interest.remove(name.filter), sink) }
        for node in memories.forget(except: peers) { sink.forget(node) }
    }

    /// Takes up what a node tells of its share groups, and what it knows of those here. If the node has asked, it is
    /// answered when all shards of this node know as much.
    ///
    /// - Parameter reply: where to answer; empty for nowhere.
    mutating func hear(_ nodeMessage: GroupUpdate, of peer: NodeID, reply: [UInt8], _ sink: some BusSink) {
        groups.heard(nodeMessage.known, of: peer)
        // Taken out, so that nothing is copied.
        var memory = memories.take(peer)
        var news = memory.take(nodeMessage)
        for index in news.indices { news[index].readsLog = nodeMessage.readsLog }
        memories[peer] = memory
        guard memory.told != memory.learned else {
            if !reply.isEmpty { answer(peer, reply, sink) }
            return
        }
        sink.learn(news, of: peer, GroupReceipt(node: peer, memory: memory.number, word: memory.told, reply: reply))
    }

    /// The nodes that have not answered the fence under way, sorted.
    public var waitingFor: [NodeID] { fences.waitingFor }
}

/// What the servers are asked for, and whether the other nodes have heard of it.
extension ClusterBus {
    /// Returns whether the servers have been asked for something new.
    @discardableResult
    mutating func carryOut(_ changes: [InterestTable.Change], _ sink: some BusSink) -> Bool {
        guard state != .detached else { return false }
        var isAsked = false
        for change in changes {
            switch change {
            case .add(let filter):
                let subjects = space.subjects(of: filter)
                subscriptions[filter] = subjects.map { sink.subscribe($0) }
                if !subjects.isEmpty { isAsked = true }
            case .drop(let filter):
                for subscription in subscriptions.removeValue(forKey: filter) ?? [] { sink.unsubscribe(subscription) }
            }
        }
        return isAsked
    }

    // MARK: Fences

    var peers: Set<NodeID> { (listed ?? []).union(arrived) }

    /// Begins the next fence. The first one on a connection opens the bus, as soon as the list of nodes is known.
    mutating func begin(now: UInt64, _ sink: some BusSink) {
        fenceVersion = groups.version
        fences.begin(peers, now: now)
        askAll(sink)
    }

    mutating func askAll(_ sink: some BusSink) {
        for peer in fences.waitingFor { ask(peer, sink) }
    }

    mutating func ask(_ peer: NodeID, _ sink: some BusSink) {
        guard let number = fences.currentNumber else { return }
        let question = state == .joining ? space.arrival(to: peer) : space.fence(to: peer)
        sendNodeMessage(question, reply: space.answer(to: node, from: peer, fence: number), nodeMessage(to: peer).encoded, sink)
    }

    mutating func take(
        _ nodeMessage: SubjectSpace.NodeMessage, reply: UnsafeRawBufferPointer, isNobodyThere: Bool,
        _ payload: UnsafeRawBufferPointer, now: UInt64, _ sink: some BusSink
    ) {
        switch nodeMessage {
        case .fence, .arrival:
            guard let told = GroupUpdate(reading: payload), case (let peer, .answer(let asked, _))? = space.nodeMessage(reply),
                asked == node
            else {
                counters.illegible += 1
                return
            }
            if listed?.contains(peer) != true { arrived.insert(peer) }
            fences.heard(peer)
            hear(told, of: peer, reply: Array(reply), sink)
            // What it was asked on an earlier connection may have been lost with that.
            if nodeMessage == .arrival, fences.waitingFor.contains(peer) { ask(peer, sink) }
            if nodeMessage == .arrival, groups.isBehind(peer) {
                _ = fences.need()
                settle(now: now, sink)
            }
        case .answer(let peer, let number):
            if isNobodyThere {
                if fences.absent(peer, number, now: now) { arrived.remove(peer) }
            } else {
                guard let told = GroupUpdate(reading: payload) else {
                    counters.illegible += 1
                    return
                }
                let before = groups.known(to: peer)
                hear(told, of: peer, reply: [], sink)
                let known = groups.known(to: peer)
                if groups.knowsAll(peer, through: fenceVersion) {
                    fences.answered(peer, number)
                } else if known != before, fences.waitingFor.contains(peer) {
                    ask(peer, sink)
                }
            }
            settle(now: now, sink)
        }
    }

    /// Opens the bus if it has joined, begins the next fence if one is wanted, and tells what is in force.
    mutating func settle(now: UInt64, _ sink: some BusSink) {
        guard state != .detached, listed != nil else { return report(sink) }
        if state == .joining, fences.currentNumber == nil {
            state = .open
            for message in held.take() { leave(message, now: now, sink) }
        }
        while fences.currentNumber == nil, fences.last > fences.complete { begin(now: now, sink) }
        keepGroups(sink)
        if fences.currentNumber != nil || !peers.contains(where: isStrange) {
            tellsAgainAt = nil
        } else if tellsAgainAt == nil {
            tellsAgainAt = now + Limits.fenceRepeatMilliseconds
        }
        report(sink)
    }

    mutating func report(_ sink: some BusSink) {
        if tickets.complete(through: fences.complete) { sink.confirm(through: fences.complete) }
    }
}

/// The fences that interest of this node waits for.
struct InterestTickets {
    /// The ticket of the newest filter that the servers were asked for.
    var interest: UInt64 = 0
    /// When every node knows that a share group has members here, and connected ones: of those of which some do not
    /// yet.
    var groups: [ShareGroupName: UInt64] = [:]
    private var reported: UInt64 = 0

    /// Takes note that all nodes have answered up to a fence; returns whether that is news.
    mutating func complete(through fence: UInt64) -> Bool {
        guard fence > reported else { return false }
        reported = fence
        groups = groups.filter { $0.value > fence }
        return true
    }
}

/// Knows the second copies of messages, which the servers send where several of a node's filters match.
///
/// A node numbers its messages, and the servers keep the order of one connection's. So what is not newer than the last
/// one is a copy, or has been overtaken while its sender changed to another server: order is a promise, arrival on this
/// bus is none.
struct SecondCopies {
    /// The last number of each node. There are few nodes, so they are searched one by one for each message.
    private var last: [(node: NodeID, sequence: UInt64)] = []

    /// Whether a message has not come yet.
    mutating func isNew(_ sequence: UInt64, from node: NodeID) -> Bool {
        guard let place = last.firstIndex(where: { $0.node == node }) else {
            last.append((node, sequence))
            return sequence > 0
        }
        guard sequence > last[place].sequence else { return false }
        last[place].sequence = sequence
        return true
    }

    /// Forgets all nodes but these, since the others will send nothing more.
    mutating func keep(_ nodes: Set<NodeID>) { last.removeAll { !nodes.contains($0.node) } }
}

extension Limits {
    /// How many filters a node asks the servers for; beyond them they are cut to prefixes, and more comes than is
    /// wanted. Bytes: `subjectBytesMax` each at most.
    static let interestFiltersMax = 10_000

    /// Bytes of messages of one topic that leave together.
    static let batchBytesMax = 32 << 10
}
