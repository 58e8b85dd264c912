/// Writes the body of a row: integers in the machine's order, which is little-endian wherever Martlet runs, and bytes behind their count.
package struct RecordWriter {
    @usableFromInline package var bytes: [UInt8] = []

    @inlinable package init() {}

    @inlinable package mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    @inlinable package mutating func write(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// The count in 32 bits, then the bytes.
    @inlinable package mutating func write(_ value: [UInt8]) {
        write(UInt32(value.count))
        bytes.append(contentsOf: value)
    }

    @inlinable package mutating func append(_ value: [UInt8]) { bytes.append(contentsOf: value) }

    @inlinable package mutating func append(_ value: UnsafeRawBufferPointer) { bytes.append(contentsOf: value) }
}
