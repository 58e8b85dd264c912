/// What a listener demands of those that come over WebSocket.
public struct WebSocketSettings: Sendable, Equatable {
    /// The values of Origin that are let in, each compared whole; none lets all in.
    public var origins: [String]
    /// How long the head of the HTTP request may be.
    public var headerBytesMax: Int
    /// The longest frame that is taken. Frames are passed on as they come, so this is no buffer's size.
    public var frameBytesMax: UInt64

    public init(origins: [String] = [], headerBytesMax: Int = 4096, frameBytesMax: UInt64 = 268_435_460) {
        self.origins = origins
        self.headerBytesMax = headerBytesMax
        self.frameBytesMax = frameBytesMax
    }
}
