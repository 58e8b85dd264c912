/// What a client's TLS is made of. Paths are read when a `TLSClientContext` is made.
public struct TLSClientSettings: Sendable, Equatable {
    /// The name or address that the server's certificate has to be for, and that the server is told if it is a name.
    public var serverName: String
    /// The authorities whose certificates servers may show; with neither of both the system's own.
    public var authoritiesFile: String?
    public var authoritiesDirectory: String?
    /// The same in memory, PEM.
    public var authorities: [UInt8]?
    /// Whether the system's own are trusted beside those.
    public var usesSystemAuthorities = false
    /// Whether the certificate has to be for `serverName`.
    public var checksServerName = true
    /// Whether the server's certificate is looked at. Without that anybody may pretend to be the server.
    public var verifiesServer = true
    /// The client's own certificate and key, both PEM.
    public var certificateFile: String?
    public var keyFile: String?
    /// The same in memory, instead of files: certificate and chain, and key.
    public var certificate: [UInt8]?
    public var key: [UInt8]?
    /// The password of a key that has one.
    public var keyPassword: String?
    /// Whether a connection resumes the session of an earlier one.
    public var resumesSessions = false
    /// Whether TLS 1.2 is not enough.
    public var requiresVersion13 = false
    /// The ciphers of TLS 1.2 as OpenSSL writes them; nil for its own choice.
    public var ciphers: String?
    /// The cipher suites of TLS 1.3 as OpenSSL writes them; nil for its own choice.
    public var cipherSuites: String?
    /// Whether the server has to prove, by an answer of its authority that it staples, that its certificate was not revoked.
    public var requiresOCSP = false
    /// The protocol that is asked for by ALPN.
    public var applicationProtocol: String?
    /// Instead of certificates: then the server is known by the key alone, with TLS 1.2.
    public var preSharedKey: PreSharedKey?

    /// A key that both sides know, and its name.
    public struct PreSharedKey: Sendable, Equatable {
        public var identity: String
        public var key: [UInt8]

        public init(identity: String, key: [UInt8]) { (self.identity, self.key) = (identity, key) }
    }

    public init(serverName: String) {
        self.serverName = serverName
    }
}
