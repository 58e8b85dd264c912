/// The bounds of the codec that are not the standard's.
enum Limits {
    /// Bytes of what a peer called something that come into a line of the log; a longer name is cut.
    static let loggedTextBytesMax = 256

    /// User properties of a client's packet, or of a will; more of them are `WireError.tooManyUserProperties`. Each takes some 110 bytes of
    /// memory, and as little as 5 bytes of a packet. A PUBLISH may have any number: they are not taken apart.
    /// Bytes: `userPropertyBytesMax`.
    static let userPropertiesMax = 256

    /// Bytes of those, names and values together; more of them are the same error.
    static let userPropertyBytesMax = 64 * 1024

    /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE, all of which are worked off in one go; more of them end the connection with Quota
    /// exceeded. Bytes: `max_packet_size`.
    static let filtersPerPacketMax = 10_000
}
