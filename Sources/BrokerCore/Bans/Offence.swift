public import MQTTCodec

/// How often somebody may do what they should not before they are banned. `martlet_ban_after`, `martlet_flapping`
public struct BanRule: Hashable, Sendable {
    /// So many times in a window are too many.
    public var count: Int
    public var windowMilliseconds: UInt64
    public var banMilliseconds: UInt64

    public init(count: Int, windowMilliseconds: UInt64, banMilliseconds: UInt64) {
        (self.count, self.windowMilliseconds, self.banMilliseconds) = (count, windowMilliseconds, banMilliseconds)
    }
}

/// What may end in a ban.
public enum Offence: Hashable, Sendable {
    /// A login has failed, while `martlet_ban_after` counts them; whoever counts knows of all shards.
    case failedLogin(address: String)
    /// A client's connections have ended more often than `martlet_flapping` lets them.
    case flapping(EncodedString)
}

/// How often each of many has done something: a window of time begins with the first time.
///
/// Invariant: at most `Limits.offendersMax` are counted; while there are so many that their windows are not over, nobody else is.
public struct OffenceCounts<Key: Hashable & Sendable>: Sendable {
    private var windows: [Key: (count: Int, since: UInt64)] = [:]

    public init() {}

    var count: Int { windows.count }

    /// Counts once more; true if that is too many, and then the count begins anew.
    ///
    /// - `now`: milliseconds on whatever clock.
    public mutating func isTooMany(_ key: Key, by rule: BanRule, now: UInt64) -> Bool {
        var window = windows[key] ?? (0, now)
        if now - min(now, window.since) >= rule.windowMilliseconds { window = (0, now) }
        window.count += 1
        guard window.count < rule.count else {
            windows[key] = nil
            return true
        }
        if windows[key] == nil, windows.count >= Limits.offendersMax {
            windows = windows.filter { now - min(now, $0.value.since) < rule.windowMilliseconds }
            guard windows.count < Limits.offendersMax else { return false }
        }
        windows[key] = window
        return false
    }

    /// Nobody has done anything.
    public mutating func removeAll() { windows = [:] }
}
