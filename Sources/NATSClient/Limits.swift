/// The bounds of the client, each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of an emptied buffer that are kept.
    static let keptBufferBytesMax = 1 << 20

    /// Servers that are known, those that were named among them: of those that a server tells about no more are taken.
    /// Bytes: 1,000 each at most.
    static let serversMax = 64
}
