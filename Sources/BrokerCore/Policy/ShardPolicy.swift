import BrokerModel

/// Which clients may be on a shard, and how much each may have: each part is a value that one feature owns, in a file
/// of its own here.
struct ShardPolicy {
    /// What new clients are told of the limits, by listener.
    var advertisedLimits: [AdvertisedLimits]
    /// The broker stops: nobody is let in any more, and nothing waits for the store to be given more.
    var isStopping = false
    /// The clients that are sent away.
    var draining = Draining()
    /// The bans, and the offences that may lead to more.
    var banning = Banning()
    /// Changes of rights that sessions have not been given yet.
    var rights = RightsUpdates()
    /// The clients that may be slow.
    var slowClients = SlowClients()
    /// What clients hold of the broker's memory.
    var memory = MemoryTally()
    /// What bridges of other brokers have retained of themselves.
    var bridgeStates = BridgeStates()
    /// Bounds the lines about what clients may not do.
    var deniedLines = RateGauge(perSecond: Limits.deniedLinesPerSecondMax, now: 0)

    init(_ settings: BrokerSettings) { advertisedLimits = AdvertisedLimits.all(settings) }
}
