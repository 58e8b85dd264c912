internal import JSON
internal import MQTTCodec

/// The JSON of %j and %J, byte for byte as mosquitto_sub prints it.
///
/// One thing differs: properties stand in the order of their identifiers, where mosquitto_sub has them as they came.
enum MessageJSON {
    /// - Parameter isEscaped: whether the payload is a string (%j) or JSON itself (%J).
    /// - Returns: nil if it has to be JSON and is not.
    static func bytes(of message: PrintableMessage, at time: LocalTime, isEscaped: Bool, isPretty: Bool) -> [UInt8]? {
        var payload = CJSONValue.null
        if !isEscaped, !message.payload.isEmpty {
            guard let value = CJSONValue(reading: message.payload) else { return nil }
            payload = value
        } else if !message.payload.isEmpty {
            payload = .string(untilNull(message.payload))
        }
        var writer = JSONWriter(isPretty ? .cJSONLines : .cJSON)
        writer.object { object in
            object.set("tst", time.microsecondsText)
            object.set("topic", utf8: message.topic.bytes)
            object.set("qos", message.qos.rawValue)
            object.set("retain", message.retain ? 1 : 0)
            object.set("payloadlen", message.payload.count)
            if message.qos != .atMostOnce { object.set("mid", message.packetIdentifier) }
            if !message.properties.isEmpty { object.object("properties") { write(message.properties, to: &$0) } }
            object.member("payload".utf8) { payload.write(to: &$0) }
        }
        return writer.bytes
    }

    private static func write(_ properties: Properties, to object: inout JSONWriter) {
        if let value = properties.payloadFormatIndicator { object.set("payload-format-indicator", value) }
        if let value = properties.messageExpiryInterval { object.set("message-expiry-interval", value) }
        if let value = properties.contentType { object.set("content-type", utf8: value.bytes) }
        if let value = properties.responseTopic { object.set("response-topic", utf8: value.bytes) }
        if let value = properties.correlationData { object.set("correlation-data", utf8: untilNull(value)) }
        for identifier in properties.subscriptionIdentifiers { object.set("subscription-identifier", identifier) }
        if let value = properties.topicAlias { object.set("topic-alias", value) }
        guard !properties.userProperties.isEmpty else { return }
        object.object("user-properties") { pairs in
            for property in properties.userProperties {
                pairs.member(property.name.bytes) { $0.add(utf8: property.value.bytes) }
            }
        }
    }

    /// mosquitto_sub's strings end where C's do.
    private static func untilNull(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.prefix { $0 != 0 }) }
}
