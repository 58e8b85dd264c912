internal import COpenSSL
internal import Platform

/// OpenSSL's SSL_CTX for connections that we make to one server, and the session that the latest of them may resume.
///
/// Made once; then connections are made from it on any thread.
public final class TLSClientContext: @unchecked Sendable {
    private let pointer: OpaquePointer
    fileprivate let settings: TLSClientSettings
    /// Version and cipher of the first connection.
    private let firstEncryption = Locked<String?>(nil)
    /// The latest session that the server gave us; only if sessions are resumed.
    private let session = Locked<TLSSession?>(nil)

    /// Reads every file. Throws the first thing that is wrong, by its option's name.
    public init(_ settings: TLSClientSettings) throws(TLSFailure) {
        OpenSSLErrors.clear()
        guard let pointer = SSL_CTX_new(TLS_client_method()) else {
            throw TLSFailure(option: "TLS", value: "", reason: OpenSSLErrors.take(or: "OpenSSL has no memory"))
        }
        self.pointer = pointer
        self.settings = settings
        try configure()
    }

    deinit { SSL_CTX_free(pointer) }

    /// Handshakes that were completed.
    public var handshakeCount: Int { openssl_handshake_count(pointer) }

    /// How many of them resumed a session.
    public var resumedCount: Int { openssl_resumed_count(pointer) }

    /// Whether a new connection can resume a session, or never will.
    public var isReadyToResume: Bool { !settings.resumesSessions || session.value != nil }

    /// Version and cipher of the first connection that was opened, nil before.
    public var encryption: String? { firstEncryption.value }

    /// A connection that knows the server's name, and the session to resume; nil when OpenSSL has no memory.
    func makeConnection() -> OpaquePointer? {
        guard let connection = SSL_new(pointer) else { return nil }
        if let session = session.value { SSL_set_session(connection, session.pointer) }
        if isAddress { return connection }
        guard openssl_set_server_name(connection, settings.serverName) == 1 else {
            SSL_free(connection)
            return nil
        }
        return connection
    }

    /// Notes that a connection is open.
    func opened(with encryption: String?) {
        if firstEncryption.value == nil { firstEncryption.replace(with: encryption) }
    }

    /// Keeps the session. OpenSSL hands it over.
    fileprivate func remember(_ pointer: OpaquePointer) {
        session.replace(with: TLSSession(pointer))
    }
}

// MARK: - Setting up

extension TLSClientContext {
    private var isAddress: Bool { openssl_is_address(settings.serverName) == 1 }

    private func configure() throws(TLSFailure) {
        openssl_release_buffers(pointer)
        _ = openssl_set_minimum_version(pointer, settings.requiresVersion13 ? TLS1_3_VERSION : TLS1_2_VERSION)
        try setCiphers()
        try setVerification()
        if settings.requiresOCSP { openssl_require_stapled_answer(pointer) }
        if let certificate = settings.certificate, let key = settings.key {
            try TLSFiles.useCertificate(certificate, key: key, password: settings.keyPassword, in: pointer)
        } else {
            try TLSFiles.useCertificate(
                settings.certificateFile, key: settings.keyFile, password: settings.keyPassword, in: pointer)
        }
        openssl_set_context_data(pointer, Unmanaged.passUnretained(self).toOpaque())
        if settings.preSharedKey != nil { SSL_CTX_set_psk_client_callback(pointer, givePreSharedKey) }
        guard settings.resumesSessions else { return }
        openssl_keep_client_sessions(pointer)
        SSL_CTX_sess_set_new_cb(pointer, rememberSession)
    }

