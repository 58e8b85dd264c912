/// Reads the body of a row. A read past the end gives nil, as does a value that no writer writes.
struct RecordReader {
    private(set) var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func read<Value: FixedWidthInteger & BitwiseCopyable>(_ type: Value.Type) -> Value? {
        guard let bytes = take(MemoryLayout<Value>.size) else { return nil }
        return Value(littleEndian: bytes.loadUnaligned(as: Value.self))
    }

    mutating func readBool() -> Bool? {
        switch read(UInt8.self) {
        case 0: false
        case 1: true
        default: nil
        }
    }

    /// Bytes behind their count in 32 bits.
    mutating func readBytes() -> [UInt8]? {
        guard let count = read(UInt32.self), let bytes = take(Int(count)) else { return nil }
        return Array(bytes)
    }

    mutating func take(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[count...]) }
        return UnsafeRawBufferPointer(rebasing: rest[..<count])
    }
}
