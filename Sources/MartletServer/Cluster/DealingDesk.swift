import BrokerCore
import Cluster
import EpollLoop

/// What share groups deal of the cluster's log, as one node sees it: how far this node is done with its part, and whose part it deals when another is
/// gone, or when this one is there again: it was killed, or has lost its lease.
///
///     shards ── dealt ──► DealtBook ──► the log ──► all nodes
///     a node is gone ────────┐
///     earlier runs of this ──┴─► the log: heir(of:) ──► the first in it ──► LogLane.whenRead ──► LogReplay ──► learnDealt, then dealAgain
///                                                                                                    └──────► PastOrder
///
/// Belongs to the loop that speaks to the servers.
final class DealingDesk {
    private unowned let loop: ShardLoop
    private let runs: NodeRuns
    private let log: LogLane
    private let replay: LogReplay
    private var book = DealtBook()
    /// The others that are there; nil before they are known.
    private var others: Set<NodeID>?
    /// Nodes that are gone for which this one would deal, and by partition up to where each was done.
    private var open: [NodeID: [UInt64]] = [:]
    /// The same of those for which it does, until all is read that they can have written.
    private var inherited: [NodeID: [UInt64]] = [:]
    /// nil if there was no earlier run, or nothing is left of it.
    private var past: DealingDeskPast?
    /// What the shards have answered to the question under way.
    private var answers: [Int: [DealtBook.Dealt]] = [:]

    /// Before any loop runs, and behind `BrokerShard.joinCluster`.
    init(_ runs: NodeRuns, on loop: ShardLoop, log: LogLane, replay: LogReplay) {
        (self.loop, self.runs, self.log, self.replay) = (loop, runs, log, replay)
        past = DealingDeskPast(loop.loops.compactMap(\.shard.unsettledPast))
        log.whenInherited = { [unowned self] in decided($0, by: $1) }
    }

    /// Another run has begun.
    ///
    /// - Parameter parts: what the shards say, as in `BrokerShard.unsettledPast`.
    func beginRun(_ parts: [(runs: [UInt64], after: [UInt64])]) {
        answers = [:]
        replay.forgetPast()
        past = DealingDeskPast(parts)
        for run in past?.undecided.sorted() ?? [] { if let heir = log.heir(of: run) { decided(run, by: heir) } }
    }

    /// To be called about each second.
    func ask() {
        answers = [:]
        for other in loop.loops { other.post(.tellDealt, from: loop) }
        guard log.trouble == nil else { return }
        for gone in open.keys.sorted() + (past?.undecided.sorted() ?? []) { log.tell(heirOf: gone) }
        if past?.isSettled == true, let others, !others.contains(where: { $0.store == runs.current.store }) {
            past = nil
            for other in loop.loops { other.post(.past(.end), from: loop) }
        }
    }

    /// A partition of the log ends at this record, before some that was read.
    func isCut(_ partition: Int, at last: UInt64) { book.isCut(partition, at: last) }

    func received(_ dealt: [DealtBook.Dealt], from shard: Int) {
        answers[shard] = dealt
        guard answers.count == loop.loops.count, log.trouble == nil else { return }
        for (partition, through) in book.done(Array(answers.values), now: loop.events.nowMilliseconds) {
            log.tell(dealtThrough: through, partition)
        }
    }

    /// These nodes are there, this one apart.
    func live(_ nodes: Set<NodeID>) {
        others = nodes
        // Earlier runs of this node are its past.
        let change = book.live(
            nodes.filter { $0.store != runs.current.store }, readThrough: log.readThrough, rereads: Limits.logRereadRecords,
            now: loop.events.nowMilliseconds
        ) {
            log.dealtThrough(by: $0, $1)
        }
        for other in change.come {
            (open[other], inherited[other]) = (nil, nil)
            log.forgetHeir(of: other)
            deal(for: other, false)
        }
        for (other, done) in change.known.sorted(by: { $0.key < $1.key }) {
            open[other] = done
            if let heir = log.heir(of: other) { decided(other, by: heir) } else { log.tell(heirOf: other) }
        }
        for other in change.gone where change.known[other] == nil { log.tell(gone: other) }
        if !change.gone.isEmpty { log.forgetDealt(except: nodes) }
    }

    /// The log says who deals for a node that is gone.
    private func decided(_ gone: NodeID, by heir: NodeID) {
        if past?.undecided.remove(gone) != nil {
            // One that was this node itself goes on.
            if heir.store == runs.current.store { past?.won.insert(gone) }
            if past?.undecided.isEmpty == true { log.whenRead { [weak self, run = runs.current] in self?.settlePast(at: run) } }
            return
        }
        guard let done = open.removeValue(forKey: gone), runs.contains(heir) else { return }
        inherited[gone] = done
        log.whenRead { [weak self] in self?.deal(from: gone) }
    }

    private func deal(from other: NodeID) {
        guard let done = inherited.removeValue(forKey: other) else { return }
        // What is read from now on, the shards deal as it comes.
        deal(for: other, true)
        replay.add(other, spans(after: done))
    }

    private func settlePast(at run: NodeID) {
        // Another one may have begun meanwhile.
        guard let past, run == runs.current else { return }
        for run in past.won.sorted() { deal(for: run, true) }
        replay.settlePast(spans(after: past.after), won: past.won) { [weak self] in self?.past?.isSettled = true }
    }

    /// What was read behind these places.
    private func spans(after places: [UInt64]) -> [LogSpan] {
        log.readThrough.enumerated().map { partition, read in
            LogSpan(partition: partition, after: min(read, partition < places.count ? places[partition] : 0), through: read)
        }
    }

    private func deal(for other: NodeID, _ isMine: Bool) {
        for loop in loop.loops { loop.post(.dealsFor(other, isMine), from: self.loop) }
    }
}
