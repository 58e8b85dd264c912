public import MQTTCodec

/// A message that the server sent. Its topic is whole, also where an alias stood for it.
public struct ReceivedMessage: Sendable {
    public var topic: TopicName
    public var payload: Payload
    public var qos: QoS
    /// Whether the server kept it before this client subscribed; of subscriptions with Retain As Published, whether it
    /// was published so.
    public var retain: Bool
    /// Whether the server may have sent it before.
    public var duplicate: Bool
    /// What `ClientSession.acknowledge` wants to know; nil at QoS 0.
    public var token: AcknowledgementToken?
    /// The first Subscription Identifier that came with it, 0 for none. Where a server sends one message for several
    /// subscriptions, the others stand in the properties.
    public var subscriptionIdentifier: UInt32 = 0
    /// When its Message Expiry Interval is over, in milliseconds of the session's clock; `UInt64.max` for never.
    package var expiresAt = UInt64.max
    /// The property bytes as they came; empty when there is none, or `box` has them.
    private var propertyBytes: Payload
    private var box = PropertyBox(())

    public init(
        topic: TopicName, payload: Payload, qos: QoS, retain: Bool, duplicate: Bool, token: AcknowledgementToken?
    ) {
        self.init(
            topic: topic, payload: payload, qos: qos, retain: retain, duplicate: duplicate, token: token, propertyBytes: Payload())
    }

    /// As above, with property bytes that a `PublishView` has checked.
    @inline(__always)
    init(
        topic: TopicName, payload: Payload, qos: QoS, retain: Bool, duplicate: Bool, token: AcknowledgementToken?,
        propertyBytes: Payload
    ) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        (self.duplicate, self.token, self.propertyBytes) = (duplicate, token, propertyBytes)
    }

    /// Its properties but the Topic Alias and a lone Subscription Identifier. They are taken apart each time they are
    /// asked for.
    public var properties: Properties {
        get {
            guard !propertyBytes.isEmpty else { return box.value }
            var properties = propertyBytes.withUnsafeBytes { Properties(publishContent: $0) } ?? Properties()
            properties.topicAlias = nil
            if properties.subscriptionIdentifiers.count == 1 { properties.subscriptionIdentifiers = [] }
            return properties
        }
        set { (propertyBytes, box) = (Payload(), PropertyBox(newValue)) }
    }

    /// The Correlation Data, without taking all properties apart.
    public var correlationData: [UInt8]? {
        guard !propertyBytes.isEmpty else { return box.value.correlationData }
        return propertyBytes.withUnsafeBytes { PublishView.correlationData(in: $0) }
    }

    /// Whether it has a User Property.
    public var hasUserProperties: Bool {
        guard !propertyBytes.isEmpty else { return !box.value.userProperties.isEmpty }
        return propertyBytes.withUnsafeBytes { PublishView.hasUserProperties(in: $0) }
    }

    /// Bytes of topic, payload and properties.
    package var byteCount: Int {
        topic.bytes.count + payload.count + (box.isEmpty ? propertyBytes.count : box.value.encodedContent().count)
    }

    /// Whether it has any property.
    public var hasProperties: Bool { !propertyBytes.isEmpty || !box.isEmpty }
}

extension ReceivedMessage: Hashable {
    public static func == (left: ReceivedMessage, right: ReceivedMessage) -> Bool {
        left.topic == right.topic && left.payload == right.payload && left.qos == right.qos && left.retain == right.retain
            && left.duplicate == right.duplicate && left.token == right.token
            && left.subscriptionIdentifier == right.subscriptionIdentifier && left.properties == right.properties
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(topic)
        hasher.combine(payload)
        hasher.combine(qos)
        hasher.combine(token)
    }
}

/// Which message of the server is meant: no other of the session object's life has the same.
public struct AcknowledgementToken: Hashable, Sendable {
    /// The serial number of the message, and in the lowest 16 bits its packet identifier.
    package let number: UInt64

    package init(number: UInt64) { self.number = number }

    @inline(__always)
    init(_ packetIdentifier: UInt16, serial: UInt64) { number = serial << 16 | UInt64(packetIdentifier) }

    /// The packet identifier under which the message came. The server uses it again for others when the message is
    /// acknowledged.
    public var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: number) }
}

/// Tokens of messages that the server may forget, for they are in the client's store: the highest bit, 20 bits for the
/// subscription, and the message's number there.
extension AcknowledgementToken {
    package init(stored number: UInt64, for subscription: UInt32) {
        self.number = 1 << 63 | UInt64(subscription & 0xf_ffff) << 43 | (number & 0x7ff_ffff_ffff)
    }

    /// Whether the message is in the store.
    package var isStored: Bool { number >> 63 == 1 }

    /// The number of a message that is in the store for that subscription.
    package func storedNumber(for subscription: UInt32) -> UInt64? {
        guard isStored, UInt32(truncatingIfNeeded: number >> 43) & 0xf_ffff == subscription & 0xf_ffff else { return nil }
        return number & 0x7ff_ffff_ffff
    }
}

