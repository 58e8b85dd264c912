/// How many sessions all shards of a broker have together, connected or not: what `global_max_clients` bounds.
///
/// Shared by all shards, on whatever threads they are. A session counts from when it is made, also for one that was kept, until it ends.
public protocol SessionCount: AnyObject, Sendable {
    /// Counts a session in, unless there are `max` already; nil for no limit.
    func enter(max: Int?) -> Bool
    func leave()
}
