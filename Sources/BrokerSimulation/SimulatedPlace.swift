import BrokerModel

/// Where a connection lives.
struct SimulatedPlace {
    /// The shard that has it, or is about to.
    var shard: Int
    /// Its number there; nil until that shard has taken it in.
    var id: ConnectionID?
    /// Whether it stands in the shard's list of connections with input.
    var isQueued = false
}
