/// The bounds of sockets and the layers on them that no option sets and several files share: each with its unit and
/// what happens beyond it.
enum Limits {
    // Layers.

    /// Bytes of one read from a socket with layers: half of a loop's scratch, so that what comes out of them fits into
    /// it.
    static let filteredReadBytesMax = 128 << 10

    /// Bytes that a layer may have kept from earlier reads and give now: one TLS record.
    static let filteredSlackBytes = 20 << 10
}
