internal import JSON
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
        var writer = JSONWriter(.cJSON)
        writer.object { object in
            object.set("time", time.internetText)
            object.set("topic", utf8: message.topic.bytes)
            set("payload", data: message.payload, of: &object)
            object.set("qos", message.qos.rawValue)
            object.set("retain", message.retain)
            object.set("duplicate", message.duplicate)
            if message.qos != .atMostOnce { object.set("packet_identifier", message.packetIdentifier) }
            if !message.properties.isEmpty { object.object("properties") { write(message.properties, to: &$0) } }
        }
        return writer.bytes
    }

    private static func set(_ name: String, data: [UInt8], of object: inout JSONWriter) {
        if String(validating: data, as: UTF8.self) != nil {
            object.set(name, utf8: data)
        } else {
            object.set("\(name)_base64", utf8: base64(data))
        }
    }

    private static func write(_ properties: Properties, to object: inout JSONWriter) {
        if let value = properties.payloadFormatIndicator { object.set("payload_format_indicator", value) }
        if let value = properties.messageExpiryInterval { object.set("message_expiry_interval", value) }
        if let value = properties.contentType { object.set("content_type", utf8: value.bytes) }
        if let value = properties.responseTopic { object.set("response_topic", utf8: value.bytes) }
        if let data = properties.correlationData { set("correlation_data", data: data, of: &object) }
        let identifiers = properties.subscriptionIdentifiers
        if !identifiers.isEmpty {
            object.array("subscription_identifiers") { list in for identifier in identifiers { list.add(identifier) } }
        }
        guard !properties.userProperties.isEmpty else { return }
        object.array("user_properties") { pairs in
            for property in properties.userProperties {
                pairs.array { pair in
                    pair.add(utf8: property.name.bytes)
                    pair.add(utf8: property.value.bytes)
                }
            }
        }
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
