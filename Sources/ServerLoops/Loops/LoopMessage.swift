package import BrokerCore
package import BrokerModel
import Platform
import Synchronization
package import Transports

/// What reaches a shard's loop from other threads.
package enum LoopMessage: Sendable {
    /// A batch from another shard.
    case shardMessages(from: Int, ShardMessageBatch)
    /// A connection whose client lives here; by whose files its login was decided, if it was.
    case handOver(HandOver, any ByteChannel, ListenerSecurity?)
    /// A page of the dashboard that watches topics, as a client.
    case page(any ByteChannel, ConnectionInfo)
    /// A line of the log to publish.
    case logLine(topic: String, text: String)
    /// A value below `$SYS`, for as long as `sys_interval` lets them be published.
    case systemTopic(topic: String, value: String)
    /// A login is decided.
    case decided(LoginService.Decision)
    /// What the layers of each listener are from now on, who counts at its door, and which listeners accept nothing
    /// more. Before the settings that go with them.
    case listeners([TransportLayers], ConnectionAdmission, closed: [Int])
    /// Let clients in by these too: every loop knows their settings.
    case open([(listener: Listener, policy: Int)])
    /// New limits and choices, and new users and rules.
    case settings(BrokerSettings, SecurityTables, Countdown)
    /// The bans that hold from now on.
    case bans(BanList, Countdown)
    /// Let nobody in any more, and say why; nil: everybody again.
    case drain(DrainNotice?)
    /// Send so many clients away.
    case sendAway(Int)
    /// What the store has to tell.
    case stored(StoreReport)
    /// Give the store what there is.
    case save
    /// Log what is subscribed to.
    case listSubscriptions
    /// Answer an administrator.
    case ask(ShardQuery)
    /// Do what an administrator wants.
    case order(ShardOrder)
    /// Dynamic security has changed what some clients may do.
    case rights(RightsChange)
    /// A request of a client to the broker is answered, which had so many bytes.
    case answered(byteCount: Int)
    /// Tell what there is, and what was counted and measured.
    case statistics(token: UInt64)
    /// Tell of events from now on, or no more.
    case watchEvents(Bool)
    /// What was recorded for traces is written down: more may come.
    case tracesTaken
    /// What concerns bridges.
    case bridge(BridgeMessage)
    /// What the cluster's gateway tells the loop.
    case cluster(FromGateway)
    /// What the gateway is told, which is on this loop.
    case gateway(ToGateway)
    /// So many bytes are kept for administrators, beside the loops.
    case remembered(byteCount: Int)
    /// Say that the loop still turns.
    case heartbeat(UInt64)
    /// End gracefully: accept nothing more, say goodbye, drain.
    case stop(ShutdownBarrier)
}

/// Does something once every loop has done its part.
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
