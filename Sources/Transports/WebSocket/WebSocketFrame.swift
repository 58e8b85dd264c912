internal import Bytes
internal import Platform

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

    /// Appends slices as one masked binary frame, as a client does: packets need not begin where frames do.
    /// [MQTT-6.0.0-2 v5]
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

/// Why a WebSocket is closed, RFC 6455, section 7.4.1.
struct WebSocketCloseCode: Equatable {
    let rawValue: UInt16

    static let normal = WebSocketCloseCode(rawValue: 1000)
    static let protocolError = WebSocketCloseCode(rawValue: 1002)
    static let unacceptableData = WebSocketCloseCode(rawValue: 1003)
    static let inconsistentData = WebSocketCloseCode(rawValue: 1007)
    static let messageTooLarge = WebSocketCloseCode(rawValue: 1009)

    /// Whether a peer may send it: those that only describe the absence of one may not, nor those that nobody has
    /// defined.
    var mayBeSent: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

/// What a peer did that RFC 6455 or the MQTT standard forbids, and the code that it is closed with.
struct WebSocketViolation: Error, Equatable {
    let code: WebSocketCloseCode
    let explanation: String

    init(_ code: WebSocketCloseCode, _ explanation: String) {
        self.code = code
        self.explanation = explanation
    }
}

/// What the bytes of a client's frame are XORed with, RFC 6455, section 5.3, in both directions: applied twice it is
/// gone.
struct WebSocketMask {
    /// Turned so that its lowest byte is for the next byte.
    private var value: UInt32

    /// - Parameter value: the mask, its first byte lowest.
    init(_ value: UInt32) {
        self.value = value
    }

    /// One that nobody can foresee, so that nobody can choose what an intermediary reads.
    static func random() -> WebSocketMask {
        var value: UInt32 = 0
        withUnsafeMutableBytes(of: &value) { RandomBytes.fill($0) }
        return WebSocketMask(value)
    }

    /// Its bytes as a frame carries them. Before any `copy`.
    var wireBytes: UInt32 { value.littleEndian }

    /// Copies through the mask, eight bytes at a time, and goes on to the bytes behind. The target is at least as long.
    mutating func copy(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) {
        precondition(target.count >= source.count, "a target holds what the source gives")
        guard let from = source.baseAddress, let to = target.baseAddress else { return }
        let count = source.count
        let wide = (UInt64(value) << 32 | UInt64(value)).littleEndian
        var offset = 0
        while offset &+ 8 <= count {
            let word = from.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            to.storeBytes(of: word ^ wide, toByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
        while offset < count {
            let byte = UInt8(truncatingIfNeeded: value >> (8 * UInt32(offset & 3)))
            to.storeBytes(of: from.load(fromByteOffset: offset, as: UInt8.self) ^ byte, toByteOffset: offset, as: UInt8.self)
            offset &+= 1
        }
        let turn = 8 * UInt32(count & 3)
        if turn > 0 { value = value >> turn | value << (32 - turn) }
    }
}
