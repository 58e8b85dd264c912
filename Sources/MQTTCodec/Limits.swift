/// The bounds of the codec that are not the standard's.
enum Limits {
    /// Bytes of what a peer called something that come into a line of the log; a longer name is cut.
    static let loggedTextBytesMax = 256

    /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE, all of which are worked off in one go; more of them end the connection with Quota
    /// exceeded.
    static let filtersPerPacketMax = 10_000
}
