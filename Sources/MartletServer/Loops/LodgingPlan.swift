import EpollLoop

/// When a loop lodges with another one, with which, and for how long.
///
/// Two loops that wait for cores they do not need mostly do better on one thread: their turns follow each other then. Two that need more than
/// one core gain from two threads, however long they wait; and where other programs take the cores, two threads get more of them than one.
/// Whether it is so can only be told by trying: what is done at home, in a window now and then, is compared with what is done away.
///
/// ```
///   a window of 20 ms ──► they fit ──► away for 100 ms, 200, … 1000 ──► home: a window of 20 ms ──► …
///         ▲                                        │ less is done than at home, or nobody came
///         └──────────────── rest ◄─────────────────┘
/// ```
struct LodgingPlan {
    /// By index, while the loop lodges or has asked.
    private(set) var host: Int?
    /// When the stay ends, in milliseconds.
    private(set) var until: UInt64 = 0
    private var stayMilliseconds = Self.stayMillisecondsMin
    private var restMilliseconds = Self.restMillisecondsMin
    private var restsUntil: UInt64 = 0
    /// Where the window, or the stay, began.
    private var began: (at: UInt64, work: UInt64, times: ThreadTimes?) = (0, 0, nil)
    private var home = WorkRate(millisecondsMax: 200)
    private var away = WorkRate(millisecondsMax: 2000)

    /// Once a window, looks for another loop that this one fits with, of a lower index: so no two lodge with each other.
    ///
    /// - Returns: whether it has found one, and paired with it.
    mutating func findHost(for index: Int, among usages: [LoopUsage], now: UInt64, _ times: () -> ThreadTimes?) -> Bool {
        guard now >= began.at + Self.windowMilliseconds, let times = times() else { return false }
        let (start, work) = (began, Self.work(of: usages))
        began = (now, work, times)
        guard let before = start.times, usages[index].note(from: start.at, before, to: now, times) else { return false }
        home.add(work - start.work, milliseconds: now - start.at)
        guard now >= restsUntil else { return false }
        host = usages[..<index].firstIndex { usages[index].fits(with: $0) && usages[index].pair(with: $0) }
        guard host != nil else { return false }
        if now > until + Self.soonMilliseconds { startAfresh() }
        until = now + stayMilliseconds
        return true
    }

    /// The stay is over, or nobody came.
    mutating func cameHome(wasAway: Bool, _ index: Int, _ usages: [LoopUsage], now: UInt64) {
        if let host { usages[index].part(from: usages[host]) }
        host = nil
        defer { began = (0, 0, nil) }
        guard wasAway else {
            restsUntil = now + Self.refusedMilliseconds
            return
        }
        away.add(Self.work(of: usages) - began.work, milliseconds: now - began.at)
        if stayMilliseconds > Self.stayMillisecondsMin, away.isLess(than: home) {
            restsUntil = now + restMilliseconds
            restMilliseconds = min(restMilliseconds * 2, Self.restMillisecondsMax)
        } else {
            stayMilliseconds = min(stayMilliseconds * 2, Self.stayMillisecondsMax)
        }
    }

    /// It is long since the last stay: things may have changed.
    private mutating func startAfresh() {
        stayMilliseconds = Self.stayMillisecondsMin
        away.removeAll()
        if until + 2 * Self.restMillisecondsMax < began.at { restMilliseconds = Self.restMillisecondsMin }
    }

    private static func work(of usages: [LoopUsage]) -> UInt64 { usages.reduce(0) { $0 &+ $1.work } }

    private static let windowMilliseconds: UInt64 = 20
    private static let soonMilliseconds: UInt64 = 100
    private static let stayMillisecondsMin: UInt64 = 100
    private static let stayMillisecondsMax: UInt64 = 1000
    private static let refusedMilliseconds: UInt64 = 100
    private static let restMillisecondsMin: UInt64 = 2000
    private static let restMillisecondsMax: UInt64 = 16_000
}
