internal import Bytes

/// Frames as they are sent: whole; a client's masked, a server's not.
enum WebSocketFrame {
    /// Appends the beginning of a frame whose payload follows, through the mask if there is one.
    static func appendHead(_ opcode: WebSocketOpcode, length: Int, mask: WebSocketMask? = nil, to target: ByteBlock) {
        let first = 0x80 | opcode.rawValue
        let masked: UInt8 = mask == nil ? 0 : 0x80
        if length < 126 {
            let head = target.extend(by: 2)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: masked | UInt8(length), toByteOffset: 1, as: UInt8.self)
        } else if length <= Int(UInt16.max) {
            let head = target.extend(by: 4)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: masked | 126, toByteOffset: 1, as: UInt8.self)
            head.storeBytes(of: UInt16(length).bigEndian, toByteOffset: 2, as: UInt16.self)
        } else {
            let head = target.extend(by: 10)
            head.storeBytes(of: first, as: UInt8.self)
            head.storeBytes(of: masked | 127, toByteOffset: 1, as: UInt8.self)
            head.storeBytes(of: UInt64(length).bigEndian, toByteOffset: 2, as: UInt64.self)
        }
        if let mask { target.extend(by: 4).storeBytes(of: mask.wireBytes, as: UInt32.self) }
    }

    /// Appends slices as one masked binary frame, as a client does: packets need not begin where frames do. [MQTT-6.0.0-2 v5]
    static func appendMasked(_ slices: UnsafeBufferPointer<ByteSlice>, to target: ByteBlock) {
        var mask = WebSocketMask.random()
        var length = 0
        for slice in slices { length &+= slice.count }
        appendHead(.binary, length: length, mask: mask, to: target)
        for slice in slices {
            mask.copy(
                UnsafeRawBufferPointer(start: slice.base, count: slice.count),
                into: UnsafeMutableRawBufferPointer(start: target.extend(by: slice.count), count: slice.count))
        }
    }

    /// Appends a control frame; its payload has at most 125 bytes.
    static func appendControl(
        _ opcode: WebSocketOpcode, _ payload: some Collection<UInt8>, mask: WebSocketMask?, to target: ByteBlock
    ) {
        let short = Array(payload.prefix(125))
        appendHead(opcode, length: short.count, mask: mask, to: target)
        guard var mask else { return target.append(short) }
        let room = UnsafeMutableRawBufferPointer(start: target.extend(by: short.count), count: short.count)
        short.withUnsafeBytes { mask.copy($0, into: room) }
    }

    static func appendClose(_ code: WebSocketCloseCode, mask: WebSocketMask?, to target: ByteBlock) {
        appendControl(.close, [UInt8(code.rawValue >> 8), UInt8(truncatingIfNeeded: code.rawValue)], mask: mask, to: target)
    }
}

/// What a frame is, RFC 6455, section 5.2.
enum WebSocketOpcode: UInt8 {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    var isControl: Bool { rawValue >= 8 }
}
