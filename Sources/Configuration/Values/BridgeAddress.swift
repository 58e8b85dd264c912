/// A broker that a bridge connects to.
public struct BridgeAddress: Sendable, Hashable {
    public var host: String
    public var port: UInt16

    public init(host: String, port: UInt16 = BrokerConfiguration.defaultPort) {
        self.host = host
        self.port = port
    }
}
