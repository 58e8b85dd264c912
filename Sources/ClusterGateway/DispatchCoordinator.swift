import BrokerCore
import BrokerModel
package import Cluster
import NATSClient
import Platform
import ServerLoops

/// What share groups dispatch of the cluster's log, as one node sees it: how far this node is done with its part, and
/// whose part it dispatches when another is gone, or when this one is there again: it was killed, or has lost its
/// lease.
///
///     shards ── dispatched ──► DispatchProgress ──► the log ──► all nodes
///     a node is gone ────────┐
///     earlier incarnations of this ──┴─► the log: successor(of:) ──► the first in it ──► ClusterLog.whenRead ──► LogRereader ──► learnDispatched, then dispatchAgain
///                                                                                                    └────────► learnEarlierDispatches, followEarlierDispatches, dispatchEarlier
///
/// `NodeSuccessors` decides which node dispatches.
///
/// Belongs to the loop that speaks to the servers.
final class DispatchCoordinator {
    private unowned let loop: ShardLoop
    private let incarnations: NodeIncarnations
    private let log: ClusterLog
    private let replay: LogRereader
    private var book = DispatchProgress()
    /// The others that are there; nil before they are known.
    private var others: Set<NodeID>?
    private var successors: NodeSuccessors
    /// Whether the shards have dispatched what earlier incarnations were.
    private var areEarlierDispatchesSettled = false
    /// What the shards have answered to the question under way.
    private var answers: [Int: [DispatchProgress.Dispatched]] = [:]

    /// Makes the coordinator, before any loop runs and after `BrokerShard.joinCluster`.
    init(_ incarnations: NodeIncarnations, on loop: ShardLoop, log: ClusterLog, replay: LogRereader) {
        (self.loop, self.incarnations, self.log, self.replay) = (loop, incarnations, log, replay)
        successors = NodeSuccessors(incarnations.current)
        begin(loop.loops.compactMap(\.shard.unsettledEarlierDispatches))
    }

    /// Another incarnation has begun.
    ///
    /// - Parameter parts: what the shards say, as in `BrokerShard.unsettledEarlierDispatches`.
    func beginIncarnation(_ parts: [StoredDispatches]) {
        answers = [:]
        replay.forgetEarlierDispatches()
        begin(parts)
    }

    private func begin(_ parts: [StoredDispatches]) {
        let all = parts.reduce(nil as StoredDispatches?) { $0?.union($1) ?? $1 }?.parts ?? []
        areEarlierDispatchesSettled = false
        let current = incarnations.current
        log.end(all.map { NodeID($0.incarnation) }.filter { $0.store == current.store && $0 != current })
        for (gone, successor) in successors.begin(current, earlierDispatches: all) {
            loop.postToAll(.successor(of: gone.rawValue, successor.rawValue))
        }
    }

    /// Asks all shards how far they are done; to be called about each second.
    func ask() {
        answers = [:]
        loop.postToAll(.dispatchedIsWanted)
        guard log.trouble == nil else { return }
        for gone in successors.unclaimed { log.report(.successor(of: gone)) }
        settle()
        for gone in successors.passSecond() { loop.postToAll(.hasDispatched(for: gone.rawValue)) }
        if areEarlierDispatchesSettled, let others, !others.contains(where: { $0.store == incarnations.current.store }) {
            areEarlierDispatchesSettled = false
            successors.endEarlierDispatches()
            loop.postToAll(.endEarlierDispatches)
        }
    }

    /// Takes note that a partition of the log ends at this record, in front of some that were read.
    func isCut(_ partition: Int, at last: UInt64) {
        book.isCut(partition, at: last)
        successors.isCut(partition, at: last)
    }

    func received(_ dispatched: [DispatchProgress.Dispatched], from shard: Int) {
        answers[shard] = dispatched
        guard answers.count == loop.loops.count, log.trouble == nil else { return }
        for (partition, through) in book.done(Array(answers.values), now: loop.events.nowMilliseconds) {
            log.report(dispatchedThrough: through, partition)
        }
    }

