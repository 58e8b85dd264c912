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

/// Fields with their own copy of the bytes, for packets off the way of a message.
extension PacketReader {
    mutating func readString() throws(WireError) -> EncodedString {
        try EncodedString(checked: Array(readText()))
    }

    mutating func readBinaryData() throws(WireError) -> [UInt8] {
        try Array(readLengthPrefixed())
    }

    mutating func readTopicName() throws(WireError) -> TopicName {
        let name = try readLengthPrefixed()
        if let error = TopicValidation.validateName(name) { throw error }
        return TopicName(checked: Array(name))
    }

    mutating func readTopicFilter() throws(WireError) -> TopicFilter {
        let text = try readText()  // [MQTT-3.8.3-1 v5] [MQTT-3.10.3-1 v5]
        guard let filter = TopicFilter(validating: text) else { throw .invalidTopicFilter }
        return filter
    }
}

/// Appends the fields of packets to bytes, front to back. For packets off the way of a message.
///
/// A length that stands before what it counts is put in afterwards, when it is known.
struct PacketWriter {
    private(set) var bytes: [UInt8]

    init(appendingTo bytes: consuming [UInt8]) { self.bytes = bytes }

    mutating func write(_ value: UInt8) { bytes.append(value) }

    mutating func write(_ value: UInt16) {
        bytes.append(UInt8(truncatingIfNeeded: value >> 8))
        bytes.append(UInt8(truncatingIfNeeded: value))
    }

    mutating func write(_ value: UInt32) {
        write(UInt16(truncatingIfNeeded: value >> 16))
        write(UInt16(truncatingIfNeeded: value))
    }

    mutating func write(_ value: Bool) { bytes.append(value ? 1 : 0) }

    mutating func write(_ text: EncodedString) { write(lengthPrefixed: text.bytes) }

    /// A two-byte length and the data. More than 65,535 bytes cannot be sent: passing them is a mistake of ours.
    mutating func write(lengthPrefixed data: [UInt8]) {
        precondition(data.count <= TextScan.lengthMax, "binary data has at most 65,535 bytes")
        write(UInt16(truncatingIfNeeded: data.count))
        bytes.append(contentsOf: data)
    }

    mutating func write(raw data: [UInt8]) { bytes.append(contentsOf: data) }

    mutating func write(variableByteInteger value: Int) {
        withUnsafeTemporaryAllocation(byteCount: 4, alignment: 1) { buffer in
            guard let memory = buffer.baseAddress else { return }
            let size = VariableByteInteger.write(value, to: memory)
            bytes.append(contentsOf: buffer[..<size])
        }
    }

    /// Where the length of what is written next will stand; hand it to `endLength(_:)` when that is written.
    func beginLength() -> Int { bytes.count }

    /// Puts the length of all that was written since `start` before it.
    mutating func endLength(_ start: Int) {
        var length = PacketWriter(appendingTo: [])
        length.write(variableByteInteger: bytes.count - start)
        bytes.insert(contentsOf: length.bytes, at: start)
    }
}

/// The standard's integer of one to four bytes, seven bits each, least significant first.
public enum VariableByteInteger {
    /// The largest value that four bytes hold.
    public static let max = 268_435_455

    /// How many bytes `value`, which is in 0...`max`, takes. [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func encodedSize(_ value: Int) -> Int {
        value < 128 ? 1 : value < 16_384 ? 2 : value < 2_097_152 ? 3 : 4
    }

    /// Writes `value`, which is in 0...`max`, in as few bytes as it needs and returns how many that are.
    /// [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func write(_ value: Int, to memory: UnsafeMutableRawPointer) -> Int {
        precondition(value >= 0 && value <= max, "no variable byte integer holds this value")
        var rest = value
        var count = 0
        while rest >= 128 {
            memory.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
            rest &>>= 7
            count &+= 1
        }
        memory.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: count, as: UInt8.self)
        return count &+ 1
    }

    /// Reads the integer at the front of `bytes`: its value and how many bytes it takes. Longer forms than needed are
    /// malformed. [MQTT-1.5.5-1 v5]
    @inline(__always)
    public static func read(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> (value: Int, size: Int) {
        var value = 0
        var index = 0
        while index < 4 {
            guard index < bytes.count else { throw .truncated }
            let byte = bytes[index]
            value |= Int(byte & 0x7F) &<< (7 &* index)
            index &+= 1
            if byte < 0x80 {
                if byte == 0 && index > 1 { throw .nonMinimalVariableByteInteger }
                return (value, index)
            }
        }
        throw .nonMinimalVariableByteInteger
    }
}
