/// What a node waits for until it carries messages. In most cases that is over in a moment; what takes longer is told.
struct AwaitedReason {
    /// Since when nothing is carried.
    private var since: UInt64?

    /// Gives the reason when nothing has been carried for a while; to be called every second or so.
    ///
    /// - Parameters:
    ///   - reason: why nothing is carried now; nil if messages are.
    ///   - now: milliseconds of a clock that does not go back.
    mutating func look(_ reason: String?, now: UInt64) -> String? {
        guard let reason else {
            since = nil
            return nil
        }
        let first = since ?? now
        since = first
        return now - min(now, first) >= Limits.clusterAwaitedMilliseconds ? reason : nil
    }
}
