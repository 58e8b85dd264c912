/// The bounds of the configuration's files that no option sets and several files share: each with its unit and what
/// happens beyond it.
enum Limits {
    // Files.

    /// Bytes of a file; a larger one is an error.
    static let fileBytesMax = 4 << 20

    /// Bytes of a value: mosquitto's strings have a length of 16 bits. A longer one is an error.
    static let valueBytesMax = 65_535

    /// Errors and warnings that are told. The first one that does not fit becomes a note that there are more.
    /// Bytes: `lineBytesMax` each at most.
    static let diagnosticsMax = 200

    // Values.

    /// The largest number of bytes or things that a line may ask for: 2^50, so that sums and products of a few of them
    /// stay in range.
    static let countMax = 1 << 50
}
