/// The counts of all shards, being added up.
struct StatisticsCollection {
    var sum = ShardStatistics()
    /// How many shards have not answered yet.
    var missing = 0
}
