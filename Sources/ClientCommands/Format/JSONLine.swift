internal import MQTTCodec

/// The line of `--json`: one message, its fields always in this order, absent ones left out.
///
/// | Field | |
/// |---|---|
/// | `time` | when it arrived, RFC 3339 with nanoseconds and the zone |
/// | `topic` | text |
/// | `payload` | the payload as text, where it is UTF-8 |
/// | `payload_base64` | the payload where it is not |
/// | `qos` | 0, 1 or 2 |
/// | `retain` | whether the server kept it |
/// | `duplicate` | whether it may have come before |
/// | `packet_identifier` | of QoS 1 and 2 |
/// | `properties` | of MQTT 5.0, each named as in the standard with underscores; `correlation_data` as text or `correlation_data_base64`; `user_properties` as a list of pairs; `subscription_identifiers` as a list |
enum JSONLine {
    static func bytes(of message: PrintableMessage, at time: LocalTime) -> [UInt8] {
        var members: [(name: [UInt8], value: JSONText)] = []
        add(&members, "time", .string(time.internetText))
        add(&members, "topic", .string(message.topic.bytes))
        add(&members, "payload", data: message.payload)
        add(&members, "qos", .number(Double(message.qos.rawValue)))
        add(&members, "retain", .bool(message.retain))
        add(&members, "duplicate", .bool(message.duplicate))
        if message.qos != .atMostOnce { add(&members, "packet_identifier", .number(Double(message.packetIdentifier))) }
        if !message.properties.isEmpty { add(&members, "properties", .object(Self.members(of: message.properties))) }
        return JSONText.object(members).bytes(isPretty: false)
    }

    private typealias Members = [(name: [UInt8], value: JSONText)]

    private static func add(_ members: inout Members, _ name: String, _ value: JSONText?) {
        if let value { members.append((Array(name.utf8), value)) }
    }

    private static func add(_ members: inout Members, _ name: String, data: [UInt8]) {
        if String(validating: data, as: UTF8.self) != nil {
            add(&members, name, .string(data))
        } else {
            add(&members, "\(name)_base64", .string(base64(data)))
        }
    }

    private static func members(of properties: Properties) -> Members {
        var members: Members = []
        add(&members, "payload_format_indicator", properties.payloadFormatIndicator.map { .number(Double($0)) })
        add(&members, "message_expiry_interval", properties.messageExpiryInterval.map { .number(Double($0)) })
        add(&members, "content_type", properties.contentType.map { .string($0.bytes) })
        add(&members, "response_topic", properties.responseTopic.map { .string($0.bytes) })
        if let data = properties.correlationData { add(&members, "correlation_data", data: data) }
        let identifiers = properties.subscriptionIdentifiers
        if !identifiers.isEmpty { add(&members, "subscription_identifiers", .array(identifiers.map { .number(Double($0)) })) }
        let pairs = properties.userProperties.map { JSONText.array([.string($0.name.bytes), .string($0.value.bytes)]) }
        if !pairs.isEmpty { add(&members, "user_properties", .array(pairs)) }
        return members
    }

    /// RFC 4648, with padding.
    static func base64(_ bytes: [UInt8]) -> [UInt8] {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var bits: UInt32 = 0
            for byte in group { bits = bits << 8 | UInt32(byte) }
            bits <<= UInt32(8 * (3 - group.count))
            for place in 0..<4 {
                text.append(place <= group.count ? letters[Int(bits >> UInt32(18 - 6 * place) & 63)] : UInt8(ascii: "="))
            }
        }
        return text
    }
}
