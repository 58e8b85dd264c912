/// The memory that a loop lends to its filtered connections while one of them reads or writes. Owned by the loop's thread.
public final class FilterWorkspace {
    /// What was read from the socket.
    let input = ByteBlock(capacity: Limits.filteredReadBytesMax)
    /// What one layer has decoded for the next. Two, because a layer reads from one while it writes into the other.
    let stages = (ByteBlock(capacity: stageBytes), ByteBlock(capacity: stageBytes))
    /// What goes down, layer by layer.
    let output = (ByteBlock(capacity: 32 << 10), ByteBlock(capacity: 32 << 10))
    /// What a layer answers by itself.
    let reply = ByteBlock(capacity: 4 << 10)

    public init() {}

    private static let stageBytes = Limits.filteredReadBytesMax + 2 * Limits.filteredSlackBytes
}
