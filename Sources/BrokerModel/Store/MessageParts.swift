package import MQTTCodec

/// The parts of a `StoredMessage` where they lie in a row's body, so that a queue's messages are written and read without copies between.
package struct MessageParts {
    package let expiresAt: UInt64
    package let publisher: UInt64
    package let qos: QoS
    package let retain: Bool
    package let topic: UnsafeRawBufferPointer
    package let properties: UnsafeRawBufferPointer
    package let payload: UnsafeRawBufferPointer

    package static let never: UInt64 = .max
    private static let fixedSize = 28

    /// Reads the parts; nil if they are not whole, or nothing that a broker would keep.
    package init?(_ reader: inout RecordReader) {
        guard let expiresAt = reader.read(UInt64.self), let publisher = reader.read(UInt64.self),
            let propertiesLength = reader.read(UInt32.self), let payloadLength = reader.read(UInt32.self),
            let topicLength = reader.read(UInt16.self), let qos = reader.read(UInt8.self).flatMap({ QoS(rawValue: $0) }),
            let retain = reader.readBool(), topicLength > 0, let topic = reader.take(Int(topicLength)),
            let properties = reader.take(Int(propertiesLength)), let payload = reader.take(Int(payloadLength))
        else { return nil }
        (self.expiresAt, self.publisher, self.qos, self.retain) = (expiresAt, publisher, qos, retain)
        (self.topic, self.properties, self.payload) = (topic, properties, payload)
    }

    /// Whether topic and properties are what a client may be sent.
    package var isLegal: Bool { TopicValidation.validateName(topic) == nil && Properties.areOfMessage(properties) }

    package var size: Int { Self.fixedSize + topic.count + properties.count + payload.count }

    /// Writes them as `StoredMessage` does; `target` has room for `size` bytes.
    package func write(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: expiresAt, as: UInt64.self)
        target.storeBytes(of: publisher, toByteOffset: 8, as: UInt64.self)
        target.storeBytes(of: UInt32(properties.count), toByteOffset: 16, as: UInt32.self)
        target.storeBytes(of: UInt32(payload.count), toByteOffset: 20, as: UInt32.self)
        target.storeBytes(of: UInt16(topic.count), toByteOffset: 24, as: UInt16.self)
        target.storeBytes(of: qos.rawValue, toByteOffset: 26, as: UInt8.self)
        target.storeBytes(of: retain ? 1 : 0, toByteOffset: 27, as: UInt8.self)
        var position = target + Self.fixedSize
        for part in [topic, properties, payload] {
            if let source = part.baseAddress { position.copyMemory(from: source, byteCount: part.count) }
            position += part.count
        }
    }

    package init(
        expiresAt: UInt64, publisher: UInt64, qos: QoS, retain: Bool, topic: UnsafeRawBufferPointer,
        properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) {
        self.expiresAt = expiresAt
        self.publisher = publisher
        self.qos = qos
        self.retain = retain
        self.topic = topic
        self.properties = properties
        self.payload = payload
    }
}
