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
    /// The session of this shard whose client, or whose will, it comes from; nil for the broker's own, and for what
    /// comes from elsewhere.
    var sender: Reference<Session>?
    /// When the shard that sent it had read it, in microseconds; 0 for a message that was read here, in this turn.
    var readAt: UInt64 = 0
    /// Of a message to be retained: whose it is; nil for the broker's own.
    var source: RetainedSource?

    /// Whether its publisher is told that it was taken. Where publishers are refused when a queue is full, none is too
    /// full for it then: what comes after it is refused.
    var mustArrive = false

    /// The encodings that receivers share. Of a QoS 0 message by protocol (3 or 5) and RETAIN flag, to be sent from
    /// where they lie; of another by protocol and QoS, without a packet identifier, to be copied to each receiver. No
    /// message needs both.
    var frames = FrameSet()
    /// How many sessions of this shard are known to receive it.
    var receiverCount = 1
    /// Whether several receivers are likely to need a copy.
    var hasManyReceivers = false
    /// Whether it is one of several that are worked off in a row: it may wait for the next, until the row has ended.
    /// Not for what is published on the way to something else, such as the will of a session that ends.
    var isOfRow = false
    /// The payload in the arena, for large messages of QoS 1 and 2.
    var sharedPayload: SharedFrame?
    var message: Message?
    /// Which of its receivers get it in this way.
    var path = Path.all
    /// Names a QoS 2 message for the other shards; 0 for none.
    var receipt: UInt64 = 0
    /// What the cluster's log calls a message that comes out of it.
    var name = MessageName.none
    /// What share groups have to know of it; nil for nearly all messages.
    private var dispatched: DispatchedMessage?

    /// A message that a cluster logs has two ways to its receivers.
    enum Path: UInt8 {
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

    /// A message for one entry of a session's queue, which holds it: for a publication that nothing else needs one of.
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

/// An Application Message that somebody has to wait for: queued, in flight, retained, or a will.
///
/// One allocation holds the header and, behind it, topic, properties and payload. Immutable; shared by all queues of a
/// shard. The properties are those that travel unaltered: without Topic Alias, Message Expiry Interval and Subscription
/// Identifier.
final class Message: ManagedBuffer<Message.Header, UInt8> {
    /// The fields that are needed when the message is freed stand first: it has left the nearest caches by then.
    struct Header {
        /// How many entries of queues hold it: together they are one reference, for counting those takes a locked
        /// instruction each time.
        var holds: UInt32 = 0
        var topicLength: UInt32
        var propertiesLength: UInt32
        var payloadLength: UInt32
        /// Where it counts, which outlives it; nil when it has gone already.
        var ledger: Reference<MessageLedger>?
        /// Of a retained message: whose it is; nil for the broker's own.
        var source: RetainedSource?
        /// Its row in the store, if several entries share it.
        var stored: StoredPayload?
        /// Milliseconds on the shard's clock, or `Message.neverExpires`.
        var expiresAt: UInt64
        /// Its publisher's `Session.publisherKey`; 0 for the broker.
        var publisher: UInt64
        var qos: QoS
        var retain: Bool
        /// When it was made, in microseconds on the shard's clock: 48 bits, for nine years.
        fileprivate let madeAtHigh: UInt16
        fileprivate let madeAtLow: UInt32

        var madeAt: UInt64 { UInt64(madeAtHigh) << 32 | UInt64(madeAtLow) }

        var byteCount: Int { Int(topicLength) &+ Int(propertiesLength) &+ Int(payloadLength) }
    }

    static let neverExpires: UInt64 = .max

    /// Rounded up: a message that waits less than a second keeps its interval.
    @inline(__always)
    static func expirySeconds(until deadline: UInt64, now: UInt64) -> UInt32? {
        deadline == neverExpires ? nil : UInt32(clamping: (max(deadline, now) &- now &+ 999) / 1000)
    }

    static func make(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS, retain: Bool,
        expiresAt: UInt64, publisher: UInt64, ledger: MessageLedger
    ) -> Message {
        let madeAt = ledger.clockMicroseconds
        // Complete at once: a header that is changed afterwards is copied, with a locked instruction for each reference
        // in it.
        let header = Header(
            topicLength: UInt32(truncatingIfNeeded: topic.count), propertiesLength: UInt32(truncatingIfNeeded: properties.count),
            payloadLength: UInt32(truncatingIfNeeded: payload.count), ledger: Reference(ledger),
            expiresAt: expiresAt, publisher: publisher, qos: qos, retain: retain,
            madeAtHigh: UInt16(truncatingIfNeeded: madeAt >> 32), madeAtLow: UInt32(truncatingIfNeeded: madeAt))
        let message = ledger.idle.take(header.byteCount).map { reused($0, header) } ?? allocate(header)
        message.withUnsafeMutablePointerToElements { elements in
            var target = UnsafeMutableRawPointer(elements)
            for part in [topic, properties, payload] {
                if let source = part.baseAddress { target.copyMemory(from: source, byteCount: part.count) }
                target += part.count
            }
        }
        ledger.enter(header.byteCount)
        return message
    }

    /// One that an entry holds, and nobody else.
    static func makeHeld(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS,
        expiresAt: UInt64, publisher: UInt64, ledger: MessageLedger
    ) -> Reference<Message> {
        let message = make(
            topic: topic, properties: properties, payload: payload, qos: qos, retain: false, expiresAt: expiresAt,
            publisher: publisher, ledger: ledger)
        message.header.holds = 1
        return Reference(retaining: message)
    }

    private static func allocate(_ header: Header) -> Message {
        let buffer = Message.create(minimumCapacity: IdleMessages.capacity(for: header.byteCount)) { _ in header }
        // `create` on the subclass makes the subclass; its declared type is the superclass.
        return unsafeDowncast(buffer, to: Message.self)
    }

    /// The header of an idle message refers to nothing, so that it need not be read.
    private static func reused(_ idle: Reference<Message>, _ header: Header) -> Message {
        let message = idle.take()
        message.withUnsafeMutablePointerToHeader { $0.initialize(to: header) }
        return message
    }

    deinit {
        if let ledger = header.ledger { ledger.with { $0.leave(header.byteCount) } }
    }

    // MARK: Entries of queues

    /// One more entry holds it.
    @inline(__always)
    func hold() -> Reference<Message> {
        header.holds &+= 1
        return header.holds == 1 ? Reference(retaining: self) : Reference(self)
    }

    /// An entry lets go of it. If nobody has it any more, its memory is for the next message.
    @inline(__always)
    static func letGo(_ held: Reference<Message>) {
        let isLast = held.with { message in
            precondition(message.header.holds > 0, "an entry lets go of its message once")
            message.header.holds &-= 1
            return message.header.holds == 0
        }
        if isLast { giveBack(held) }
    }

    @inline(never)
    private static func giveBack(_ held: Reference<Message>) {
        guard isOnly(held) else { return held.release() }
        let (ledger, byteCount) = held.with { message in
            message.header.source = nil
            message.header.stored = nil
            return (message.header.ledger, message.byteCount)
        }
        guard let ledger else { preconditionFailure("a message that is held counts somewhere") }
        ledger.with { $0.takeBack(held, byteCount) }
    }

    /// Takes note that the message has left the ledger's count, because it is put aside.
    func forgetLedger() { header.ledger = nil }

    /// Whether nobody else has a reference to it; looks at it where it is, without one of its own.
    static func isOnly(_ held: Reference<Message>) -> Bool {
        var held = held
        return withUnsafeMutablePointer(to: &held) { place in
            place.withMemoryRebound(to: Message.self, capacity: 1) { isKnownUniquelyReferenced(&$0.pointee) }
        }
    }

    /// Its row in the store, if several entries share it.
    var stored: StoredPayload? {
        get { header.stored }
        set { header.stored = newValue }
    }
    var qos: QoS { header.qos }
    var retain: Bool { header.retain }
    var expiresAt: UInt64 { header.expiresAt }
    var publisher: UInt64 { header.publisher }
    /// When it was made, in microseconds on the shard's clock.
    var madeAt: UInt64 { header.madeAt }
    var source: RetainedSource? {
        get { header.source }
        set { header.source = newValue }
    }
    var payloadLength: Int { Int(header.payloadLength) }
    /// Topic, properties and payload together.
    var byteCount: Int { header.byteCount }

    /// The parts; valid while the message lives.
    var topic: UnsafeRawBufferPointer { part(at: 0, count: header.topicLength) }
    var properties: UnsafeRawBufferPointer { part(at: header.topicLength, count: header.propertiesLength) }
    var payload: UnsafeRawBufferPointer {
        part(at: header.topicLength &+ header.propertiesLength, count: header.payloadLength)
    }

    func hasExpired(at now: UInt64) -> Bool { header.expiresAt <= now }

    private func part(at offset: UInt32, count: UInt32) -> UnsafeRawBufferPointer {
        withUnsafeMutablePointerToElements { UnsafeRawBufferPointer(start: UnsafeRawPointer($0) + Int(offset), count: Int(count)) }
    }
}

/// What PUBLISH packets are made of: a message being routed, or one that somebody waits for.
protocol PublishParts: ~Copyable {
    var topic: UnsafeRawBufferPointer { get }
    /// The properties that travel unaltered.
    var properties: UnsafeRawBufferPointer { get }
    var payload: UnsafeRawBufferPointer { get }
    /// Of the three together.
    var byteCount: Int { get }
}

extension Publication: PublishParts {}

/// What share groups have to know of a message that is being routed. One publication has it.
private final class DispatchedMessage {
    var hops: UInt8 = 0
    var choices: [GroupChoice]?
    var mark: DispatchToken?
    var dispatch: GroupDispatch?
}

extension Publication {
    /// How often nodes of the cluster have passed it on to another one whose share group has a member for it.
    var hops: UInt8 {
        get { dispatched?.hops ?? 0 }
        set { if newValue != hops { makeDispatched().hops = newValue } }
    }

    /// What share groups have chosen for a message with a receipt, where the member lives on another shard; nil for
    /// nothing.
    var choices: [GroupChoice]? { dispatched?.choices }

    /// Of what a share group dispatches out of the cluster's log: counts until its member is done with it.
    var mark: DispatchToken? {
        get { dispatched?.mark }
        set { if newValue != nil || dispatched != nil { makeDispatched().mark = newValue } }
    }

    /// To which other nodes share groups leave it.
    var dispatch: GroupDispatch? {
        get { dispatched?.dispatch }
        set { makeDispatched().dispatch = newValue }
    }

    mutating func choose(_ choice: GroupChoice) {
        let dispatched = makeDispatched()
        if dispatched.choices == nil { dispatched.choices = [] }
        dispatched.choices?.append(choice)
    }

    private mutating func makeDispatched() -> DispatchedMessage {
        if let dispatched { return dispatched }
        let made = DispatchedMessage()
        dispatched = made
        return made
    }
}

extension Message: PublishParts {}

/// The encodings of one message that receivers have in common, by kind 0 to 3; each is made when the first receiver
/// needs it.
///
/// Each frame's chunk is pinned until `release`. Four properties: an inline array would be taken apart, element by
/// element, with every message that is routed.
struct FrameSet {
    private var isEmpty = true
    private var first: SharedFrame?
    private var second: SharedFrame?
    private var third: SharedFrame?
    private var fourth: SharedFrame?

    subscript(kind: Int) -> SharedFrame? {
        @inline(__always) get {
            switch kind {
            case 0: first
            case 1: second
            case 2: third
            default: fourth
            }
        }
        set {
            isEmpty = false
            switch kind {
            case 0: first = newValue
            case 1: second = newValue
            case 2: third = newValue
            default: fourth = newValue
            }
        }
    }

    @inline(__always)
    mutating func release(to arena: inout Arena) {
        guard !isEmpty else { return }
        if let first { arena.release(first.chunk) }
        if let second { arena.release(second.chunk) }
        if let third { arena.release(third.chunk) }
        if let fourth { arena.release(fourth.chunk) }
        self = FrameSet()
    }
}

/// Counts the messages that a shard keeps, and their bytes. Lives as long as any of them does. Belongs to its shard's
/// thread.
final class MessageLedger {
    private(set) var count = 0
    private(set) var byteCount = 0
    /// The bytes of memory that the messages take.
    var heldBytes: Int { byteCount &+ count &* Self.messageBytes }
    /// What a message takes besides its bytes.
    private static let messageBytes = 112
    /// The shard's time, which messages remember.
    var clockMicroseconds: UInt64 = 0
    /// The memory of messages that have gone.
    var idle = IdleMessages()

    /// A message of `byteCount` bytes is there.
    func enter(_ byteCount: Int) {
        if count == 0 { _ = Reference(retaining: self) }
        count &+= 1
        self.byteCount &+= byteCount
    }

    /// A message of `byteCount` bytes has gone; with the last one, perhaps, the ledger.
    func leave(_ byteCount: Int) {
        count &-= 1
        self.byteCount &-= byteCount
        if count == 0 { Reference(self).release() }
    }

    /// The only reference to a message of `byteCount` bytes, which is no longer needed: its memory is for the next one.
    /// The message itself is not touched, and so whether the reference is the only one is asserted, not required: to
    /// look costs what this is for.
    @inline(__always)
    func takeBack(_ message: Reference<Message>, _ byteCount: Int) {
        assert(Message.isOnly(message), "somebody has a reference to a message of one entry")
        if idle.put(message, byteCount) { leave(byteCount) } else { message.release() }
    }
}

/// The properties of a will that travel with the message, encoded as a PUBLISH carries them.
enum ForwardedProperties {
    static func encode(_ properties: Properties) -> [UInt8] {
        var kept = Properties()
        kept.payloadFormatIndicator = properties.payloadFormatIndicator
        kept.contentType = properties.contentType
        kept.responseTopic = properties.responseTopic
        kept.correlationData = properties.correlationData
        kept.userProperties = properties.userProperties
        return kept.encodedContent()
    }
}
