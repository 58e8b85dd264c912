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
/// A node that deals for another one may be gone as well before it has dealt all: who deals for it deals for that one too, and so on. A part is always
/// that run's that stands at the end of this line, as the log has it.
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
    /// Those for which the log says who deals.
    private var inheritances: [NodeID: Inheritance] = [:]
    /// nil if there was no earlier run, or nothing is left of it.
    private var past: DealingDeskPast?
    /// What the shards have answered to the question under way.
    private var answers: [Int: [DealtBook.Dealt]] = [:]

    /// Before any loop runs, and behind `BrokerShard.joinCluster`.
    init(_ runs: NodeRuns, on loop: ShardLoop, log: LogLane, replay: LogReplay) {
        (self.loop, self.runs, self.log, self.replay) = (loop, runs, log, replay)
        log.whenInherited = { [unowned self] in decided($0, by: $1) }
        beginPast(loop.loops.compactMap(\.shard.unsettledPast))
    }

    /// Another run has begun.
    ///
    /// - Parameter parts: what the shards say, as in `BrokerShard.unsettledPast`.
    func beginRun(_ parts: [StoredDealing]) {
        answers = [:]
        replay.forgetPast()
        beginPast(parts)
    }

    private func beginPast(_ parts: [StoredDealing]) {
        past = DealingDeskPast(parts)
        // What the last run dealt for others is looked at with its own part; what it was about to is not its own any more.
        for run in inheritances.keys { inheritances[run]?.isMine = false }
        for (run, part) in past?.runs ?? [:] {
            (open[run], inheritances[run]) = (nil, nil)
            if part.heir != 0 {
                log.knows(heirOf: run, NodeID(part.heir))
            } else if let heir = log.heir(of: run) {
                tellAll(.past(.heir(of: run, heir)))
            }
        }
    }

    /// To be called about each second.
    func ask() {
        answers = [:]
        for other in loop.loops { other.post(.tellDealt, from: loop) }
        guard log.trouble == nil else { return }
        for gone in open.keys.sorted() + (past?.undecided.sorted() ?? []) where log.heir(of: gone) == nil {
            log.tell(heirOf: gone)
        }
        settle()
        passSecond()
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
            (open[other], inheritances[other]) = (nil, nil)
            log.forgetHeir(of: other)
            tellAll(.dealsNoMoreFor(other))
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
        if past?.runs[gone] != nil { tellAll(.past(.heir(of: gone, heir))) }
        if let done = open.removeValue(forKey: gone) { inheritances[gone] = Inheritance(done: done) }
        let last = dealer(for: gone)
        for run in inheritances.keys where dealer(for: run) == last { inheritances[run]?.secondsLeft = Limits.inheritanceSeconds }
        settle()
    }

    /// Whose the part of a node is, by what the log has said so far.
    private func dealer(for gone: NodeID) -> NodeID {
        var (last, seen) = (gone, Set([gone]))
        while let heir = log.heir(of: last), seen.insert(heir).inserted { last = heir }
        return last
    }

    /// Does what has become this node's to do.
    private func settle() {
        let mine = inheritances.filter { !$0.value.isMine && dealer(for: $0.key) == runs.current }.keys.sorted()
        for run in mine { inheritances[run]?.isMine = true }
        if !mine.isEmpty { log.whenRead { [weak self, now = runs.current] in for run in mine { self?.deal(for: run, at: now) } } }
        guard let undecided = past?.undecided, !undecided.isEmpty else { return }
        for run in undecided {
            let last = dealer(for: run)
            // Who deals for the last run has not been said.
            guard last != run, past?.runs[last] == nil else { continue }
            past?.undecided.remove(run)
            if last == runs.current {
                past?.won.insert(run)
            } else if let done = past?.runs[run]?.done {
                inheritances[run] = Inheritance(done: done)
            }
        }
        if past?.undecided.isEmpty == true { log.whenRead { [weak self, run = runs.current] in self?.settlePast(at: run) } }
    }

    private func deal(for other: NodeID, at run: NodeID) {
        // It may be there again, or the lease have ended.
        guard run == runs.current, let inheritance = inheritances[other], inheritance.isMine else { return }
        // What is read from now on, the shards deal as it comes.
        tellAll(.dealsFor(other, after: inheritance.done))
        replay.add(other, spans(after: inheritance.done))
    }

    private func settlePast(at run: NodeID) {
        // Another one may have begun meanwhile.
        guard let past, run == runs.current else { return }
        for run in past.won.sorted() {
            let done = past.runs[run]?.done ?? past.after
            inheritances[run] = Inheritance(done: done, isMine: true)
            tellAll(.dealsFor(run, after: done))
        }
        replay.settlePast(spans(after: past.after), won: past.won) { [weak self] in self?.past?.isSettled = true }
    }

    /// A second is over in which all that is dealt could go into the log.
    private func passSecond() {
        for run in inheritances.keys { inheritances[run]?.secondsLeft -= 1 }
        for (run, inheritance) in inheritances where inheritance.secondsLeft <= 0 {
            if inheritance.isMine { tellAll(.hasDealt(for: run)) }
            inheritances[run] = nil
        }
    }

    /// What was read behind these places.
    private func spans(after places: [UInt64]) -> [LogSpan] {
        log.readThrough.enumerated().map { partition, read in
            LogSpan(partition: partition, after: min(read, partition < places.count ? places[partition] : 0), through: read)
        }
    }

    private func tellAll(_ letter: ClusterLetter) { for other in loop.loops { other.post(letter, from: loop) } }
}
