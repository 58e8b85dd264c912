/// Counts the messages that a shard keeps, and their bytes. Lives as long as any of them does. Belongs to its shard's thread.
final class MessageLedger {
    private(set) var count = 0
    private(set) var byteCount = 0
    /// The bytes of memory that the messages take.
    var heldBytes: Int { byteCount &+ count &* Self.messageBytes }
    /// What a message takes besides its bytes.
    private static let messageBytes = 112
    /// The shard's time, which messages remember.
    var clockMicroseconds: UInt64 = 0
    /// The memory of messages that have gone.
    var idle = IdleMessages()

    /// A message of `byteCount` bytes is there.
    func enter(_ byteCount: Int) {
        if count == 0 { _ = Reference(retaining: self) }
        count &+= 1
        self.byteCount &+= byteCount
    }

    /// A message of `byteCount` bytes has gone; with the last one, perhaps, the ledger.
    func leave(_ byteCount: Int) {
        count &-= 1
        self.byteCount &-= byteCount
        if count == 0 { Reference(self).release() }
    }

    /// The only reference to a message of `byteCount` bytes, which is no longer needed: its memory is for the next one. The message itself is
    /// not touched, and so whether the reference is the only one is asserted, not required: to look costs what this is for.
    @inline(__always)
    func takeBack(_ message: Reference<Message>, _ byteCount: Int) {
        assert(Message.isOnly(message), "somebody has a reference to a message of one entry")
        if idle.put(message, byteCount) { leave(byteCount) } else { message.release() }
    }
}
