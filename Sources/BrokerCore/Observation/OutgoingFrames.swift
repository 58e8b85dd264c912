import MQTTCodec

/// Finds the packets in what is written to a connection, however it is cut.
///
/// `head` holds the first bytes of the packet that is being written: its fixed header and as much of its body as is wanted.
struct OutgoingFrames {
    /// Bytes that are written before the first packet begins that is looked at.
    private var skipped: Int
    private var head: [UInt8] = []
    /// How many bytes of the packet have been written.
    private var seen = 0
    /// The lengths of its fixed header and of all of it; 0 before they are known.
    private var headerLength = 0
    private var length = 0

    init(skipping byteCount: Int) { skipped = byteCount }

    /// - Parameters:
    ///   - bodyBytesMax: how many bytes of a body are kept.
    ///   - body: gets each packet that is complete: the first byte, the length of the body, and its first bytes.
    mutating func take(_ bytes: UnsafeRawBufferPointer, bodyBytesMax: Int, _ body: (UInt8, Int, ArraySlice<UInt8>) -> Void) {
        var place = min(skipped, bytes.count)
        skipped -= place
        while place < bytes.count {
            if length == 0 {
                head.append(bytes[place])
                (place, seen) = (place + 1, seen + 1)
                guard case .packet(_, let header, let rest) = head.withUnsafeBytes(FrameScan.scan) else { continue }
                (headerLength, length) = (header, header + rest)
            }
            let count = min(length - seen, bytes.count - place)
            let kept = min(count, max(0, headerLength + bodyBytesMax - head.count))
            head.append(contentsOf: bytes[place..<place + kept])
            (place, seen) = (place + count, seen + count)
            guard seen == length else { return }
            body(head[0], length - headerLength, head[headerLength...])
            head.removeAll(keepingCapacity: head.capacity <= Limits.traceHeadBytesMax)
            (seen, headerLength, length) = (0, 0, 0)
        }
    }
}
