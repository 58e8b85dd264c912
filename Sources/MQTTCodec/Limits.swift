/// The bounds of the codec that are not the standard's.
enum Limits {
    /// Bytes of what a peer called something that come into a line of the log; a longer name is cut.
    static let loggedTextBytesMax = 256
}
