internal import Platform

/// What the bytes of a client's frame are XORed with, RFC 6455, section 5.3, in both directions: applied twice it is gone.
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
