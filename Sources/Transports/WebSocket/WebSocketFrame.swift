/// Frames as a server sends them: whole and not masked.
enum WebSocketFrame {
    /// Appends the beginning of a frame whose payload follows.
    static func appendHead(_ opcode: WebSocketOpcode, length: Int, to target: ByteBlock) {
        let first = 0x80 | opcode.rawValue
        if length < 126 {
            let head = target.extend(by: 2)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: UInt8(length), toByteOffset: 1, as: UInt8.self)
        } else if length <= Int(UInt16.max) {
            let head = target.extend(by: 4)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: 126, toByteOffset: 1, as: UInt8.self)
            head.storeBytes(of: UInt16(length).bigEndian, toByteOffset: 2, as: UInt16.self)
        } else {
            let head = target.extend(by: 10)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: 127, toByteOffset: 1, as: UInt8.self)
            head.storeBytes(of: UInt64(length).bigEndian, toByteOffset: 2, as: UInt64.self)
        }
    }

    /// Appends a control frame; its payload has at most 125 bytes.
    static func appendControl(_ opcode: WebSocketOpcode, _ payload: some Collection<UInt8>, to target: ByteBlock) {
        let short = payload.prefix(125)
        appendHead(opcode, length: short.count, to: target)
        target.append(short)
    }

    static func appendClose(_ code: WebSocketCloseCode, to target: ByteBlock) {
        appendControl(.close, [UInt8(code.rawValue >> 8), UInt8(truncatingIfNeeded: code.rawValue)], to: target)
    }
}
