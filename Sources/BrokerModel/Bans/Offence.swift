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
    /// A client's connections have ended more often than `martlet_flapping` lets them; whose, and from where.
    case flapping(EncodedString, BanScope)
}

/// How often each of many has done something: a window of time begins with the first time.
///
/// Invariant: at most `SharedLimits.offendersMax` are counted, and of one origin at most `SharedLimits.offendersPerOriginMax`, so that names that somebody
/// makes up do not take all places; while their windows are not over, nobody else is.
public struct OffenceCounts<Key: Hashable & Sendable>: Sendable {
    private struct Window {
        package var count = 0
        package var since: UInt64
        package let origin: UInt64?
    }

    private var windows: [Key: Window] = [:]
    /// How many are counted of each origin.
    private var origins: [UInt64: Int] = [:]
    /// No window is over before.
    private var roomAt: UInt64 = 0

    public init() {}

    package var count: Int { windows.count }

    /// Counts once more; true if that is too many, and then the count begins anew.
    ///
    /// - Parameters:
    ///   - key: who has done it.
    ///   - origin: who could make up many keys; nil for nobody.
    ///   - rule: how often is too often.
    ///   - now: milliseconds on whatever clock.
    public mutating func isTooMany(_ key: Key, from origin: UInt64? = nil, by rule: BanRule, now: UInt64) -> Bool {
        var window = windows[key] ?? Window(since: now, origin: origin)
        if Self.isOver(window, rule, now) { (window.count, window.since) = (0, now) }
        window.count += 1
        guard window.count < rule.count else {
            remove(key)
            return true
        }
        if windows[key] == nil {
            guard hasRoom(origin, rule, now) else { return false }
            if let origin { origins[origin, default: 0] += 1 }
        }
        windows[key] = window
        return false
    }

    /// Nobody has done anything.
    public mutating func removeAll() { (windows, origins, roomAt) = ([:], [:], 0) }

    private static func isOver(_ window: Window, _ rule: BanRule, _ now: UInt64) -> Bool {
        now - min(now, window.since) >= rule.windowMilliseconds
    }

    /// O(1), but for once in a window.
    private mutating func hasRoom(_ origin: UInt64?, _ rule: BanRule, _ now: UInt64) -> Bool {
        func isFull() -> Bool {
            windows.count >= SharedLimits.offendersMax
                || origin.map { origins[$0] ?? 0 >= SharedLimits.offendersPerOriginMax } ?? false
        }
        guard isFull(), now >= roomAt else { return !isFull() }
        for (key, window) in windows where Self.isOver(window, rule, now) { remove(key) }
        roomAt = (windows.values.lazy.map(\.since).min() ?? now) + rule.windowMilliseconds
        return !isFull()
    }

    private mutating func remove(_ key: Key) {
        guard let window = windows.removeValue(forKey: key), let origin = window.origin, let count = origins[origin] else { return }
        origins[origin] = count > 1 ? count - 1 : nil
    }
}
