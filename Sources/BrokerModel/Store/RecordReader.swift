/// Reads the body of a row. A read past the end gives nil, as does a value that no writer writes.
package struct RecordReader {
    @usableFromInline package var rest: UnsafeRawBufferPointer

    @inlinable package init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    @inlinable package var isAtEnd: Bool { rest.isEmpty }

    @inlinable package mutating func read<Value: FixedWidthInteger & BitwiseCopyable>(_ type: Value.Type) -> Value? {
        guard let bytes = take(MemoryLayout<Value>.size) else { return nil }
        return Value(littleEndian: bytes.loadUnaligned(as: Value.self))
    }

    @inlinable package mutating func readBool() -> Bool? {
        switch read(UInt8.self) {
        case 0: false
        case 1: true
        default: nil
        }
    }

    /// Bytes behind their count in 32 bits.
    @inlinable package mutating func readBytes() -> [UInt8]? {
        guard let count = read(UInt32.self), let bytes = take(Int(count)) else { return nil }
        return Array(bytes)
    }

    @inlinable package mutating func take(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[count...]) }
        return UnsafeRawBufferPointer(rebasing: rest[..<count])
    }
}
