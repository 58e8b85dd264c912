import BrokerModel
import MQTTCodec

/// A message being routed: where its parts lie, and what has been made of it so far.
///
/// The memory belongs to the caller (a received frame, a batch of shard messages, a message) and is valid while it is
/// routed. What several receivers need, a frame in the arena or a `Message` for queues, is made when the first one
/// needs it.
struct Publication: ~Copyable {
    let topic: UnsafeRawBufferPointer
    /// The properties that travel unaltered.
    let properties: UnsafeRawBufferPointer
    let payload: UnsafeRawBufferPointer
    let qos: QoS
    let retain: Bool
    let expiresAt: UInt64
    /// The publisher's `Session.publisherKey`; 0 for the broker.
    var publisher: UInt64
    /// Of a message to be retained: whose it is; nil for the broker's own.
    var source: RetainedSource?

    /// Whether its publisher is told that it was taken. Where publishers are refused when a queue is full, none is too full for it then:
    /// what comes after it is refused.
    var mustArrive = false

    /// The encodings that receivers share. Of a QoS 0 message by protocol (3 or 5) and RETAIN flag, to be sent from where they lie; of
    /// another by protocol and QoS, without a packet identifier, to be copied to each receiver. No message needs both.
    var frames = FrameSet()
    /// How many sessions of this shard are known to receive it.
    var receiverCount = 1
    /// Whether several receivers are likely to need a copy.
    var hasManyReceivers = false
    /// Whether it is one of several that are worked off in a row: it may wait for the next, until the row has ended. Not for what is
    /// published on the way to something else, such as the will of a session that ends.
    var isOfRow = false
    /// The payload in the arena, for large messages of QoS 1 and 2.
    var sharedPayload: SharedFrame?
    var message: Message?
    /// Which of its receivers get it in this way.
    var lane = Lane.all
    /// How often nodes of the cluster have passed it on to another one whose share group has a member for it.
    var hops: UInt8 = 0
    /// Names a QoS 2 message for the other shards; 0 for none.
    var receipt: UInt64 = 0
    /// What share groups have chosen for a message with a receipt, where the member lives on another shard; nil for nothing, which costs
    /// less to let go of than an empty array.
    var choices: [GroupChoice]?
    /// Of what a share group deals out of the cluster's log: counts until its member is done with it.
    var mark: DealtMark?
    /// What the cluster's log calls a message that comes out of it.
    var name = MessageName.none

    /// A message that a cluster logs has two ways to its receivers.
    enum Lane: UInt8 {
        /// There is no log: all receivers.
        case all
        /// At once: those whose sessions end with their connection, and share groups.
        case passing
        /// Out of the log: those whose sessions last.
        case lasting
    }

    init(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS, retain: Bool,
        expiresAt: UInt64, publisher: UInt64
    ) {
        self.topic = topic
        self.properties = properties
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.expiresAt = expiresAt
        self.publisher = publisher
    }

    /// The publication of a message that was kept; the message must live as long.
    init(_ message: Message) {
        self.init(
            topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
            retain: message.retain,
            expiresAt: message.expiresAt, publisher: message.publisher)
        self.message = message
    }

    @inline(__always) var byteCount: Int { topic.count + properties.count + payload.count }

    /// A message for one entry of an outbox, which holds it: for a publication that nothing else needs one of.
    func held(_ ledger: MessageLedger) -> Reference<Message> {
        if let message { return message.hold() }
        return Message.makeHeld(
            topic: topic, properties: properties, payload: payload, qos: qos, expiresAt: expiresAt, publisher: publisher,
            ledger: ledger)
    }

    /// The message for queues, made once.
    mutating func makeMessage(_ ledger: MessageLedger) -> Message {
        if let message { return message }
        let made = Message.make(
            topic: topic, properties: properties, payload: payload, qos: qos, retain: retain, expiresAt: expiresAt,
            publisher: publisher, ledger: ledger)
        message = made
        return made
    }
}
