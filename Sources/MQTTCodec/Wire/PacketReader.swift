/// Reads the fields of one packet, front to back, where they lie. Invariant: 0 <= position <= bytes.count.
///
/// Every length is checked against the packet before a byte is touched; nothing is copied unless the result says so.
struct PacketReader {
    private let bytes: UnsafeRawBufferPointer
    private(set) var position = 0

    @inline(__always)
    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// How many bytes are left.
    @inline(__always)
    var remaining: Int { bytes.count &- position }

    @inline(__always)
    var isAtEnd: Bool { position == bytes.count }

    @inline(__always)
    mutating func readByte() throws(WireError) -> UInt8 {
        guard remaining >= 1 else { throw .truncated }
        defer { position &+= 1 }
        return bytes[position]
    }

    @inline(__always)
    mutating func readUInt16() throws(WireError) -> UInt16 {
        guard remaining >= 2 else { throw .truncated }
        defer { position &+= 2 }
        return UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt16.self))
    }

    @inline(__always)
    mutating func readUInt32() throws(WireError) -> UInt32 {
        guard remaining >= 4 else { throw .truncated }
        defer { position &+= 4 }
        return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self))
    }

    @inline(__always)
    mutating func readVariableByteInteger() throws(WireError) -> Int {
        let (value, size) = try VariableByteInteger.read(peekRest())
        position &+= size
        return value
    }

    /// A packet identifier, which is never zero. [MQTT-2.2.1-3 v5]
    @inline(__always)
    mutating func readPacketIdentifier() throws(WireError) -> UInt16 {
        let identifier = try readUInt16()
        if identifier == 0 { throw .packetIdentifierZero }
        return identifier
    }

    /// The next `count` bytes.
    @inline(__always)
    mutating func readBytes(_ count: Int) throws(WireError) -> UnsafeRawBufferPointer {
        guard count <= remaining else { throw .truncated }
        defer { position &+= count }
        return UnsafeRawBufferPointer(start: bytes.baseAddress?.advanced(by: position), count: count)
    }

    /// The bytes behind a two-byte length: the standard's Binary Data, and its text before it is checked.
    @inline(__always)
    mutating func readLengthPrefixed() throws(WireError) -> UnsafeRawBufferPointer {
        try readBytes(Int(readUInt16()))
    }

    /// Text behind its two-byte length, checked.
    @inline(__always)
    mutating func readText() throws(WireError) -> UnsafeRawBufferPointer {
        let text = try readLengthPrefixed()
        if let error = UTF8Validation.validate(text) { throw error }
        return text
    }

    /// All that is left.
    @inline(__always)
    mutating func readRest() -> UnsafeRawBufferPointer {
        defer { position = bytes.count }
        return peekRest()
    }

    /// Throws if anything is left.
    @inline(__always)
    func finish() throws(WireError) {
        if !isAtEnd { throw .trailingBytes }
    }

    @inline(__always)
    private func peekRest() -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: bytes.baseAddress?.advanced(by: position), count: remaining)
    }
}
