/// Unsigned numbers of up to 64 bits, seven bits a byte, least significant first; the highest bit says that another
/// byte follows.
enum VariableInteger {
    static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }
}

/// Reads what nodes write to each other, front to back; nil where the bytes end too soon or hold no such thing.
struct EnvelopeReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    /// What has not been read.
    var rest: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[position...]) }

    mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        position += 1
        return bytes[position - 1]
    }

    /// Eight bytes, most significant first.
    mutating func fixed64() -> UInt64? {
        guard bytes.count - position >= 8 else { return nil }
        position += 8
        return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: position - 8, as: UInt64.self))
    }

    mutating func integer() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: 0, through: 63, by: 7) {
            guard let byte = byte() else { return nil }
            if shift == 63, byte > 1 { return nil }
            value |= UInt64(byte & 0x7F) << UInt64(shift)
            if byte < 0x80 { return byte == 0 && shift > 0 ? nil : value }
        }
        return nil
    }

    /// A length and as many bytes.
    mutating func counted() -> UnsafeRawBufferPointer? { integer().flatMap { bytes($0) } }

    /// So many bytes.
    mutating func bytes(_ length: UInt64) -> UnsafeRawBufferPointer? {
        guard length <= UInt64(bytes.count - position) else { return nil }
        let start = position
        position += Int(length)
        return UnsafeRawBufferPointer(rebasing: bytes[start..<position])
    }
}
