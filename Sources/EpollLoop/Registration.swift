/// A place in a loop's table of handlers, and which of its tenants is meant.
///
/// Travels in `epoll_event.data`. The generation grows when the place is given up, so an event that the kernel had queued for an
/// earlier tenant (or for an earlier socket of the same number) meets a newer generation and is dropped.
public struct Registration: Hashable, Sendable {
    /// The place in the table.
    public let index: UInt32
    /// The tenant: even generations never stand for one.
    public let generation: UInt32

    init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }

    /// As it travels through the kernel: generation above index.
    init(eventData: UInt64) {
        self.init(index: UInt32(truncatingIfNeeded: eventData), generation: UInt32(truncatingIfNeeded: eventData >> 32))
    }

    /// The form that `init(eventData:)` reads.
    var eventData: UInt64 {
        UInt64(generation) << 32 | UInt64(index)
    }
}
