package import BrokerCore
package import BrokerModel
import Platform
import Synchronization
package import Transports

/// Messages to a shard's loop from other threads.
package enum LoopMessage: Sendable {
    /// A batch from another shard.
    case shardMessages(from: Int, ShardMessageBatch)
    /// A connection whose client lives here; what it counts for, and by whose files its login was decided, if it was.
    case handOver(HandOver, any ByteChannel, AddressSlot?, ListenerSecurity?)
    /// A page of the dashboard that watches topics, as a client.
    case page(any ByteChannel, ConnectionInfo)
    /// A line of the log to publish.
    case logLine(topic: String, text: String)
    /// A value below `$SYS`, for as long as `sys_interval` lets them be published.
    case systemTopic(topic: String, value: String)
    /// A login is decided.
    case decided(LoginService.Decision)
    /// An authority has decided about a client's topic.
    case topicDecided(ConnectionID, TopicQuestion, TopicDecision)
    /// The layers of each listener from now on, the admission that counts their connections, and the listeners that
    /// accept nothing more. Comes before the settings that belong to them.
    case listeners([TransportLayers], ConnectionAdmission, closed: [Int])
    /// Accept connections of these listeners too: every loop knows their settings.
    case open([(listener: Listener, policy: Int)])
    /// New limits and choices, and new users and rules.
    case settings(BrokerSettings, SecurityTables, Countdown)
    /// The bans that hold from now on.
    case bans(BanList, Countdown)
    /// Refuse all new clients, and say why; nil: accept clients again.
    case drain(DrainNotice?)
    /// Send so many clients away.
    case sendAway(Int)
    /// A report of the store.
    case stored(StoreReport)
    /// Give the store what there is.
    case save
    /// Log what is subscribed to.
    case listSubscriptions
    /// Answer an administrator.
    case ask(ShardQuery)
    /// Carry out an administrator's order.
    case command(ShardCommand)
    /// Dynamic security has changed what some clients may do.
    case rights(RightsChange)
    /// A request of a client to the broker is answered, which had so many bytes.
    case answered(byteCount: Int)
    /// Answer with the shard's statistics.
    case statistics(token: UInt64)
    /// Report events from now on, or no more.
    case watchEvents(Bool)
    /// The shard's trace records are written: it may send more.
    case tracesTaken
    /// A message for the loop's bridges.
    case bridge(BridgeMessage)
    /// A message of the cluster's gateway.
    case cluster(FromGateway)
    /// A message to the gateway, which is on this loop.
    case gateway(ToGateway)
    /// So many bytes are kept for administrators, beside the loops.
    case remembered(byteCount: Int)
    /// Say that the loop still turns.
    case heartbeat(UInt64)
    /// End gracefully: accept nothing more, say goodbye, drain.
    case stop(ShutdownBarrier)
}

/// Calls a closure once every loop has done its part.
package final class Countdown: Sendable {
    private let missing: Atomic<Int>
    private let finish: @Sendable () -> Void

    package init(loops: Int, finish: @escaping @Sendable () -> Void) {
        missing = Atomic(loops)
        self.finish = finish
    }

    /// One more loop has. For any thread, on the last of which the rest is done.
    package func count() {
        if missing.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { finish() }
    }
}

/// How the loops of a stopping broker end together: none returns before each has parted from its connections.
///
/// A loop that returned sooner would leave in its mailbox what another one has just sent it: a connection, whose client
/// would hear nothing, or the message of a will, which would be lost.
package final class ShutdownBarrier: Sendable {
    private let missing: Atomic<Int>

    package init(loops: Int) { missing = Atomic(loops) }

    /// One more loop has no connection left and nothing for the store. Once from each; for any thread.
    ///
    /// - Returns: whether it was the last one; the others have to be woken then.
    package func part() -> Bool { missing.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }

    /// Whether all have parted. What a loop has sent before it parted has been sent when this is true.
    package var isComplete: Bool { missing.load(ordering: .acquiring) == 0 }
}
