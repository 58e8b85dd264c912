/// The TLS side of a bridge.
public struct BridgeTLSConfiguration: Sendable, Equatable {
    /// `bridge_cafile`.
    public var authoritiesFile: String?
    /// `bridge_capath`.
    public var authoritiesDirectory: String?
    /// `bridge_tls_use_os_certs`.
    public var usesSystemAuthorities = false
    /// `bridge_certfile`.
    public var certificateFile: String?
    /// `bridge_keyfile`.
    public var keyFile: String?
    /// `bridge_insecure`: the host name of the other broker's certificate is not checked.
    public var ignoresHostName = false
    /// `bridge_tls_version`.
    public var versionMin = TLSVersion.tls1_2
    /// `bridge_alpn`.
    public var applicationProtocol: String?
    /// `bridge_ciphers`.
    public var ciphers: String?
    /// `bridge_ciphers_tls1.3`.
    public var cipherSuites: String?
    /// `bridge_require_ocsp`.
    public var requiresOCSP = false
    /// `bridge_identity`.
    public var preSharedKeyIdentity: String?
    /// `bridge_psk`: the key in hexadecimal digits.
    public var preSharedKey: String?

    public init() {}

    public var isEnabled: Bool {
        authoritiesFile != nil || authoritiesDirectory != nil || usesSystemAuthorities || preSharedKey != nil
    }
}
