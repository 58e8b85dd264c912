/// Bytes of packets as a client could send them that obeys nothing.
enum RawPacket {
    /// A packet of `firstByte`, a remaining length, and the parts of its body.
    static func packet(_ firstByte: UInt8, _ parts: [UInt8]...) -> [UInt8] {
        let body = Array(parts.joined())
        return [firstByte] + length(body.count) + body
    }

    /// A text behind its length.
    static func text(_ text: String) -> [UInt8] { Self.text(Array(text.utf8)) }

    static func text(_ bytes: [UInt8]) -> [UInt8] { [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes }

    /// Properties behind their length.
    static func block(_ properties: [UInt8]...) -> [UInt8] {
        let joined = Array(properties.joined())
        return length(joined.count) + joined
    }

    /// A CONNECT of 5.0; `payload` is what follows the Client Identifier.
    static func connect(
        name: String = "MQTT", level: UInt8 = 5, flags: UInt8 = 0x02, properties: [UInt8] = [],
        identifier: [UInt8] = text("raw"), payload: [UInt8] = []
    ) -> [UInt8] {
        packet(0x10, text(name), [level, flags, 0, 0], block(properties), identifier, payload)
    }

    /// A variable byte integer.
    static func length(_ number: Int) -> [UInt8] {
        number < 128 ? [UInt8(number)] : [UInt8(number % 128) | 0x80] + length(number / 128)
    }
}
