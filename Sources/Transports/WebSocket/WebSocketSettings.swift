/// What a listener demands of those that come over WebSocket.
public struct WebSocketSettings: Sendable, Equatable {
    /// The values of Origin that are let in, each compared whole; none lets all in.
    public var origins: [String]
    /// How long the head of the HTTP request may be.
    public var headerBytesMax: Int
    /// The longest frame that is taken. Frames are passed on as they come, so this is no buffer's size.
    public var frameBytesMax: UInt64
    /// Where only this machine can connect: what it is called besides localhost, in lower case. A page of another site must not use the
    /// browser of this machine to come in, so that requests for other names, and of pages of other sites, are refused unless `origins` has any.
    /// nil where other machines can connect.
    public var ownNames: [String]?

    public init(
        origins: [String] = [], headerBytesMax: Int = 4096, frameBytesMax: UInt64 = 268_435_460, ownNames: [String]? = nil
    ) {
        self.origins = origins
        self.ownNames = ownNames
        self.headerBytesMax = headerBytesMax
        self.frameBytesMax = frameBytesMax
    }
}
