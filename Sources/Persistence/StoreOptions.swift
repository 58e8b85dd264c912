/// How a store is opened.
public struct StoreOptions: Sendable {
    /// Whether to go on with what is intact if it is damaged.
    public var repair: Bool
    /// How many bytes of the database may be in use; nil for as many as the disk has. A store above it is full: it still takes what the
    /// shards have promised already, and what makes room, or there would never be any.
    public var bytesMax: UInt64?

    public init(repair: Bool = false, bytesMax: UInt64? = nil) {
        self.repair = repair
        self.bytesMax = bytesMax
    }
}
