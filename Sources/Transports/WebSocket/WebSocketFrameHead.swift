/// The beginning of a frame that a client sends, RFC 6455, section 5.2.
///
/// ```
///   0             1             2                           then
///   |F|RSV| opcode|M| length    | length of 16 or 64 bits … | mask, 4 bytes |
/// ```
struct WebSocketFrameHead {
    let isFinal: Bool
    let opcode: WebSocketOpcode
    let length: UInt64
    /// The mask, its first byte lowest.
    let mask: UInt32

    /// How long a head is that begins with these two bytes; without the mask if there is none.
    static func byteCount(_ second: UInt8) -> Int {
        let lengthBytes = second & 0x7F == 127 ? 8 : second & 0x7F == 126 ? 2 : 0
        return 2 + lengthBytes + (second & 0x80 == 0 ? 0 : 4)
    }

    /// Reads a complete head, and finds what is wrong with it by itself.
    init(_ bytes: borrowing InlineArray<14, UInt8>) throws(WebSocketViolation) {
        let first = bytes[0]
        let second = bytes[1]
        guard first & 0x70 == 0 else { throw .init(.protocolError, "a reserved bit is set") }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else {
            throw .init(.protocolError, "there is no opcode \(first & 0x0F)")
        }
        guard second & 0x80 != 0 else { throw .init(.protocolError, "a frame is not masked") }
        let lengthBytes = Self.byteCount(second) - 6
        var length = UInt64(second & 0x7F)
        if lengthBytes > 0 {
            length = 0
            for index in 0..<lengthBytes { length = length << 8 | UInt64(bytes[2 + index]) }
        }
        guard length >> 63 == 0 else { throw .init(.protocolError, "a length has its highest bit set") }
        isFinal = first & 0x80 != 0
        guard !opcode.isControl || (isFinal && length <= 125) else {
            throw .init(.protocolError, "a control frame is fragmented or longer than 125 bytes")
        }
        self.opcode = opcode
        self.length = length
        var mask: UInt32 = 0
        for index in 0..<4 { mask |= UInt32(bytes[2 + lengthBytes + index]) << (8 * UInt32(index)) }
        self.mask = mask
    }
}