    /// Takes the list of the other nodes that are there.
    func live(_ nodes: Set<NodeID>) {
        others = nodes
        // Earlier incarnations of this node are what they left.
        let change = book.live(
            nodes.filter { $0.store != incarnations.current.store }, readThrough: log.readThrough, rereads: Limits.logRereadRecords,
            now: loop.events.nowMilliseconds
        ) {
            log.dispatchedThrough(by: $0, $1)
        }
        for other in change.come {
            successors.isThere(other)
            loop.postToAll(.dispatchesNoMoreFor(other.rawValue))
        }
        for (other, done) in change.known.sorted(by: { $0.key < $1.key }) { successors.isGone(other, done: done) }
        for gone in successors.unclaimed where change.known[gone] != nil { log.report(.successor(of: gone)) }
        settle()
        for other in change.gone where change.known[other] == nil { log.report(.gone(other)) }
        if !change.gone.isEmpty { log.forgetDispatched(except: nodes) }
    }

    /// Takes note that a node offers in the log to dispatch for one that is gone.
    func said(successorOf gone: NodeID, by successor: NodeID) {
        if successors.said(successorOf: gone, by: successor) { loop.postToAll(.successor(of: gone.rawValue, successor.rawValue)) }
        settle()
    }

    /// Dispatches what has become this node's part, when all is read that the nodes that are gone can have written.
    private func settle() {
        let (duties, won) = (successors.takeDuties(), successors.takeEarlierDispatches())
        guard !duties.isEmpty || won != nil else { return }
        log.whenRead { [weak self, incarnation = incarnations.current] in
            // The lease may have ended meanwhile.
            guard let self, incarnation == incarnations.current else { return }
            for (gone, done) in duties where successors.isMine(gone) {
                // What is read from now on, the shards dispatch as it comes.
                loop.postToAll(.dispatchesFor(gone.rawValue, after: done))
                replay.add(gone, spans(after: done))
            }
            if let won { settleEarlierDispatches(won) }
        }
    }

    private func settleEarlierDispatches(_ won: [(gone: NodeID, done: [UInt64])]) {
        for (gone, done) in won { loop.postToAll(.dispatchesFor(gone.rawValue, after: done)) }
        replay.settleEarlierDispatches(spans(after: successors.earlierDispatchesDone), won: Set(won.map(\.gone))) { [weak self] in
            self?.areEarlierDispatchesSettled = true
        }
    }

    /// The spans of the log that were read behind these records.
    private func spans(after places: [UInt64]) -> [LogSpan] {
        log.readThrough.enumerated().map { partition, read in
            LogSpan(partition: partition, after: min(read, partition < places.count ? places[partition] : 0), through: read)
        }
    }
}

/// Carries out what the bus decides: to the servers by the connection, to clients by the shard. Belongs to the loop
/// that speaks to the servers; never calls the bus.
final class ClusterSink: BusSink {
    private let shard: BrokerShard
    private let connection: NATSConnection
    /// All interest up to this ticket is in force.
    private(set) var confirmed: UInt64 = 0
    /// Messages that a server could not take.
    private(set) var refused: UInt64 = 0
    /// The size of one that was too large, until somebody tells of it.
    var tooLarge: (byteCount: Int, bytesMax: Int)?
    /// What other nodes have told of their members of share groups, and what to say when all loops know; to be taken
    /// from here.
    var learned: [(news: [FromCluster], receipt: GroupReceipt?)] = []
    /// Messages whose topic or properties no client may send.
    private(set) var illegible: UInt64 = 0

    init(_ connection: NATSConnection, shard: BrokerShard) { (self.connection, self.shard) = (connection, shard) }

    func subscribe(_ subject: [UInt8]) -> UInt64 {
        guard let pattern = SubjectPattern(subject) else { preconditionFailure("the lane asks for what is no subject") }
        return connection.subscribe(pattern)
    }

    func unsubscribe(_ subscription: UInt64) { connection.unsubscribe(subscription) }

    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int) {
        do throws(NATSRefusal) {
            try connection.session.publish(subject: subject, reply: reply, payload: payload)
        } catch {
            refused += UInt64(count)
            if case .tooLarge(let bytesMax) = error { tooLarge = (payload.count, bytesMax) }
        }
    }

    func deliver(_ message: ClusterMessage) {
        if !shard.received(message) { illegible += 1 }
    }

    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt) {
        let groups = news.map { one in
            var group = ClusterGroup(
                node: node.rawValue, number: one.number, shareName: one.name.shareName, filter: one.name.filter,
                connected: one.size.connected, away: one.size.away)
            group.readsLog = one.readsLog
            return FromCluster.group(group)
        }
        learned.append((groups, receipt))
    }

    func forget(_ node: NodeID) { learned.append(([.nodeIsGone(node.rawValue)], nil)) }

    func confirm(through ticket: UInt64) { confirmed = ticket }
}

