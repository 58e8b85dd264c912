/// The bounds of the store that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Writing.

    /// How long after a failed commit the next one is tried, in milliseconds.
    static let retryMilliseconds = 500

    /// Pages of the log after which the writer moves it into the database itself, before the next commit.
    static let logPagesMax = 16_000

    /// Pages of the log after which it is moved into the database beside the commits.
    static let checkpointPages = 4000

    /// Bytes written before the size of the store is looked at again; near its bound it is looked at for each commit.
    static let uncountedBytesMax = 64 << 10

    /// Commits of one message each that may stand in a row without the store's state beside them. Bytes: 0, they are counted.
    static let tailCountMax = 63

    /// Rows inserted with one statement.
    static let rowsAtOnce = 8

    /// Pages by which the log's file grows ahead.
    static let reservedPages = 256

    // Reading.

    /// Places at which a damaged table is tried again; what lies between two of them that fail is given up, and told.
    static let probesMax = 512

    /// Damaged rows that an error names; of the others it tells the number.
    static let damagesListed = 20

    /// Bytes of a file copied with one call.
    static let bytesCopiedAtOnce = 1 << 24
}
