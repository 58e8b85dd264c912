internal import COpenSSL
internal import Glibc
internal import Platform

/// OpenSSL's SSL_CTX for a listener: certificate, key, authorities, ciphers. Made once, then only read, from any thread.
///
/// Sessions are resumed by tickets, whose keys each context makes for itself: a new certificate or list of revoked ones ends what
/// was agreed under the old.
public final class TLSContext: @unchecked Sendable {
    let pointer: OpaquePointer
    let settings: TLSSettings
    /// The protocol that is chosen, as ALPN writes it: its length, its name.
    let applicationProtocol: [UInt8]
    private let keyLog: FileDescriptor?
    /// What clients are shown; nil for nothing.
    public private(set) var certificate: OwnCertificate?

    /// Reads every file. Throws the first thing that is wrong, by its option's name.
    public init(_ settings: TLSSettings) throws(TLSFailure) {
        OpenSSLErrors.clear()
        guard let pointer = SSL_CTX_new(TLS_server_method()) else {
            throw TLSFailure(option: "TLS", value: "", reason: OpenSSLErrors.take(or: "OpenSSL has no memory"))
        }
        self.pointer = pointer
        self.settings = settings
        applicationProtocol =
            [UInt8(truncatingIfNeeded: settings.applicationProtocol.utf8.count)] + settings.applicationProtocol.utf8
        keyLog = try settings.keyLogFile.map { path throws(TLSFailure) in try Self.openKeyLog(path) }
        try configure()
        certificate = OwnCertificate(shownBy: pointer)
    }

    deinit {
        SSL_CTX_free(pointer)
        keyLog?.close()
    }

    /// Writes a line of secrets, whole, so that lines of several threads never mix.
    fileprivate func logSecrets(_ line: UnsafePointer<CChar>) {
        guard let keyLog else { return }
        var bytes = Array(UnsafeRawBufferPointer(start: line, count: strlen(line)))
        bytes.append(UInt8(ascii: "\n"))
        _ = bytes.withUnsafeBytes { SystemCall.write(keyLog, $0) }
    }

    private static func openKeyLog(_ path: String) throws(TLSFailure) -> FileDescriptor {
        do throws(SystemError) {
            return try WrittenFile.openAppended(path, mode: 0o600)
        } catch {
            throw TLSFailure(option: "tls-keylog", value: path, reason: error.reason)
        }
    }
}

// MARK: - Setting up

extension TLSContext {
    private func configure() throws(TLSFailure) {
        openssl_set_server_options(pointer)
        openssl_release_buffers(pointer)
        openssl_disable_session_cache(pointer)
        // One ticket: an MQTT client has one connection to resume.
        SSL_CTX_set_num_tickets(pointer, 1)
        let sessionContext = Array("martlet".utf8)
        SSL_CTX_set_session_id_context(pointer, sessionContext, UInt32(sessionContext.count))
        openssl_set_context_data(pointer, Unmanaged.passUnretained(self).toOpaque())
        try setVersions()
        try TLSFiles.useCertificate(settings.certificateFile, key: settings.keyFile, in: pointer)
        try readAuthorities()
        try readDiffieHellmanParameters()
        try setPreSharedKeys()
        SSL_CTX_set_alpn_select_cb(pointer, chooseApplicationProtocol, nil)
        if keyLog != nil { SSL_CTX_set_keylog_callback(pointer, logSecretsOfConnection) }
    }

    private func setVersions() throws(TLSFailure) {
        let version = settings.versionMin == .tls1_3 ? TLS1_3_VERSION : TLS1_2_VERSION
        guard openssl_set_minimum_version(pointer, version) == 1 else {
            throw TLSFiles.failure("tls_version", "", "this OpenSSL does not have it")
        }
        if let ciphers = settings.ciphers, SSL_CTX_set_cipher_list(pointer, ciphers) != 1 {
            throw TLSFiles.failure("ciphers", ciphers, "OpenSSL knows none of them")
        }
        if let suites = settings.cipherSuites, SSL_CTX_set_ciphersuites(pointer, suites) != 1 {
            throw TLSFiles.failure("ciphers_tls1.3", suites, "OpenSSL does not know them")
        }
    }

