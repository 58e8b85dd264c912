/// The chapters of the shard: each is a type that does one thing, with the state that the shard has for it.
///
/// A chapter is one word, which names the shard: making one costs nothing, and calls go straight to its functions. Its
/// state is a value in the shard's fields, of which it is the only one that knows more than what there is to call.
/// What the shell calls stands in the chapters' files too, as public functions of the shard.
extension BrokerShard {
    // MARK: Connecting

    /// CONNECT, from its first byte to a session.
    @inline(__always)
    var connecting: Connecting { Connecting(shard: self) }

    /// Passwords, certificates and exchanges of AUTH.
    @inline(__always)
    var authentication: Authentication { Authentication(shard: self) }

    /// How connections end, and what becomes of their sessions and wills.
    @inline(__always)
    var disconnecting: Disconnecting { Disconnecting(shard: self) }

    // MARK: Receiving

    /// Bytes into packets, a part of a long one in each turn.
    @inline(__always)
    var receiving: Receiving { Receiving(shard: self) }

    /// PUBLISH: is it allowed, whom does it concern, when is it acknowledged.
    @inline(__always)
    var publishing: Publishing { Publishing(shard: self) }

    /// PUBACK, PUBREC, PUBREL and PUBCOMP.
    @inline(__always)
    var acknowledging: Acknowledging { Acknowledging(shard: self) }

    /// SUBSCRIBE and UNSUBSCRIBE.
    @inline(__always)
    var subscribing: Subscribing { Subscribing(shard: self) }

    // MARK: Routing

    /// A message to those who receive it.
    @inline(__always)
    var dispatcher: Dispatcher { Dispatcher(shard: self) }

    /// Packets that are not messages.
    @inline(__always)
    var sending: Sending { Sending(shard: self) }

    /// Messages that are not delivered, counted and told.
    @inline(__always)
    var drops: Drops { Drops(shard: self) }

    // MARK: Retained messages

    /// Setting and clearing them.
    @inline(__always)
    var retainedMessages: RetainedMessages { RetainedMessages(shard: self) }

    /// Finding them for new subscriptions.
    @inline(__always)
    var scanning: RetainedScanning { RetainedScanning(shard: self) }

    // MARK: Shared subscriptions

    /// Which member gets a message.
    @inline(__always)
    var shareGroups: ShareGroups { ShareGroups(shard: self) }

    // MARK: Sessions

    /// How sessions end and expire.
    @inline(__always)
    var lifecycle: SessionLifecycle { SessionLifecycle(shard: self) }

    /// Clients without a connection: bridges, the embedded client.
    @inline(__always)
    var localClients: LocalClients { LocalClients(shard: self) }

    // MARK: Durability

    /// What waits for the store.
    @inline(__always)
    var storing: Storing { Storing(shard: self) }

    /// Which changes become which rows.
    @inline(__always)
    var sessionRows: SessionRows { SessionRows(shard: self) }

    /// Queues of which the store has the greater part.
    @inline(__always)
    var storedQueues: StoredQueues { StoredQueues(shard: self) }

    // MARK: Other shards

    /// What shards tell one another.
    @inline(__always)
    var messaging: ShardMessaging { ShardMessaging(shard: self) }

    // MARK: Policy

    /// Which clients may publish and subscribe to what.
    @inline(__always)
    var accessChecks: AccessChecks { AccessChecks(shard: self) }

    /// Keeping users within what they may have at once.
    @inline(__always)
    var userBounds: UserBounds { UserBounds(shard: self) }

    /// Keeping out who is banned.
    @inline(__always)
    var banEnforcement: BanEnforcement { BanEnforcement(shard: self) }

    /// Publishers that wait for room in queues.
    @inline(__always)
    var queueRoom: QueueRoom { QueueRoom(shard: self) }

    /// Staying within the bound of memory.
    @inline(__always)
    var memoryBound: MemoryBound { MemoryBound(shard: self) }

    /// Changed rights, brought to sessions that are there.
    @inline(__always)
    var rightsChanges: RightsChanges { RightsChanges(shard: self) }

    /// Clients that do not keep up.
    @inline(__always)
    var slowClients: SlowClientWatch { SlowClientWatch(shard: self) }

    /// Sending clients to other brokers.
    @inline(__always)
    var draining: ClientDraining { ClientDraining(shard: self) }

    /// Whether bridges are connected.
    @inline(__always)
    var bridgeStateTopics: BridgeStateTopics { BridgeStateTopics(shard: self) }

    // MARK: Inspection

    /// Answers about what the shard holds.
    @inline(__always)
    var queries: Queries { Queries(shard: self) }

    /// What an administrator has done.
    @inline(__always)
    var commands: ShardCommands { ShardCommands(shard: self) }

    /// Emptying queues.
    @inline(__always)
    var purging: Purging { Purging(shard: self) }

    /// Events of clients that come and go.
    @inline(__always)
    var presence: Presence { Presence(shard: self) }

    /// The traces of clients, addresses and topics.
    @inline(__always)
    var tracing: Tracing { Tracing(shard: self) }

    /// Messages counted by topic.
    @inline(__always)
    var topicMetrics: TopicMetrics { TopicMetrics(shard: self) }

    /// The figures of `$SYS` and metrics.
    @inline(__always)
    var figures: ShardFigures { ShardFigures(shard: self) }

    /// Requests on `$CONTROL` topics.
    @inline(__always)
    var control: ControlTopics { ControlTopics(shard: self) }

    // MARK: The cluster

    /// Messages to and from other nodes.
    @inline(__always)
    var clusterMessaging: ClusterMessaging { ClusterMessaging(shard: self) }

    /// Share groups with members on several nodes.
    @inline(__always)
    var clusterDispatching: ClusterDispatching { ClusterDispatching(shard: self) }

    /// Messages and steps of the log.
    @inline(__always)
    var clusterLogReading: ClusterLogReading { ClusterLogReading(shard: self) }

    /// Sessions that move, or have moved.
    @inline(__always)
    var moves: SessionMoving { SessionMoving(shard: self) }

    /// Sessions that go to another node.
    @inline(__always)
    var departures: SessionDepartures { SessionDepartures(shard: self) }

    /// Sessions that come from another node.
    @inline(__always)
    var arrivals: SessionArrivals { SessionArrivals(shard: self) }

    /// What a session lacks of the log.
    @inline(__always)
    var sessionReplay: SessionReplay { SessionReplay(shard: self) }

    /// What the cluster keeps of a session.
    @inline(__always)
    var saves: SessionSaves { SessionSaves(shard: self) }
}