/// The bytes of a message, counted from 0.
///
/// Received payloads share the memory of what came with them: one that is kept for long keeps up to 16 KiB alive;
/// `bytes` is a copy of its own.
public struct Payload: Sendable {
    @usableFromInline let shared: ArraySlice<UInt8>

    /// No bytes.
    @inlinable
    public init() { shared = [] }

    @inlinable
    public init(_ bytes: [UInt8]) { shared = bytes[...] }

    @inlinable
    public init(_ bytes: ArraySlice<UInt8>) { shared = bytes }

    /// Copies the bytes.
    @inlinable
    public init(copying bytes: UnsafeRawBufferPointer) { shared = Array(bytes)[...] }

    /// The text in UTF-8.
    @inlinable
    public init(_ text: some StringProtocol) { shared = Array(text.utf8)[...] }

    /// A copy of the bytes, alone in its memory.
    @inlinable
    public var bytes: [UInt8] { Array(shared) }

    /// The bytes as text, nil where they are not UTF-8.
    public var text: String? { String(validating: shared, as: UTF8.self) }

    /// Lends the bytes for as long as the body runs.
    @inlinable
    public func withUnsafeBytes<Answer, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try shared.withUnsafeBufferPointer { bytes throws(Failure) in try body(UnsafeRawBufferPointer(bytes)) }
    }
}

extension Payload: RandomAccessCollection {
    @inlinable
    public var startIndex: Int { 0 }

    @inlinable
    public var endIndex: Int { shared.count }

    @inlinable
    public subscript(index: Int) -> UInt8 { shared[shared.startIndex + index] }
}

extension Payload: Hashable {
    public static func == (left: Payload, right: Payload) -> Bool { left.shared == right.shared }

    public func hash(into hasher: inout Hasher) { withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension Payload: ExpressibleByArrayLiteral {
    public init(arrayLiteral bytes: UInt8...) { self.init(bytes) }
}

extension Payload: ExpressibleByStringInterpolation {
    public init(stringLiteral text: String) { self.init(text) }
}

extension Payload: CustomStringConvertible {
    /// The text, or how many bytes where it is none.
    public var description: String { text ?? "\(count) bytes" }
}

/// A message to be published.
public struct Publication: Hashable, Sendable {
    public var topic: TopicName
    public var payload: Payload
    public var qos: QoS
    /// Whether the server keeps it for those who subscribe later. An empty payload removes what it keeps.
    public var retain: Bool
    private var box: PropertyBox

    /// - Parameters:
    ///   - topic: where it is published.
    ///   - payload: its bytes.
    ///   - qos: how often it arrives: at most, at least or exactly once.
    ///   - retain: whether the server keeps it for those who subscribe later.
    ///   - properties: Topic Alias and Subscription Identifiers are the library's, and left out. Before MQTT 5.0 none
    ///     is sent.
    public init(
        _ topic: TopicName, _ payload: Payload = Payload(), qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        box = PropertyBox(properties)
    }

    /// As above, without looking for properties.
    package init(_ topic: TopicName, _ payload: Payload, qos: QoS, retain: Bool) {
        (self.topic, self.payload, self.qos, self.retain) = (topic, payload, qos, retain)
        box = PropertyBox(())
    }

    public var properties: Properties {
        get { box.value }
        set { box.value = newValue }
    }

    /// When it is too old, if it was given at a time in milliseconds: by its Message Expiry Interval; `UInt64.max` for
    /// never.
    package func expiry(since time: UInt64) -> UInt64 {
        guard hasProperties, let seconds = properties.messageExpiryInterval else { return .max }
        return time + UInt64(seconds) * 1000
    }

    /// As it is to be sent now: what is left of its time is its Message Expiry Interval, in whole seconds, and at
    /// least 1.
    package func aged(to now: UInt64, expiresAt: UInt64) -> Publication {
        guard expiresAt != .max else { return self }
        var aged = self
        aged.properties.messageExpiryInterval = UInt32(clamping: max(1, (max(now, expiresAt) - now + 999) / 1000))
        return aged
    }

    /// Bytes of topic and payload.
    public var byteCount: Int { topic.bytes.count + payload.count }

    /// Whether it has any property.
    public var hasProperties: Bool { !box.isEmpty }
}

/// Properties of a message, where there are any: most messages have none, and the struct is large.
struct PropertyBox: Hashable, Sendable {
    private final class Storage: Sendable {
        let properties: Properties

        init(_ properties: Properties) { self.properties = properties }
    }

    private var storage: Storage?

    init(_ properties: Properties = Properties()) {
        if !properties.isEmpty { storage = Storage(properties) }
    }

    /// No property.
    init(_ nothing: Void) {}

    var isEmpty: Bool { storage == nil }

    var value: Properties {
        get { storage?.properties ?? Properties() }
        set { self = PropertyBox(newValue) }
    }

    static func == (left: PropertyBox, right: PropertyBox) -> Bool {
        left.storage === right.storage || left.value == right.value
    }

    func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
