/// The subscriptions that a server has refused, to be tried again: whoever runs it may allow them while the connection lasts.
struct RefusedSubscriptions {
    private var patterns: Set<String> = []
    /// When they are tried again, in milliseconds; nil if there are none.
    private(set) var retriesAt: UInt64?

    /// Takes note of one that the server's words name.
    ///
    /// - Parameters:
    ///   - words: of its error.
    ///   - countMax: how many there can be.
    ///   - now: milliseconds.
    mutating func note(_ words: String, countMax: Int, now: UInt64) {
        let beginning = "Permissions Violation for Subscription to \""
        guard words.hasPrefix(beginning), patterns.count < countMax else { return }
        patterns.insert(String(words.dropFirst(beginning.count).prefix { $0 != "\"" }))
        if retriesAt == nil { retriesAt = now + Limits.refusedSubscriptionMilliseconds }
    }

    /// Takes the subscriptions that are due; empty if it is not time yet.
    mutating func takeDue(now: UInt64) -> Set<String> {
        guard let retriesAt, retriesAt <= now else { return [] }
        defer { self = RefusedSubscriptions() }
        return patterns
    }
}