    private func readAuthorities() throws(TLSFailure) {
        if let path = settings.authoritiesFile {
            try TLSFiles.checkReadable("cafile", path)
            guard SSL_CTX_load_verify_file(pointer, path) == 1 else {
                throw TLSFiles.failure("cafile", path, "it holds no certificate")
            }
            // Tells the clients whose certificates they may show.
            SSL_CTX_set_client_CA_list(pointer, SSL_load_client_CA_file(path))
        }
        if let path = settings.authoritiesDirectory {
            try TLSFiles.checkReadable("capath", path)
            guard SSL_CTX_load_verify_dir(pointer, path) == 1 else { throw TLSFiles.failure("capath", path, "it cannot be used") }
        }
        if let path = settings.revocationListFile {
            try TLSFiles.checkReadable("crlfile", path)
            guard let store = SSL_CTX_get_cert_store(pointer), openssl_read_crl_file(store, path) > 0 else {
                throw TLSFiles.failure("crlfile", path, "it holds no list of revoked certificates")
            }
            X509_STORE_set_flags(store, UInt(X509_V_FLAG_CRL_CHECK))
        }
        if settings.ignoresCertificateDates {
            X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_NO_CHECK_TIME))
        }
        SSL_CTX_set_verify(
            pointer, settings.requiresCertificate ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, nil)
    }

    private func readDiffieHellmanParameters() throws(TLSFailure) {
        guard let path = settings.diffieHellmanParametersFile else {
            _ = openssl_choose_diffie_hellman(pointer)
            return
        }
        try TLSFiles.checkReadable("dhparamfile", path)
        guard let file = BIO_new_file(path, "r") else { throw TLSFiles.failure("dhparamfile", path, "it cannot be read") }
        defer { BIO_free(file) }
        guard let parameters = PEM_read_bio_Parameters(file, nil) else {
            throw TLSFiles.failure("dhparamfile", path, "it holds no parameters")
        }
        guard SSL_CTX_set0_tmp_dh_pkey(pointer, parameters) == 1 else {
            EVP_PKEY_free(parameters)
            throw TLSFiles.failure("dhparamfile", path, "its parameters cannot be used")
        }
    }

    private func setPreSharedKeys() throws(TLSFailure) {
        guard let hint = settings.preSharedKeyHint else { return }
        guard SSL_CTX_use_psk_identity_hint(pointer, hint) == 1 else { throw TLSFiles.failure("psk_hint", hint, "it is too long") }
        SSL_CTX_set_psk_server_callback(pointer, findPreSharedKey)
        // A resumed session would not say whose key it was, and this handshake is cheap anyway.
        openssl_refuse_tickets(pointer)
        SSL_CTX_set_num_tickets(pointer, 0)
    }
}

// MARK: - What OpenSSL calls

private func context(of connection: OpaquePointer?) -> TLSContext? {
    guard let connection, let data = openssl_context_data(SSL_get_SSL_CTX(connection)) else { return nil }
    return Unmanaged<TLSContext>.fromOpaque(data).takeUnretainedValue()
}

private func logSecretsOfConnection(_ connection: OpaquePointer?, _ line: UnsafePointer<CChar>?) {
    if let line { context(of: connection)?.logSecrets(line) }
}

/// ALPN: ours if the client offers it; else the connection goes on without.
private func chooseApplicationProtocol(
    _ connection: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let own = context(of: connection)?.applicationProtocol, let offered else { return SSL_TLSEXT_ERR_NOACK }
    var rest = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    while let length = rest.first, rest.count > Int(length) {
        let entry = UnsafeBufferPointer(rebasing: rest[...Int(length)])
        if entry.elementsEqual(own) {
            chosen?.pointee = entry.baseAddress.map { $0 + 1 }
            chosenLength?.pointee = length
            return SSL_TLSEXT_ERR_OK
        }
        rest = UnsafeBufferPointer(rebasing: rest[(Int(length) + 1)...])
    }
    return SSL_TLSEXT_ERR_NOACK
}

/// Returns the key's length, 0 for an identity that nobody has.
private func findPreSharedKey(
    _ connection: OpaquePointer?, _ identity: UnsafePointer<CChar>?, _ key: UnsafeMutablePointer<UInt8>?, _ keyMax: UInt32
) -> UInt32 {
    guard let connection, let identity, let key, let name = String(validatingCString: identity),
        let found = context(of: connection)?.settings.preSharedKey?(name), !found.isEmpty, found.count <= Int(keyMax)
    else { return 0 }
    for (index, byte) in found.enumerated() { key[index] = byte }
    TLSFilter.of(connection)?.recordPreSharedKeyIdentity(name)
    return UInt32(found.count)
}
