/// The beginning of a frame, RFC 6455, section 5.2. A client's frames have a mask, a server's have none.
///
/// ```
///   0             1             2                           then
///   |F|RSV| opcode|M| length    | length of 16 or 64 bits … | mask, 4 bytes |
/// ```
struct WebSocketFrameHead {
    let isFinal: Bool
    let opcode: WebSocketOpcode
    let length: UInt64
    let mask: WebSocketMask

    /// How long a head is with this as its second byte.
    static func byteCount(_ second: UInt8) -> Int {
        2 + lengthByteCount(second) + (second & 0x80 == 0 ? 0 : 4)
    }

    private static func lengthByteCount(_ second: UInt8) -> Int {
        second & 0x7F == 127 ? 8 : second & 0x7F == 126 ? 2 : 0
    }

    /// Reads a complete head, and finds what is wrong with it by itself.
    ///
    /// - Parameter isMasked: whether the sender has to mask its frames.
    init(_ bytes: borrowing InlineArray<14, UInt8>, isMasked: Bool) throws(WebSocketViolation) {
        let first = bytes[0]
        let second = bytes[1]
        guard first & 0x70 == 0 else { throw .init(.protocolError, "a reserved bit is set") }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else {
            throw .init(.protocolError, "there is no opcode \(first & 0x0F)")
        }
        guard (second & 0x80 != 0) == isMasked else {
            throw .init(.protocolError, isMasked ? "a frame is not masked" : "a server's frame is masked")
        }
        let lengthBytes = Self.lengthByteCount(second)
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
        if isMasked {
            for index in 0..<4 { mask |= UInt32(bytes[2 + lengthBytes + index]) << (8 * UInt32(index)) }
        }
        self.mask = WebSocketMask(mask)
    }
}
