/// Unsigned numbers of up to 64 bits, seven bits a byte, least significant first; the highest bit says that another
/// byte follows.
///
/// Public, though only the house's own targets use it: what is inlinable is inlined into other targets if it is public.
public enum VariableInteger {
    /// Appends a number, in as few bytes as it needs.
    @inlinable
    public static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends bytes behind their count.
    @inlinable
    public static func append(counted part: some Collection<UInt8>, to bytes: inout [UInt8]) {
        append(UInt64(part.count), to: &bytes)
        bytes.append(contentsOf: part)
    }

    /// Appends what `body` does, behind its count. What is longer than 127 bytes is moved once.
    @inlinable
    public static func appendCounted(to bytes: inout [UInt8], _ body: (inout [UInt8]) -> Void) {
        let start = bytes.count
        bytes.append(0)
        body(&bytes)
        let count = UInt64(bytes.count - start - 1)
        guard count >= 0x80 else {
            bytes[start] = UInt8(count)
            return
        }
        var length: [UInt8] = []
        append(count, to: &length)
        bytes.replaceSubrange(start...start, with: length)
    }

    /// Appends a number in eight bytes, the most significant first.
    @inlinable
    public static func append(fixed64 value: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// How many bytes a number needs: 1 to 10.
    @inlinable
    public static func size(of value: UInt64) -> Int { (70 - (value | 1).leadingZeroBitCount) / 7 }
}

/// Reads what nodes write to each other, front to back; nil where the bytes end too soon or hold no such thing.
public struct EnvelopeReader {
    @usableFromInline let bytes: UnsafeRawBufferPointer
    @usableFromInline var position = 0

    /// Reads these where they lie.
    @inlinable
    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Whether all was read.
    @inlinable
    public var isAtEnd: Bool { position == bytes.count }

    /// What has not been read.
    @inlinable
    public var rest: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[position...]) }

    /// One byte.
    @inlinable
    public mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        position += 1
        return bytes[position - 1]
    }

    /// Eight bytes, most significant first.
    @inlinable
    public mutating func fixed64() -> UInt64? {
        guard bytes.count - position >= 8 else { return nil }
        position += 8
        return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: position - 8, as: UInt64.self))
    }

    /// A number of variable length, in as few bytes as it needs.
    @inlinable
    public mutating func integer() -> UInt64? {
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
    @inlinable
    public mutating func counted() -> UnsafeRawBufferPointer? { integer().flatMap { bytes($0) } }

    /// So many bytes.
    @inlinable
    public mutating func bytes(_ length: UInt64) -> UnsafeRawBufferPointer? {
        guard length <= UInt64(bytes.count - position) else { return nil }
        let start = position
        position += Int(length)
        return UnsafeRawBufferPointer(rebasing: bytes[start..<position])
    }
}
