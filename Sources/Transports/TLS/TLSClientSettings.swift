/// What a client's TLS is made of. Paths are read when a `TLSClientContext` is made.
public struct TLSClientSettings: Sendable {
    /// The name or address that the server's certificate has to be for, and that the server is told if it is a name.
    public var serverName: String
    /// Whose certificates servers may show; with neither of both the system's own.
    public var authoritiesFile: String?
    public var authoritiesDirectory: String?
    /// Whether the server's certificate is looked at. Without that anybody may pretend to be the server.
    public var verifiesServer = true
    /// The client's own certificate and key, both PEM.
    public var certificateFile: String?
    public var keyFile: String?
    /// Whether a connection resumes the session of an earlier one.
    public var resumesSessions = false

    public init(serverName: String) {
        self.serverName = serverName
    }
}
