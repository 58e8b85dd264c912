import BrokerModel
import MQTTCodec

/// What the broker keeps for a Client Identifier, across connections: subscriptions, messages on their way, and the will.
///
/// Owned by its shard's `SessionTable`; belongs to the shard that the identifier hashes to.
final class Session {
    let index: UInt32
    /// Tells this session from an earlier one with the same index.
    let generation: UInt32
    /// Unique among all sessions of all shards, ever: the shard in the lowest byte.
    let key: UInt64
    let clientIdentifier: EncodedString
    /// What messages from the client carry, so that No Local knows them: the hash of the Client Identifier, never 0, the same for a later
    /// session of the same client. Sessions that divide topics among them have one for all, `TopicPart.publisher`. [MQTT-3.8.3-3 v5]
    var publisherKey: UInt64

    /// The connection it is on, or nil while the client is away.
    var connection: Reference<Connection>?
    var outbox = Outbox()
    /// QoS 2 messages received and not yet released by the client.
    var receivedIdentifiers = PacketIdentifierSet()
    /// The first record of the chain of its subscriptions in the tree.
    var firstSubscription = SubscriptionRecord.none
    var subscriptionCount: UInt32 = 0
    /// Seconds that the session outlives its connection; `UInt32.max` for ever. [MQTT-3.1.2-23 v5]
    var expiryIntervalSeconds: UInt32 = 0
    var version: ProtocolVersion = .v311
    /// How many messages may be in flight: the smaller of the client's Receive Maximum and the broker's limit. [MQTT-3.3.4-9 v5]
    var inFlightMax: Int = 20
    /// What its client may read and write; nil for everything.
    var access: AccessPolicy?
    /// Who its client was and which way it came when it was here last: what `access` follows from. No listener if that one is no more, or
    /// no client was here yet.
    var userName: EncodedString?
    var listener: Int? {
        get { listenerNumber == .max ? nil : Int(listenerNumber) }
        set { listenerNumber = newValue.map { Int32($0) } ?? .max }
    }
    private var listenerNumber = Int32.max
    /// Whether its client is the broker's own.
    var isBrokersOwn = false
    /// Whether it is the first user's who asks for it, because the store did not tell whose it is.
    var isUnclaimed = false
    /// Whether messages may wait that were queued when its client had other rights.
    var isQueueDoubtful = false
    /// When the session of a client that is away ends.
    var endsAt: UInt64 = .max
    /// When the session began and its last connection ended, in milliseconds; 0 if that was before the broker's start.
    var createdAt: UInt64 = 0
    var disconnectedAt: UInt64 = 0
    var timer = TimerWheel.none
    /// The log has said that this connection loses messages.
    var isToldToDrop = false
    /// Whether the store has a row of it.
    var isStored = false
    /// Whether the store has a row for the sake of its will alone, as it ends with its connection.
    var isWillStored = false
    /// Whether publishers are refused because of its queue: from when that is full until half of it is gone.
    var isFull = false
    /// Whether its queue has a bound of its own.
    var hasOwnQueueBound = false
    /// Whether another client may come when it ends; not while its own client takes its place.
    var leavesPlace = true
    /// Whether messages of its queue are being read from the store.
    var isReading = false
    /// Whether an order looks through what of its queue only the store has.
    var isSifted = false
    /// Whether messages of QoS 1 and 2 come to it out of a cluster's log, where there is one: it has outlived a connection, or was to.
    var readsLog = false
    /// Whether it lacks some of the log behind that, and gets nothing else before.
    var isReplaying = false
    /// Whether it is on its way from another node, or to one.
    var isMoving = false
    /// Whether this node keeps it, in a cluster whose sessions move.
    var isClaimed = false { didSet { if isClaimed { isLeft = false } } }
    /// Whether an earlier run of this node has left it, and it may be another's by now.
    var isLeft = false
    /// Whether it is being taken up from what the cluster has stored of it and from the log, which this node has not all of yet.
    var isTakenUp = false
    /// Whether the shard looks after each commit what of its queue is durable.
    var isListed = false
    /// By which claim it has kept it; 0 for none.
    var epoch: UInt64 = 0
    /// Whether what comes for it is to outlive a crash: not for a session that ends with its connection.
    var keepsMessages: Bool { isStored && expiryIntervalSeconds > 0 }

    /// The bytes that the shard has counted for it, and the room in its queue at that time.
    var countedBytes = 0
    var countedCapacity = 0

    /// What few sessions need; `SessionExtras.swift` says what that is.
    var extras: SessionExtras?

    /// Scratch of the match cache: where this session's route stands in the line being built.
    var routeBuildNumber: UInt32 = 0
    var routePosition: UInt32 = 0

    init(index: UInt32, generation: UInt32, key: UInt64, clientIdentifier: EncodedString, publisherKey: UInt64) {
        self.index = index
        self.generation = generation
        self.key = key
        self.clientIdentifier = clientIdentifier
        self.publisherKey = publisherKey
    }
}
