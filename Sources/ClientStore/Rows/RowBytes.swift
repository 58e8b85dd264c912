/// What a row's body is made of: numbers with the highest byte first, bytes behind their length in four.
struct RowWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    mutating func write(_ number: UInt8) { bytes.append(number) }

    mutating func write(_ number: UInt16) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ number: UInt32) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ number: UInt64) { withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) } }

    mutating func write(_ field: some Collection<UInt8>) {
        write(UInt32(truncatingIfNeeded: field.count))
        bytes.append(contentsOf: field)
    }

    /// What stands at the end, without a length.
    mutating func write(rest: some Collection<UInt8>) { bytes.append(contentsOf: rest) }
}

/// Reads the same. A body that ends too early gives nil: it is no row of this version.
struct RowReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int

    init(_ bytes: [UInt8]) { (self.bytes, position) = (bytes[...], 0) }

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ type: Number.Type = Number.self) -> Number? {
        let size = MemoryLayout<Number>.size
        guard bytes.endIndex - position >= size else { return nil }
        defer { position += size }
        return bytes[position..<(position + size)].reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func field() -> ArraySlice<UInt8>? {
        guard let count = number(UInt32.self), bytes.endIndex - position >= Int(count) else { return nil }
        defer { position += Int(count) }
        return bytes[position..<(position + Int(count))]
    }

    mutating func rest() -> ArraySlice<UInt8> {
        defer { position = bytes.endIndex }
        return bytes[position...]
    }
}
