package import MQTTCodec

/// What administrators see of a shard and have it do: each part is a value that one feature owns, in a file of its own
/// here.
///
/// None of it is on the way of a message, but for a look at whether there is a trace, and the counts of latencies.
struct Inspection {
    /// What the shard is asked about what it holds.
    var queries = QueryScheduler()
    /// What it is told to do.
    var commands = CommandScheduler()
    /// Events of clients that are still to be told.
    var presence: PresenceEvents
    /// The connections that have ended lately.
    var closedConnections: ClosedConnections
    /// The messages that were dropped lately.
    var dropLog: DropLog
    /// The traces that are being recorded; nil when there are none.
    var tracer: Tracer?
    /// The figures that are published below `$SYS`; by the first shard only.
    var systemReport = SystemReport()
    /// The latencies that were measured.
    var latencies = ShardLatencies()
    /// The requests below `$CONTROL/` that wait for the shell.
    var controlRequests = ControlRequests()
    /// Sees every message that is published on this shard when it is taken. In tests.
    var watcher: ((PublishPacket) -> Void)?

    /// - Parameters:
    ///   - keptBytesMax: bytes that the broker may hold for clients, which bounds what is remembered of closed
    ///     connections; 0 for any.
    ///   - now: milliseconds on the shard's clock.
    init(of placement: ShardPlacement, shard: Int, keptBytesMax: Int, now: UInt64) {
        presence = PresenceEvents(shardCount: placement.shardCount, now: now)
        closedConnections = ClosedConnections(shard: shard, shardCount: placement.shardCount, memoryMax: keptBytesMax)
        dropLog = DropLog(hashing: placement.hashing)
    }
}

extension BrokerShard {
    /// Sees every message that a client, a will or the broker itself publishes on this shard, when it is taken. In
    /// tests.
    package var watcher: ((PublishPacket) -> Void)? {
        get { inspection.watcher }
        set { inspection.watcher = newValue }
    }
}
