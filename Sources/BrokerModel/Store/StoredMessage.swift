public import MQTTCodec

/// An Application Message as the store keeps it.
///
///     expiresAt 8 | publisher 8 | properties' length 4 | payload's length 4 | topic's length 2 | QoS 1 | RETAIN 1 | the three
public struct StoredMessage: Equatable, Sendable {
    public var topic: [UInt8]
    /// The properties that travel unaltered, as PUBLISH carries them.
    public var properties: [UInt8]
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    /// Milliseconds since 1970; nil for never.
    public var expiresAt: UInt64?
    /// Stands for its publisher's Client Identifier, for No Local; 0 for the broker.
    public var publisher: UInt64

    public init(
        topic: [UInt8], properties: [UInt8] = [], payload: [UInt8], qos: QoS, retain: Bool, expiresAt: UInt64? = nil,
        publisher: UInt64 = 0
    ) {
        self.topic = topic
        self.properties = properties
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.expiresAt = expiresAt
        self.publisher = publisher
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        self.init(&reader)
        guard reader.isAtEnd else { return nil }
    }

    /// Whether topic and properties are what a client may be sent.
    package var isLegal: Bool {
        topic.withUnsafeBytes(TopicValidation.validateName) == nil && properties.withUnsafeBytes(Properties.areOfMessage)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        write(to: &writer)
        return writer.bytes
    }

    package init?(_ reader: inout RecordReader) {
        guard let parts = MessageParts(&reader) else { return nil }
        self.init(
            topic: Array(parts.topic), properties: Array(parts.properties), payload: Array(parts.payload), qos: parts.qos,
            retain: parts.retain, expiresAt: parts.expiresAt == MessageParts.never ? nil : parts.expiresAt,
            publisher: parts.publisher)
    }

    package func write(to writer: inout RecordWriter) {
        writer.write(expiresAt ?? MessageParts.never)
        writer.write(publisher)
        writer.write(UInt32(properties.count))
        writer.write(UInt32(payload.count))
        writer.write(UInt16(topic.count))
        writer.write(qos.rawValue)
        writer.write(retain)
        for part in [topic, properties, payload] { writer.append(part) }
    }
}
