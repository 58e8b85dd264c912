/// The duties towards a session whose client does not come, and when they are due. Times are in milliseconds since
/// 1970.
extension SessionRecord {
    /// When the session ends if its client stays away; nil for never, and while it is not known since when it is away.
    public var endsAt: UInt64? {
        guard awaySince > 0, expiryInterval < .max else { return nil }
        return awaySince + UInt64(expiryInterval) * 1000
    }

    /// Whether the session's time is over. [MQTT-3.1.2-23 v5]
    public func hasEnded(now: UInt64) -> Bool { endsAt.map { $0 <= now } ?? false }

    /// The wills that are due while nobody comes, in the order in which they are published: after their delay, or when the session ends.
    /// [MQTT-3.1.2-8 v5]
    public func dueWills(now: UInt64) -> [LastWill] {
        guard awaySince > 0 else { return [] }
        return wills.filter { hasEnded(now: now) || dueAt($0) <= now }.sorted { $0.name < $1.name }
    }

    /// The wills that are due although a client has come: of those who were away for longer than the delay, and of those whose connection
    /// has ended with its node and that have none. [MQTT-3.1.3-9 v5]
    ///
    /// - Parameters:
    ///   - cleanStart: whether the client begins anew: then a session whose client was connected ends with that connection.
    ///   - now: the time.
    public func dueWills(atReturn cleanStart: Bool, now: UInt64) -> [LastWill] {
        guard awaySince == 0 else { return dueWills(now: now) }
        return wills.filter { cleanStart || expiryInterval == 0 || $0.delayInterval == 0 }.sorted { $0.name < $1.name }
    }

    /// When whoever looks after the session has something to do next, if its node is gone: 0 for at once; nil for never.
    public var dutyAt: UInt64? {
        if awaySince == 0 { return wills.isEmpty && expiryInterval == .max ? nil : 0 }
        return (wills.map { dueAt($0) } + [endsAt].compactMap { $0 }).min()
    }

    private func dueAt(_ will: LastWill) -> UInt64 { awaySince + UInt64(will.delayInterval) * 1000 }
}
