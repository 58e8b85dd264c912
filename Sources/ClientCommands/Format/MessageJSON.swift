internal import MQTTCodec

/// The JSON of %j and %J, byte for byte as mosquitto_sub prints it.
///
/// One thing differs: properties stand in the order of their identifiers, where mosquitto_sub has them as they came.
enum MessageJSON {
    /// - Parameter isEscaped: whether the payload is a string (%j) or JSON itself (%J).
    /// - Returns: nil if it has to be JSON and is not.
    static func bytes(of message: PrintableMessage, at time: LocalTime, isEscaped: Bool, isPretty: Bool) -> [UInt8]? {
        var members: [(name: [UInt8], value: JSONText)] = []
        func add(_ name: String, _ value: JSONText) { members.append((Array(name.utf8), value)) }
        add("tst", .string(time.microsecondsText))
        add("topic", .string(message.topic.bytes))
        add("qos", .number(Double(message.qos.rawValue)))
        add("retain", .number(message.retain ? 1 : 0))
        add("payloadlen", .number(Double(message.payload.count)))
        if message.qos != .atMostOnce { add("mid", .number(Double(message.packetIdentifier))) }
        if !message.properties.isEmpty { add("properties", .object(Self.members(of: message.properties))) }
        if message.payload.isEmpty {
            add("payload", .null)
        } else if isEscaped {
            add("payload", .string(untilNull(message.payload)))
        } else {
            guard let value = JSONText(reading: message.payload) else { return nil }
            add("payload", value)
        }
        return JSONText.object(members).bytes(isPretty: isPretty)
    }

    private static func members(of properties: Properties) -> [(name: [UInt8], value: JSONText)] {
        var members: [(name: [UInt8], value: JSONText)] = []
        func add(_ name: String, _ value: JSONText?) { if let value { members.append((Array(name.utf8), value)) } }
        add("payload-format-indicator", properties.payloadFormatIndicator.map { .number(Double($0)) })
        add("message-expiry-interval", properties.messageExpiryInterval.map { .number(Double($0)) })
        add("content-type", properties.contentType.map { .string($0.bytes) })
        add("response-topic", properties.responseTopic.map { .string($0.bytes) })
        add("correlation-data", properties.correlationData.map { .string(untilNull($0)) })
        for identifier in properties.subscriptionIdentifiers { add("subscription-identifier", .number(Double(identifier))) }
        add("topic-alias", properties.topicAlias.map { .number(Double($0)) })
        if !properties.userProperties.isEmpty {
            add("user-properties", .object(properties.userProperties.map { ($0.name.bytes, .string($0.value.bytes)) }))
        }
        return members
    }

    /// mosquitto_sub's strings end where C's do.
    private static func untilNull(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.prefix { $0 != 0 }) }
}
