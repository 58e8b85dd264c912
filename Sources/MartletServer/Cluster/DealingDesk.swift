import BrokerCore
import Cluster
import EpollLoop

/// What share groups deal of the cluster's log, as one node sees it: how far this node is done with its part, and whose part it deals when another is
/// gone.
///
///     shards ── dealt ──► DealtBook ──► the log ──► all nodes
///     a node is gone ──► DealtBook ──► LogLane.whenRead ──► LogReplay ──► learnDealt, then dealAgain, from where that node was done
///
/// Belongs to the loop that speaks to the servers.
final class DealingDesk {
    private unowned let loop: ShardLoop
    private let log: LogLane
    private let replay: LogReplay
    private var book: DealtBook
    /// By node that is gone: up to where it was done, until all is read that it can have written.
    private var inherited: [NodeID: [UInt64]] = [:]
    /// What the shards have answered to the question under way.
    private var answers: [Int: [DealtBook.Dealt]] = [:]

    init(_ node: NodeID, on loop: ShardLoop, log: LogLane, replay: LogReplay) {
        (self.loop, self.log, self.replay) = (loop, log, replay)
        book = DealtBook(node)
    }

    /// To be called about each second.
    func ask() {
        answers = [:]
        for other in loop.loops { other.post(.tellDealt, from: loop) }
    }

    func received(_ dealt: [DealtBook.Dealt], from shard: Int) {
        answers[shard] = dealt
        guard answers.count == loop.loops.count, log.trouble == nil else { return }
        for (partition, through) in book.done(Array(answers.values), now: loop.events.nowMilliseconds) {
            log.tell(dealtThrough: through, partition)
        }
    }

    /// These nodes are there, this one apart.
    func live(_ nodes: Set<NodeID>) {
        let change = book.live(nodes, readThrough: log.readThrough, rereads: Limits.logRereadRecords) {
            log.dealtThrough(by: $0, $1)
        }
        for other in change.come {
            inherited[other] = nil
            deal(for: other, false)
        }
        for (other, done) in change.inherited.sorted(by: { $0.key < $1.key }) {
            inherited[other] = done
            log.whenRead { [weak self] in self?.deal(from: other) }
        }
        if !change.gone.isEmpty { log.forgetDealt(except: nodes) }
    }

    private func deal(from other: NodeID) {
        guard let done = inherited.removeValue(forKey: other) else { return }
        // What is read from now on, the shards deal as it comes.
        deal(for: other, true)
        let spans = log.readThrough.enumerated().map { partition, read in
            LogSpan(partition: partition, after: min(read, done[partition]), through: read)
        }
        replay.add(other, spans)
    }

    private func deal(for other: NodeID, _ isMine: Bool) {
        for loop in loop.loops { loop.post(.dealsFor(other, isMine), from: self.loop) }
    }
}
