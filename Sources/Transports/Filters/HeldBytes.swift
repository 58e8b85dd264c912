internal import Bytes

/// Encoded bytes that the socket has not taken yet.
struct HeldBytes {
    private var bytes: [UInt8] = []
    private var offset = 0

    var isEmpty: Bool { offset == bytes.count }
    var count: Int { bytes.count - offset }

    mutating func append(_ more: UnsafeRawBufferPointer) {
        if offset > 0 { bytes.removeFirst(offset) }
        offset = 0
        bytes.append(contentsOf: more)
    }

    /// Calls `send` with all that is held until it takes nothing more, and forgets what it took.
    mutating func drain(_ send: (UnsafeBufferPointer<ByteSlice>) -> WriteResult) -> WriteResult {
        while !isEmpty {
            let result = bytes.withUnsafeBytes { raw in
                raw.baseAddress.map { base in
                    withUnsafePointer(to: ByteSlice(base: base + offset, count: raw.count - offset)) {
                        send(UnsafeBufferPointer(start: $0, count: 1))
                    }
                } ?? .wouldBlock
            }
            guard case .wrote(let taken) = result else { return result }
            offset += taken
        }
        bytes = []
        offset = 0
        return .wrote(0)
    }
}
