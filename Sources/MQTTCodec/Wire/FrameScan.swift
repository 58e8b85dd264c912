/// Finds one packet at the front of received bytes.
public enum FrameScan: Hashable, Sendable {
    /// The fixed header is complete; the body has `bodyLength` bytes behind it, whether or not they have arrived.
    case packet(firstByte: UInt8, headerLength: Int, bodyLength: Int)
    /// Not even the fixed header is here.
    case incomplete
    /// No packet begins like this.
    case malformed(WireError)

    /// Reads the fixed header: at most five bytes.
    ///
    /// A remaining length with more bytes than it needs is taken as it is: MQTT 3.1.1 does not forbid it, and clients that reserve
    /// four bytes before they know the length send it. Whoever knows the version compares `headerLength`. [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func scan(_ bytes: UnsafeRawBufferPointer) -> FrameScan {
        let count = bytes.count
        guard count >= 2 else { return .incomplete }
        let firstByte = bytes[0]
        let byte = bytes[1]
        if byte < 0x80 { return .packet(firstByte: firstByte, headerLength: 2, bodyLength: Int(byte)) }
        return scanLong(bytes, firstByte: firstByte, low: Int(byte & 0x7F))
    }

    @usableFromInline
    static func scanLong(_ bytes: UnsafeRawBufferPointer, firstByte: UInt8, low: Int) -> FrameScan {
        var length = low
        for index in 2..<5 {
            guard index < bytes.count else { return .incomplete }
            let byte = bytes[index]
            length |= Int(byte & 0x7F) &<< (7 &* (index &- 1))
            if byte < 0x80 { return .packet(firstByte: firstByte, headerLength: index &+ 1, bodyLength: length) }
        }
        return .malformed(.remainingLengthTooLong)
    }
}
