/// The memory of small messages that have gone, for those that come: what went last is taken first, for it is still in
/// the cache.
///
/// At most two megabytes of it are kept, headers included: what ten thousand small messages in flight leave when all
/// are acknowledged in one turn. Belongs to a ledger. The messages are listed apart from their memory: a list that went
/// through it would have to read, for each one taken, what is no longer in the nearest cache.
struct IdleMessages: ~Copyable {
    private static let stepBytes = 32
    /// Of the object, its header, and what the allocator keeps of it.
    private static let overheadBytes = 96

    private static let sizeCount = Limits.idleMessageBytesEachMax / stepBytes
    /// By size: 32, 64, 96 … 512 bytes.
    private let idle: UnsafeMutablePointer<AddressStack>
    private var byteCount = 0

    init() {
        idle = .allocate(capacity: Self.sizeCount)
        for sizeClass in 0..<Self.sizeCount { (idle + sizeClass).initialize(to: AddressStack()) }
    }

    deinit {
        for sizeClass in 0..<Self.sizeCount {
            while let address = idle[sizeClass].pop() {
                let message = Reference<Message>(at: address)
                message.with { $0.forgetLedger() }
                message.release()
            }
        }
        idle.deinitialize(count: Self.sizeCount)
        idle.deallocate()
    }

    /// How many bytes a message of `byteCount` bytes is to have room for.
    static func capacity(for byteCount: Int) -> Int {
        byteCount > Limits.idleMessageBytesEachMax ? byteCount : (sizeClass(of: byteCount) &+ 1) &* stepBytes
    }

    /// A message with room for `byteCount` bytes, or nil. Its header says nothing, and refers to nothing.
    @inline(__always)
    mutating func take(_ byteCount: Int) -> Reference<Message>? {
        guard byteCount <= Limits.idleMessageBytesEachMax, let address = idle[Self.sizeClass(of: byteCount)].pop() else {
            return nil
        }
        self.byteCount &-= Self.footprint(of: byteCount)
        return Reference(at: address)
    }

    /// Keeps the memory of a message of `byteCount` bytes, whose only reference this is; false if there is no room for
    /// it.
    mutating func put(_ message: Reference<Message>, _ byteCount: Int) -> Bool {
        let footprint = Self.footprint(of: byteCount)
        guard byteCount <= Limits.idleMessageBytesEachMax, self.byteCount &+ footprint <= Limits.idleMessageBytesMax else {
            return false
        }
        self.byteCount &+= footprint
        idle[Self.sizeClass(of: byteCount)].push(message.address)
        return true
    }

    private static func footprint(of byteCount: Int) -> Int { capacity(for: byteCount) &+ overheadBytes }
    private static func sizeClass(of byteCount: Int) -> Int { max(0, byteCount &- 1) / stepBytes }
}

extension Limits {
    /// Bytes of a message that waits for its next use; a larger one is not kept.
    static let idleMessageBytesEachMax = 512

    /// Bytes of messages that wait for their next use.
    static let idleMessageBytesMax = 2 << 20
}
