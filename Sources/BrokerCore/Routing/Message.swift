import MQTTCodec

/// An Application Message that somebody has to wait for: queued, in flight, retained, or a will.
///
/// One allocation holds the header and, behind it, topic, properties and payload. Immutable; shared by all queues of a shard. The
/// properties are those that travel unaltered: without Topic Alias, Message Expiry Interval and Subscription Identifier.
final class Message: ManagedBuffer<Message.Header, UInt8> {
    /// What is needed when the message goes stands first: it has left the nearest caches by then.
    struct Header {
        /// How many entries of outboxes hold it: together they are one reference, for counting those takes a locked instruction each time.
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
        // Complete at once: a header that is changed afterwards is copied, with a locked instruction for each reference in it.
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

    // MARK: Entries of outboxes

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

    /// What is put aside has left the ledger's count.
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