    private func setCiphers() throws(TLSFailure) {
        if let ciphers = settings.ciphers {
            guard SSL_CTX_set_cipher_list(pointer, ciphers) == 1 else {
                throw TLSFiles.failure("ciphers", ciphers, "OpenSSL has none of them")
            }
        } else if settings.preSharedKey != nil {
            _ = SSL_CTX_set_cipher_list(pointer, "PSK:@SECLEVEL=1")
        }
        if let suites = settings.cipherSuites, SSL_CTX_set_ciphersuites(pointer, suites) != 1 {
            throw TLSFiles.failure("ciphers_tls1.3", suites, "OpenSSL has none of them")
        }
        // A callback of TLS 1.3 has another form; servers that know keys by name speak 1.2 too.
        if settings.preSharedKey != nil { _ = openssl_set_maximum_version(pointer, TLS1_2_VERSION) }
        guard let name = settings.applicationProtocol else { return }
        let bytes = Array(name.utf8)
        guard (1...255).contains(bytes.count) else {
            throw TLSFiles.failure("tls-alpn", name, "a protocol's name has 1 to 255 bytes")
        }
        let list = [UInt8(bytes.count)] + bytes
        guard SSL_CTX_set_alpn_protos(pointer, list, UInt32(list.count)) == 0 else {
            throw TLSFiles.failure("tls-alpn", name, "OpenSSL refuses it")
        }
    }

    private func setVerification() throws(TLSFailure) {
        guard settings.verifiesServer, settings.preSharedKey == nil else {
            return SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
        }
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
        if let path = settings.authoritiesFile {
            try TLSFiles.checkReadable("cafile", path)
            guard SSL_CTX_load_verify_file(pointer, path) == 1 else {
                throw TLSFiles.failure("cafile", path, "it holds no certificate")
            }
        }
        if let path = settings.authoritiesDirectory {
            try TLSFiles.checkReadable("capath", path)
            guard SSL_CTX_load_verify_dir(pointer, path) == 1 else { throw TLSFiles.failure("capath", path, "it cannot be used") }
        }
        if let bytes = settings.authorities {
            let isRead = TLSFiles.withMemory(bytes) { openssl_trust_certificates(pointer, $0) > 0 }
            guard isRead else { throw TLSFiles.failure("CA certificates in memory", "", "they hold no certificate in PEM") }
        }
        let names = [settings.authoritiesFile, settings.authoritiesDirectory]
        if (names.allSatisfy { $0 == nil } && settings.authorities == nil) || settings.usesSystemAuthorities {
            SSL_CTX_set_default_verify_paths(pointer)
        }
        guard settings.checksServerName else { return }
        let parameters = SSL_CTX_get0_param(pointer)
        let isNamed =
            isAddress
            ? X509_VERIFY_PARAM_set1_ip_asc(parameters, settings.serverName)
            : X509_VERIFY_PARAM_set1_host(parameters, settings.serverName, 0)
        guard isNamed == 1 else { throw TLSFiles.failure("TLS", settings.serverName, "this is no server's name") }
    }
}

/// What OpenSSL calls with each session that a server gives; 1: it is ours now.
private func rememberSession(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let connection, let session, let data = openssl_context_data(SSL_get_SSL_CTX(connection)) else { return 0 }
    Unmanaged<TLSClientContext>.fromOpaque(data).takeUnretainedValue().remember(session)
    return 1
}

/// What OpenSSL calls for the key; returns its length, 0 if there is none or no room.
private func givePreSharedKey(
    _ connection: OpaquePointer?, _ hint: UnsafePointer<CChar>?, _ identity: UnsafeMutablePointer<CChar>?, _ identityMax: UInt32,
    _ key: UnsafeMutablePointer<UInt8>?, _ keyMax: UInt32
) -> UInt32 {
    guard let connection, let identity, let key, let data = openssl_context_data(SSL_get_SSL_CTX(connection)),
        let mine = Unmanaged<TLSClientContext>.fromOpaque(data).takeUnretainedValue().settings.preSharedKey
    else { return 0 }
    let name = mine.identity.utf8
    guard name.count < Int(identityMax), mine.key.count <= Int(keyMax) else { return 0 }
    for (index, byte) in name.enumerated() { identity[index] = CChar(bitPattern: byte) }
    identity[name.count] = 0
    for (index, byte) in mine.key.enumerated() { key[index] = byte }
    return UInt32(mine.key.count)
}
