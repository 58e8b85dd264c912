import MQTTCodec

/// An Application Message that somebody has to wait for: queued, in flight, retained, or a will.
///
/// One allocation holds the header and, behind it, topic, properties and payload. Immutable; shared by all queues of a shard. The
/// properties are those that travel unaltered: without Topic Alias, Message Expiry Interval and Subscription Identifier.
final class Message: ManagedBuffer<Message.Header, UInt8> {
    struct Header {
        var topicLength: Int
        var propertiesLength: Int
        var payloadLength: Int
        /// Milliseconds on the shard's clock, or `Message.neverExpires`.
        var expiresAt: UInt64
        /// Its publisher's `Session.publisherKey`; 0 for the broker.
        var publisher: UInt64
        var qos: QoS
        var retain: Bool
        /// Of a retained message: whose it is; nil for the broker's own.
        var source: RetainedSource?
        let ledger: MessageLedger
        /// Its row in the store, if several entries share it.
        var stored: StoredPayload?
    }

    static let neverExpires: UInt64 = .max

    /// Rounded up: a message that waits less than a second keeps its interval.
    @inline(__always)
    static func expirySeconds(until deadline: UInt64, now: UInt64) -> UInt32? {
        deadline == neverExpires ? nil : UInt32(clamping: (max(deadline, now) - now + 999) / 1000)
    }

    static func make(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS, retain: Bool,
        expiresAt: UInt64, publisher: UInt64, ledger: MessageLedger
    ) -> Message {
        let buffer = Message.create(minimumCapacity: topic.count + properties.count + payload.count) { _ in
            Header(
                topicLength: topic.count, propertiesLength: properties.count, payloadLength: payload.count, expiresAt: expiresAt,
                publisher: publisher, qos: qos, retain: retain, source: nil, ledger: ledger)
        }
        // `create` on the subclass makes the subclass; its declared type is the superclass.
        let message = unsafeDowncast(buffer, to: Message.self)
        message.withUnsafeMutablePointerToElements { elements in
            var target = UnsafeMutableRawPointer(elements)
            for part in [topic, properties, payload] {
                if let source = part.baseAddress { target.copyMemory(from: source, byteCount: part.count) }
                target += part.count
            }
        }
        ledger.count += 1
        ledger.byteCount += message.byteCount
        return message
    }

    deinit {
        let header = header
        header.ledger.count -= 1
        header.ledger.byteCount -= header.topicLength + header.propertiesLength + header.payloadLength
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
    var source: RetainedSource? {
        get { header.source }
        set { header.source = newValue }
    }
    var payloadLength: Int { header.payloadLength }
    /// Topic, properties and payload together.
    var byteCount: Int { header.topicLength + header.propertiesLength + header.payloadLength }

    /// The parts; valid while the message lives.
    var topic: UnsafeRawBufferPointer { part(at: 0, count: header.topicLength) }
    var properties: UnsafeRawBufferPointer { part(at: header.topicLength, count: header.propertiesLength) }
    var payload: UnsafeRawBufferPointer {
        part(at: header.topicLength + header.propertiesLength, count: header.payloadLength)
    }

    func hasExpired(at now: UInt64) -> Bool { header.expiresAt <= now }

    private func part(at offset: Int, count: Int) -> UnsafeRawBufferPointer {
        withUnsafeMutablePointerToElements { UnsafeRawBufferPointer(start: UnsafeRawPointer($0) + offset, count: count) }
    }
}
