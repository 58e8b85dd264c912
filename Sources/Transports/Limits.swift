/// The bounds of sockets and the layers on them that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Connections that we make.

    /// Threads that ask for the addresses of names; what is asked beyond waits. Bytes: 1 MiB each at most.
    static let resolverThreadsMax = 4

    /// Milliseconds after which a connection to the next address is begun beside the one that has not answered (RFC 8305, section 5).
    static let raceMillisecondsMax: UInt64 = 250

    /// Bytes of an output that are gone and still stand in front of those that wait.
    static let sentBytesKeptMax = 1 << 20

    // Sockets.

    /// Connections accepted in one turn before others get theirs.
    static let acceptsPerTurn = 64

    /// How long a listener rests when the process has no descriptor or memory left for a connection, in milliseconds.
    static let acceptPauseMilliseconds: UInt64 = 100

    /// Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn.
    static let backlog: Int32 = 4096

    /// Pieces of one write: the kernel's UIO_MAXIOV. The rest goes with the next one.
    static let slicesPerWriteMax = 1024

    /// Sockets that a service manager may hand over; more are an error.
    static let inheritedSocketsMax: Int32 = 1024

    /// Tries to get one free port on all addresses of a listener with port 0.
    static let chosenPortAttemptsMax = 16

    // Layers.

    /// Bytes of one read from a socket with layers: half of a loop's scratch, so that what comes out of them fits into it.
    static let filteredReadBytesMax = 128 << 10

    /// Bytes that a layer may have kept from earlier reads and give now: one TLS record.
    static let filteredSlackBytes = 20 << 10

    /// Bytes that one write takes through layers; the rest waits in the core, where it is counted.
    static let filteredWriteBytesMax = 64 << 10

    /// Bytes of a layer's own answers that may wait for a peer that does not read them; beyond them the connection ends.
    static let unreadAnswerBytesMax = 256 << 10

    /// Bytes of the head with which a proxy answers CONNECT; a longer one ends the connection.
    static let proxyAnswerBytesMax = 8192

    /// Bytes that a TLS record holds at most.
    static let tlsRecordBytesMax = 16 << 10

    /// Bytes of a PROXY header of either version; a longer one ends the connection.
    static let proxyHeaderBytesMax = 16 + proxyVersion2BytesMax

    /// Bytes of the line that is a PROXY header of version 1, as its specification says.
    static let proxyVersion1BytesMax = 107

    /// Bytes behind the head of a PROXY header of version 2. A receiver may stop at 536; certificates' names need more.
    static let proxyVersion2BytesMax = 4096

    // Looking for who has a port.

    /// Bytes that are read of a table under /proc; of a longer one nothing is known.
    static let procFileBytesMax = 64 << 20
}
