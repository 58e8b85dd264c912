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
