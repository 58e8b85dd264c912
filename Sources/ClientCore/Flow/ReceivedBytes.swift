/// The bytes of one read, and a copy of them that the messages in it share: one piece of memory for all of their payloads.
struct ReceivedBytes {
    private let bytes: UnsafeRawBufferPointer
    /// Where the copy begins in the bytes.
    private var copyStart = 0
    private var copy: [UInt8] = []

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// For bytes that lie in an array of their own, which needs no copy.
    init(_ bytes: UnsafeRawBufferPointer, sharing array: [UInt8]) { (self.bytes, copy) = (bytes, array) }

    /// A part of the bytes, in memory that outlives the read. What stands before the first part that is asked for is not copied.
    @inline(__always)
    mutating func slice(_ part: UnsafeRawBufferPointer) -> Payload {
        guard part.count > 0, let start = bytes.baseAddress, let partStart = part.baseAddress else { return Payload() }
        let offset = partStart - start
        if copy.isEmpty {
            copyStart = offset
            copy = Array(bytes[offset...])
        }
        let first = offset - copyStart
        return Payload(copy[first..<(first + part.count)])
    }
}
