/// The probes that find a dead connection.
public struct TCPKeepAlive: Sendable, Equatable {
    public var idleSeconds: Int
    public var intervalSeconds: Int
    public var count: Int

    public init(idleSeconds: Int, intervalSeconds: Int, count: Int) {
        self.idleSeconds = idleSeconds
        self.intervalSeconds = intervalSeconds
        self.count = count
    }
}
