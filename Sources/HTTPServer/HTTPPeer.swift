public import Transports

/// Who asks, as far as the connection tells.
public struct HTTPPeer: Sendable {
    /// The listener that accepted it, by the number that `HTTPService.serve` was given.
    public let listener: Int
    /// Where it comes from; behind a proxy the client's address.
    public let address: PeerAddress
    /// The file of the Unix socket that it came by; nil of any other.
    public let socketPath: String?
    /// The number of the user at the other end of a Unix socket, as the kernel tells it; nil of any other, and of one behind a proxy.
    public let user: UInt32?
    public let isEncrypted: Bool
    /// What the layers below know of it.
    public let identity: PeerIdentity

    /// The address as the log has it, without a port.
    public var host: String {
        if address.family != .local { return address.host }
        return identity.forwardedPath ?? socketPath ?? "local"
    }

    /// Whether the connection does not leave the machine, as far as its last hop tells.
    public var isLocal: Bool { address.isLoopback }
}
