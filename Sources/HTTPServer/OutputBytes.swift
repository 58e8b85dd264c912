internal import Bytes
internal import Transports

/// Bytes of answers on their way to a peer.
struct OutputBytes {
    private var bytes: [UInt8] = []
    private var offset = 0

    var count: Int { bytes.count - offset }

    mutating func append(_ more: some Collection<UInt8>) {
        if offset > 0, offset == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Limits.outputBytesMax)
            offset = 0
        }
        bytes.append(contentsOf: more)
    }

    /// Writes until nothing is left or nothing more is taken. Returns the last result, and how many bytes went.
    mutating func write(to channel: any ByteChannel) -> (result: WriteResult, written: Int) {
        var written = 0
        while count > 0 {
            let result = bytes.withUnsafeBytes { raw -> WriteResult in
                guard let base = raw.baseAddress else { return .wouldBlock }
                let slice = ByteSlice(base: base + offset, count: raw.count - offset)
                return withUnsafePointer(to: slice) { channel.write(UnsafeBufferPointer(start: $0, count: 1)) }
            }
            guard case .wrote(let taken) = result, taken > 0 else { return (result, written) }
            offset += taken
            written += taken
        }
        return (.wrote(written), written)
    }
}
