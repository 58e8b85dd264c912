/// Counts of a run at one moment.
struct LoadCounts {
    var published: UInt64 = 0
    var delivered: UInt64 = 0
    var acknowledged: UInt64 = 0
    var rejected: UInt64 = 0
    var duplicates: UInt64 = 0
    var skipped: UInt64 = 0
    /// Connections that are connected and subscribed now.
    var ready = 0
    /// Connections that ended before they were asked to.
    var ended = 0
    /// Whole rounds, where a scenario has rounds.
    var rounds: UInt64 = 0

    mutating func add(_ other: LoadCounts) {
        published += other.published
        delivered += other.delivered
        acknowledged += other.acknowledged
        rejected += other.rejected
        duplicates += other.duplicates
        skipped += other.skipped
        ready += other.ready
        ended += other.ended
        rounds += other.rounds
    }
}
