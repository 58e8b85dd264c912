/// The memory that a loop lends to its filtered connections while one of them reads or writes. Owned by the loop's thread.
public final class FilterWorkspace {
    /// What was read from the socket.
    let input = ByteBlock(capacity: readBytesMax)
    /// What one layer has decoded for the next. Two, because a layer reads from one while it writes into the other.
    let stages = (ByteBlock(capacity: stageBytes), ByteBlock(capacity: stageBytes))
    /// What goes down, layer by layer.
    let output = (ByteBlock(capacity: 32 << 10), ByteBlock(capacity: 32 << 10))
    /// What a layer answers by itself.
    let reply = ByteBlock(capacity: 4 << 10)

    public init() {}

    /// One read from a socket: half of a loop's scratch, so that what comes out of the layers fits into it.
    static let readBytesMax = 128 << 10
    /// What a layer may have kept from earlier reads and give now: one TLS record.
    static let slackBytes = 20 << 10
    private static let stageBytes = readBytesMax + 2 * slackBytes
    /// What one write takes at most; the rest waits in the core, where it is counted.
    static let writeBytesMax = 64 << 10
    /// How many bytes of answers may wait for a peer that does not read them.
    static let unreadAnswersMax = 256 << 10
}
