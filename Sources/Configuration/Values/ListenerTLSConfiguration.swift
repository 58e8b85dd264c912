/// The TLS side of a listener.
///
/// `isEnabled` is `certificateFile != nil && keyFile != nil || preSharedKeyHint != nil`; without it nothing else counts.
public struct ListenerTLSConfiguration: Sendable, Equatable {
    /// `certfile`: the chain that the listener shows.
    public var certificateFile: String?
    /// `keyfile`.
    public var keyFile: String?
    /// `cafile`: the authorities of the clients' certificates.
    public var authoritiesFile: String?
    /// `capath`.
    public var authoritiesDirectory: String?
    /// `crlfile`: the certificates that were revoked.
    public var revocationListFile: String?
    /// `dhparamfile`.
    public var diffieHellmanParametersFile: String?
    /// `ciphers`: for TLS 1.2, in OpenSSL's notation.
    public var ciphers: String?
    /// `ciphers_tls1.3`.
    public var cipherSuites: String?
    /// `tls_version`: the lowest version.
    public var versionMin = TLSVersion.tls1_2
    /// `require_certificate`.
    public var requiresCertificate = false
    /// `use_identity_as_username`, `use_subject_as_username`.
    public var userNameSource = CertificateUserName.none
    /// `disable_client_cert_date_checks`.
    public var ignoresCertificateDates = false
    /// `psk_hint`: pre-shared keys are used, and this is the hint for the clients.
    public var preSharedKeyHint: String?

    public init() {}

    public var isEnabled: Bool {
        (certificateFile != nil && keyFile != nil) || preSharedKeyHint != nil
    }
}

/// A version of TLS that may be the lowest of a listener.
public enum TLSVersion: String, Sendable, Equatable, CaseIterable {
    case tls1_2 = "tlsv1.2"
    case tls1_3 = "tlsv1.3"
}
