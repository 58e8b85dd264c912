/// The passwords that wait to be checked, in an order in which a flood of wrong ones keeps nobody else waiting.
///
/// Next is whoever has failed less, by `LoginThrottle`'s account of network, site and user name: so networks take turns, a flood comes behind
/// everybody else after its first failure, and one that fails in the name of a user comes behind the other users. Among equals the last
/// one to come is the first: when more come than can be checked, some wait in vain in any order, and in this one those who still wait are
/// served.
///
/// Bounded, in all and for each network: one that is too many gives way, which is the one with the most failures when it came, and among equals
/// the one that has waited longest. A search through all that wait for each check that begins, and a shorter one for each that comes.
struct CheckQueue {
    private struct Entry {
        let check: PasswordCheck
        let network: UInt64
        /// When it came.
        let rank: UInt32
    }

    private let throttle: LoginThrottle
    private let countMax: Int
    private let countOfNetworkMax: Int
    /// In the order in which they came.
    private var entries: [Entry] = []
    /// When one of those that are left may begin, after `takeNext` found none; milliseconds.
    private(set) var nextDue: UInt64?

    /// - Parameters:
    ///   - countMax: how many wait at most.
    ///   - countOfNetworkMax: how many of one network.
    init(throttle: LoginThrottle, countMax: Int, countOfNetworkMax: Int) {
        self.throttle = throttle
        self.countMax = countMax
        self.countOfNetworkMax = countOfNetworkMax
    }

    var count: Int { entries.count }

    /// Takes in one that has come.
    ///
    /// - Returns: the one that gives way, if there are too many: one that waited, or this one itself.
    mutating func add(_ check: PasswordCheck, now: UInt64) -> PasswordCheck? {
        let standing = throttle.standing(of: check.subject, now: now)
        entries.append(Entry(check: check, network: check.subject.network, rank: standing.rank))
        nextDue = min(nextDue ?? .max, standing.mayBeginAt)
        let ofNetwork = entries.reduce(0) { $0 + ($1.network == check.subject.network ? 1 : 0) }
        if ofNetwork > countOfNetworkMax { return removeLast { $0.network == check.subject.network } }
        return entries.count > countMax ? removeLast { _ in true } : nil
    }

    /// Takes out the one whose turn it is; nil when none may begin now, see `nextDue`.
    mutating func takeNext(now: UInt64) -> PasswordCheck? {
        entries.removeAll { !$0.check.isWanted }
        var best: (position: Int, rank: UInt32)?
        nextDue = nil
        for (position, entry) in entries.enumerated() {
            let standing = throttle.standing(of: entry.check.subject, now: now)
            guard standing.mayBeginAt <= now else {
                nextDue = min(nextDue ?? .max, standing.mayBeginAt)
                continue
            }
            if standing.rank <= best?.rank ?? .max { best = (position, standing.rank) }
        }
        guard let best else { return nil }
        let check = entries.remove(at: best.position).check
        throttle.began(check.subject, now: now)
        // Who else waits may begin at once, for all that is known.
        if !entries.isEmpty { nextDue = now }
        return check
    }

    mutating func removeAll() { entries = [] }

    /// Takes out the one that would come last, of those that `isCandidate`.
    private mutating func removeLast(_ isCandidate: (Entry) -> Bool) -> PasswordCheck? {
        var worst: Int?
        for (position, entry) in entries.enumerated() where isCandidate(entry) {
            if let known = worst, entries[known].rank >= entry.rank { continue }
            worst = position
        }
        return worst.map { entries.remove(at: $0).check }
    }
}
