/// What the shell knows of a connection when it accepts it.
public struct ConnectionInfo: Sendable {
    /// The peer's address as the log prints it, such as `127.0.0.1`.
    public var address: String
    /// The peer's port, 0 where there is none.
    public var port: UInt16
    /// Which of `BrokerSettings.listeners` accepted it.
    public var listener: Int

    public init(address: String, port: UInt16 = 0, listener: Int = 0) {
        self.address = address
        self.port = port
        self.listener = listener
    }
}
