/// How one logs in.
public enum NATSLogin: Sendable, Hashable {
    case user(String, password: String)
    case token(String)
    /// A key of Ed25519: the server knows its public half, and gets a signature.
    case key(NKey)
}

/// What a session is to be.
public struct NATSSettings: Sendable {
    /// The servers to begin with, one at least.
    public var servers: [ServerAddress]
    /// The name that servers show in their lists of connections.
    public var name: String
    /// For servers whose address has no login; nil for none.
    public var login: NATSLogin?
    /// Whether TLS is used with servers that do not ask for it.
    public var requiresTLS = false
    /// Older servers are refused.
    public var versionMin: ServerVersion
    /// Whether servers that a server tells about are used too.
    public var followsServers = true
    /// Of the program, as servers show it.
    public var programVersion: String

    public init(servers: [ServerAddress], name: String, versionMin: ServerVersion, programVersion: String) {
        (self.servers, self.name) = (servers, name)
        (self.versionMin, self.programVersion) = (versionMin, programVersion)
    }
}
