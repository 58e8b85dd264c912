/// The bounds of an event loop that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // A turn.

    /// Ready descriptors that a turn takes; more wait for the next one, and the kernel tells them round robin.
    static let eventsPerTurn = 256

    /// Bytes of the memory that a loop reads into: it stays in the second-level cache.
    static let scratchBytes = 256 << 10
}
