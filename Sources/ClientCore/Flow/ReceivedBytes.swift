/// The bytes of one read, and copies of them that the messages in it share: one piece of memory for the payloads of many.
struct ReceivedBytes {
    private let bytes: UnsafeRawBufferPointer
    /// Where the copy of now begins in the bytes.
    private var copyStart = 0
    private var copy: [UInt8] = []

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// For bytes that lie in an array of their own, which needs no copy.
    init(_ bytes: UnsafeRawBufferPointer, sharing array: [UInt8]) { (self.bytes, copy) = (bytes, array) }

    /// A part of the bytes, in memory that outlives the read. Each part lies behind the one that was asked for before.
    @inline(__always)
    mutating func slice(_ part: UnsafeRawBufferPointer) -> Payload {
        guard part.count > 0, let start = bytes.baseAddress, let partStart = part.baseAddress else { return Payload() }
        let offset = partStart - start
        if offset + part.count > copyStart + copy.count {
            copyStart = offset
            copy = Array(bytes[offset..<min(bytes.count, offset + max(part.count, Self.copyByteCount))])
        }
        let first = offset - copyStart
        return Payload(copy[first..<(first + part.count)])
    }

    /// A message that is kept keeps the others of its copy in memory; so a copy is not of the whole read.
    private static let copyByteCount = 16_384
}
