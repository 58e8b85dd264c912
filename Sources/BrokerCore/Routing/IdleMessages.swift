/// The memory of small messages that have gone, for those that come: what went last is taken first, for it is still in the cache.
///
/// At most two megabytes of it are kept, headers included: what ten thousand small messages in flight leave when all are acknowledged in
/// one turn. Belongs to a ledger. The messages are listed apart from their memory: a list that went through it would have to read, for each
/// one taken, what is no longer in the nearest cache.
struct IdleMessages: ~Copyable {
    /// Larger messages are allocated as long as they are, and given back.
    private static let pooledBytesMax = 512
    private static let stepBytes = 32
    private static let bytesMax = 2 << 20
    /// Of the object, its header, and what the allocator keeps of it.
    private static let overheadBytes = 96

    /// By size: 32, 64, 96 … 512 bytes.
    private var idle: [[Unmanaged<Message>]] = Array(repeating: [], count: pooledBytesMax / stepBytes)
    private var byteCount = 0

    deinit {
        for messages in idle {
            for message in messages {
                message._withUnsafeGuaranteedRef { $0.forgetLedger() }
                message.release()
            }
        }
    }

    /// How many bytes a message of `byteCount` bytes is to have room for.
    static func capacity(for byteCount: Int) -> Int {
        byteCount > pooledBytesMax ? byteCount : (place(of: byteCount) &+ 1) &* stepBytes
    }

    /// A message with room for `byteCount` bytes, or nil. Its header says nothing, and refers to nothing.
    @inline(__always)
    mutating func take(_ byteCount: Int) -> Unmanaged<Message>? {
        guard byteCount <= Self.pooledBytesMax, let message = idle[Self.place(of: byteCount)].popLast() else { return nil }
        self.byteCount &-= Self.footprint(of: byteCount)
        return message
    }

    /// Keeps the memory of a message of `byteCount` bytes, whose only reference this is; false if there is no room for it.
    mutating func put(_ message: Unmanaged<Message>, _ byteCount: Int) -> Bool {
        let footprint = Self.footprint(of: byteCount)
        guard byteCount <= Self.pooledBytesMax, self.byteCount &+ footprint <= Self.bytesMax else { return false }
        self.byteCount &+= footprint
        idle[Self.place(of: byteCount)].append(message)
        return true
    }

    private static func footprint(of byteCount: Int) -> Int { capacity(for: byteCount) &+ overheadBytes }
    private static func place(of byteCount: Int) -> Int { max(0, byteCount &- 1) / stepBytes }
}
