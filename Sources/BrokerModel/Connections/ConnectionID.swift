/// Names a connection of a shard to the shell: the place in the shard's table, and which tenant of that place is meant.
public struct ConnectionID: Hashable, Sendable {
    public let slot: UInt32
    public let generation: UInt32

    public init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }
}
