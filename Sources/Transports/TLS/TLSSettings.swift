/// What a listener's TLS is made of. Paths are read when a `TLSContext` is made.
public struct TLSSettings: Sendable {
    public enum Version: Sendable {
        case tls1_2
        case tls1_3
    }

    /// The certificate's chain and its key, both PEM. Without them only pre-shared keys let clients in.
    public var certificateFile: String?
    public var keyFile: String?
    /// The authorities whose certificates clients may show.
    public var authoritiesFile: String?
    public var authoritiesDirectory: String?
    public var revocationListFile: String?
    public var diffieHellmanParametersFile: String?
    /// For TLS 1.2, in OpenSSL's notation.
    public var ciphers: String?
    /// For TLS 1.3.
    public var cipherSuites: String?
    public var versionMin = Version.tls1_2
    public var requiresCertificate = false
    public var ignoresCertificateDates = false
    /// Switches pre-shared keys on.
    public var preSharedKeyHint: String?
    /// The key of an identity, nil when nobody has it. Called on a loop's thread in the middle of a handshake: it may not wait.
    public var preSharedKey: (@Sendable (_ identity: String) -> [UInt8]?)?
    /// The protocol that is chosen from a client's; none is demanded.
    public var applicationProtocol = "mqtt"
    /// Where the secrets of each connection are appended, for debugging: whoever reads it reads all traffic.
    public var keyLogFile: String?

    public init() {}

    /// Every file whose change makes a new context necessary.
    var watchedPaths: [String] {
        [
            certificateFile, keyFile, authoritiesFile, authoritiesDirectory, revocationListFile, diffieHellmanParametersFile,
        ].compactMap { $0 }
    }
}
