/// The bounds of the configuration's files that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Files.

    /// Bytes of a file; a larger one is an error.
    static let fileBytesMax = 4 << 20

    /// Bytes of a value: mosquitto's strings have a length of 16 bits. A longer one is an error.
    static let valueBytesMax = 65_535

    /// Bytes of a line: a value, its name, and blanks. A longer one is an error.
    static let lineBytesMax = valueBytesMax + 1024

    /// Files that include_dir reads; more are an error. Bytes: `fileBytesMax` each at most.
    static let includedFilesMax = 1000

    /// Errors and warnings that are told. The first one that does not fit becomes a note that there are more.
    /// Bytes: `lineBytesMax` each at most.
    static let diagnosticsMax = 200

    /// How many topic lines of bridges, each way for itself, are looked at for messages that go round; with more nothing is said of them.
    /// Bytes: `lineBytesMax` each at most.
    static let bridgeLegsMax = 128

    // Values.

    /// The largest number of bytes or things that a line may ask for: 2^50, so that sums and products of a few of them stay in range.
    static let countMax = 1 << 50

    /// Event loops that the broker makes; a `martlet_threads` that asks for more gets so many, and a warning.
    static let threadsMax = 64

    /// Event loops that a node of a cluster makes: it takes two of the places that loops have.
    static let nodeThreadsMax = 62

    /// The largest `martlet_output_bytes_max`, in bytes: a GiB for each connection that does not read is more than any machine has room for.
    static let outputBytesMax = 1 << 30

    /// Bytes of a bridge's name where the broker is asked for it while it runs, so that its topics, labels and paths stay short; a longer one is
    /// refused.
    static let bridgeNameBytesMax = 255

    /// The largest `martlet_bridge_connections`.
    static let bridgeConnectionsMax = 64

    /// Bytes of `martlet_node_name`; a longer one is refused.
    static let nodeNameBytesMax = 255
}