/// The incarnations of this process in its cluster, one after the other: a node whose lease has ended goes on as
/// another one, since nodes that have seen that end act for the incarnation that it was.
///
/// Belongs to the loop that speaks to the servers.
package final class NodeIncarnations {
    private(set) var current: NodeID
    private var earlier: Set<NodeID> = []

    init(_ first: NodeID) { current = first }

    /// Makes the next incarnation the current one.
    func begin() {
        earlier.insert(current)
        repeat { current = Self.run(ofStore: current.store) } while earlier.contains(current)
    }

    /// Whether a node is an incarnation of this process.
    func contains(_ node: NodeID) -> Bool { node == current || earlier.contains(node) }

    /// The first incarnation of a process.
    ///
    /// - Parameter storeSeed: tells the store from all others; nil without one.
    package static func first(storeSeed: UInt64?) -> NodeID {
        let seed = storeSeed ?? RandomBytes.seed()
        return run(ofStore: UInt32(truncatingIfNeeded: seed ^ seed >> 32))
    }

    private static func run(ofStore store: UInt32) -> NodeID {
        NodeID(store: store, incarnation: UInt32(truncatingIfNeeded: RandomBytes.seed()))
    }
}

/// The change from one incarnation of a node to the next, loop after loop.
///
///     endIncarnation to all ──► ended by all ──► beginIncarnation to all ──► begun by all
///
/// In between loops may bring each other what was dispatched to the last incarnation, and give what must not be logged
/// any more.
struct IncarnationChange {
    private let loops: Int
    private var endedCount = 0
    /// How far all are done with what was dispatched to earlier incarnations.
    private(set) var stored: StoredDispatches?
    private var earlierDispatchesByLoop: [Int: StoredDispatches?] = [:]

    init(loops: Int) { self.loops = loops }

    /// Takes note that a loop has ended the last incarnation.
    ///
    /// - Parameter part: how far it is done; nil where nothing is logged.
    /// - Returns: whether all have.
    mutating func ended(_ part: StoredDispatches?) -> Bool {
        endedCount += 1
        stored = part.map { stored?.union($0) ?? $0 }
        return endedCount == loops
    }

    /// Takes note that a loop has begun the next incarnation, and of what it has to settle.
    ///
    /// - Returns: what all have, when the last one says so.
    mutating func begun(_ loop: Int, _ earlierDispatches: StoredDispatches?) -> [StoredDispatches]? {
        earlierDispatchesByLoop[loop] = .some(earlierDispatches)
        return earlierDispatchesByLoop.count == loops ? earlierDispatchesByLoop.sorted { $0.key < $1.key }.compactMap(\.value) : nil
    }

    /// Whether messages of a loop still belong to the last incarnation.
    func isWaiting(for loop: Int) -> Bool { earlierDispatchesByLoop[loop] == nil }
}

/// The answers that leave when all loops know of other nodes' members of share groups.
struct GroupReceipts {
    private var open: [UInt64: (receipt: GroupReceipt, missing: Int)] = [:]
    private var last: UInt64 = 0

    /// Begins a message to all loops.
    ///
    /// - Parameters:
    ///   - receipt: what is said when they know; nil for nothing.
    ///   - loops: how many there are.
    /// - Returns: what each of them answers with.
    mutating func begin(_ receipt: GroupReceipt?, loops: Int) -> UInt64 {
        last += 1
        if let receipt { open[last] = (receipt, loops) }
        return last
    }

    /// Counts a loop that knows.
    ///
    /// - Returns: what is to be said now; nil for nothing.
    mutating func taken(_ token: UInt64) -> GroupReceipt? {
        guard let (receipt, missing) = open[token] else { return nil }
        open[token] = missing > 1 ? (receipt, missing - 1) : nil
        return missing == 1 ? receipt : nil
    }
}
