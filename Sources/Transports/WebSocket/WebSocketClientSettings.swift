/// What a client of a WebSocket asks for.
public struct WebSocketClientSettings: Sendable, Equatable {
    /// The server's name, as the field Host has it, with the port if that is not the usual one.
    public var host: String
    /// What follows the host in the address, beginning with a slash.
    public var path: String
    /// The longest frame that is taken.
    public var frameBytesMax: UInt64

    public init(host: String, path: String = "/mqtt", frameBytesMax: UInt64 = 268_435_460) {
        self.host = host
        self.path = path
        self.frameBytesMax = frameBytesMax
    }
}
