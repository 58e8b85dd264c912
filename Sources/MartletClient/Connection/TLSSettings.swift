internal import Transports

/// How the server's certificate is checked, and what is shown to it.
///
/// Files are read when a connection is made: what has replaced them is taken by the next one. Where they cannot be used then, as between the
/// writing of a new certificate and of its key, what was read before is used once more.
public struct TLSSettings: Sendable {
    /// Whose certificates servers may show, a file in PEM; with none of the three the system's own.
    public var authoritiesFile: String?
    /// The same as a directory, prepared with `openssl rehash`.
    public var authoritiesDirectory: String?
    /// The same in memory, PEM.
    public var authorities: [UInt8]?
    /// Whether the server's certificate is looked at. Without that anybody may pretend to be the server.
    public var verifiesServer = true
    /// The name or address that the server's certificate has to be for, and that the server is told (SNI) if it is a name; nil for the host of its
    /// address.
    public var serverName: String?
    /// The client's own certificate.
    public var certificate = Certificate.none

    /// Whether TLS 1.2 is not enough.
    public var requiresVersion13 = false
    /// The ciphers of TLS 1.2 as OpenSSL writes them; nil for its own choice.
    public var ciphers: String?
    /// What is asked for by ALPN.
    public var applicationProtocol: String?
    /// Instead of certificates: a key that the server has too. Nothing else tells that it is the server then.
    public var preSharedKey: PreSharedKey?

    /// A key that both sides know, and its name.
    public struct PreSharedKey: Hashable, Sendable {
        /// The name of the key, as the server knows it.
        public var identity: String
        /// The key's bytes.
        public var key: [UInt8]

        /// A key and the name that the server knows it by.
        public init(identity: String, key: [UInt8]) { (self.identity, self.key) = (identity, key) }
    }

    /// Where the client's own certificate is from.
    public enum Certificate: Sendable {
        /// The client shows none.
        case none
        /// Certificate chain and key, both PEM; the password of a key that has one.
        case files(String, key: String, keyPassword: String? = nil)
        /// In memory.
        case memory(Identity)
        /// Asked before each connection. Throwing counts as a failed attempt.
        case provider(@Sendable () async throws -> Identity)
    }

    /// A certificate and its key, in memory.
    public struct Identity: Hashable, Sendable {
        /// The certificate, and those that lead from it to the authority, in this order; PEM.
        public var certificate: [UInt8]
        /// Its private key, PEM.
        public var key: [UInt8]
        /// The password of a key that has one.
        public var keyPassword: String?

        /// From bytes, `Data`, or a text's `utf8`.
        public init(certificate: some Sequence<UInt8>, key: some Sequence<UInt8>, keyPassword: String? = nil) {
            (self.certificate, self.key, self.keyPassword) = (Array(certificate), Array(key), keyPassword)
        }
    }

    /// The system's CA certificates, and none of the client's own.
    public init() {}

    /// What the layer is made of.
    ///
    /// - Parameters:
    ///   - host: of the server's address.
    ///   - provided: what the certificate's provider has given.
    func forServer(_ host: String, provided: Identity?) -> TLSClientSettings {
        var settings = TLSClientSettings(serverName: serverName ?? host)
        settings.authoritiesFile = authoritiesFile
        settings.authoritiesDirectory = authoritiesDirectory
        settings.authorities = authorities
        settings.verifiesServer = verifiesServer
        switch certificate {
        case .none: break
        case .files(let certificate, let key, let password):
            (settings.certificateFile, settings.keyFile, settings.keyPassword) = (certificate, key, password)
        case .memory(let identity): settings.use(identity)
        case .provider: if let provided { settings.use(provided) }
        }
        settings.resumesSessions = preSharedKey == nil
        settings.requiresVersion13 = requiresVersion13
        settings.ciphers = ciphers
        settings.applicationProtocol = applicationProtocol
        if let preSharedKey {
            settings.preSharedKey = TLSClientSettings.PreSharedKey(identity: preSharedKey.identity, key: preSharedKey.key)
        }
        return settings
    }
}

extension TLSClientSettings {
    fileprivate mutating func use(_ identity: TLSSettings.Identity) {
        (certificate, key, keyPassword) = (identity.certificate, identity.key, identity.keyPassword)
    }
}

/// OpenSSL's contexts of the servers that were connected to, each as long as nothing that it was made of has changed: its sessions are resumed.
struct TLSContexts {
    private struct Made {
        let settings: TLSClientSettings
        let files: [FileFingerprint?]
        let context: TLSClientContext
    }

    private var made: [String: Made] = [:]

    /// The context for a server. Throws what is wrong with its settings.
    ///
    /// - Parameter server: its address.
    mutating func context(for server: String, _ settings: TLSClientSettings) throws(TLSFailure) -> TLSClientContext {
        // Before they are read: what is replaced meanwhile is noticed at the next connection.
        let files = [
            settings.authoritiesFile, settings.authoritiesDirectory, settings.certificateFile, settings.keyFile,
        ].map { $0.flatMap { FileFingerprint(path: $0) } }
        let known = made[server]
        if let known, known.settings == settings, known.files == files { return known.context }
        do throws(TLSFailure) {
            let context = try TLSClientContext(settings)
            if made.count >= Limits.tlsContextsMax { made = [:] }
            made[server] = Made(settings: settings, files: files, context: context)
            return context
        } catch {
            guard let known, known.settings == settings else { throw error }
            return known.context
        }
    }
}
