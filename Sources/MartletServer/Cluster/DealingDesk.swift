import BrokerCore
import Cluster
import EpollLoop

/// What share groups deal of the cluster's log, as one node sees it: how far this node is done with its part, and whose part it deals when another is
/// gone.
///
///     shards ── dealt ──► this node is done up to here ──► the log ──► all nodes
///     a node is gone ──► the first of those that are left ──► LogReplay ──► dealAgain, from where that node was done
///
/// Belongs to the loop that speaks to the servers.
final class DealingDesk {
    private let node: NodeID
    private unowned let loop: ShardLoop
    private let log: LogLane
    private let replay: LogReplay
    private var others: Set<NodeID> = []
    /// By partition: what was read when a node came up, less what may have been dealt to it before.
    private var beginnings: [NodeID: [UInt64]] = [:]
    /// What the shards have answered to the question under way.
    private var answers: [Int: [(through: UInt64, last: UInt64)]] = [:]
    /// By partition: what they had answered to the one before. The store has by now what came of it.
    private var earlier: [UInt64] = []
    private var told: [UInt64] = []
    private var toldAt: UInt64 = 0

    init(_ node: NodeID, on loop: ShardLoop, log: LogLane, replay: LogReplay) {
        (self.node, self.loop, self.log, self.replay) = (node, loop, log, replay)
    }

    // MARK: This node's part

    /// To be called about each second.
    func ask() {
        answers = [:]
        for other in loop.loops { other.post(.tellDealt, from: loop) }
    }

    func received(_ dealt: [(through: UInt64, last: UInt64)], from shard: Int) {
        answers[shard] = dealt
        guard answers.count == loop.loops.count, log.trouble == nil else { return }
        let count = answers.values.map(\.count).min() ?? 0
        let done = (0..<count).map { partition in
            let all = answers.values.map { $0[partition] }
            return min(all.map(\.through).min() ?? 0, all.map(\.last).max() ?? 0)
        }
        let isOpen = (0..<count).contains { partition in
            answers.values.contains { $0[partition].last > done[partition] }
        }
        if told.count < count { told += Array(repeating: 0, count: count - told.count) }
        // Those who have come since have to hear of it as well.
        let isRepeated = isOpen && loop.events.nowMilliseconds >= toldAt + Limits.dealtRepeatMilliseconds
        for (partition, through) in earlier.enumerated() where through > told[partition] || (isRepeated && through > 0) {
            (told[partition], toldAt) = (through, loop.events.nowMilliseconds)
            log.tell(dealtThrough: through, partition)
        }
        earlier = done
    }

    // MARK: Others' parts

    /// The nodes that are there, this one's apart.
    func live(_ nodes: Set<NodeID>) {
        for other in nodes.subtracting(others) {
            beginnings[other] = log.readThrough.map { $0 - min($0, Limits.logRereadRecords) }
            deal(for: other, false)
        }
        let gone = others.subtracting(nodes)
        others = nodes
        guard !gone.isEmpty else { return }
        // All that are left agree who is the first of them.
        if nodes.allSatisfy({ $0 > node }) { for other in gone.sorted() { takeOver(other) } }
        for other in gone { beginnings[other] = nil }
        log.forgetDealt(except: nodes)
    }

    private func deal(for other: NodeID, _ isMine: Bool) {
        for loop in loop.loops { loop.post(.dealsFor(other, isMine), from: self.loop) }
    }

    /// What is read from now on, the shards deal as it comes.
    private func takeOver(_ other: NodeID) {
        deal(for: other, true)
        let read = log.readThrough
        let spans = read.indices.compactMap { partition -> LogSpan? in
            let done = log.dealtThrough(by: other, partition) ?? beginnings[other]?[partition] ?? 0
            return done < read[partition] ? LogSpan(partition: partition, after: done, through: read[partition]) : nil
        }
        if !spans.isEmpty { replay.add(other, spans) }
    }
}
