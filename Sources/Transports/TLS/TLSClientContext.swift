internal import COpenSSL
internal import Glibc
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
            throw TLSFailure(option: "TLS", value: "", reason: OpenSSLErrors.takeFirst(or: "OpenSSL has no memory"))
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

/// A session that a server gave to a client, to begin another connection with at less cost. Read only, from any thread.
final class TLSSession: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over one reference.
    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { SSL_SESSION_free(pointer) }
}

/// What a client's TLS is made of. Paths are read when a `TLSClientContext` is made.
public struct TLSClientSettings: Sendable, Equatable {
    /// The name or address that the server's certificate has to be for, and that the server is told if it is a name.
    public var serverName: String
    /// The authorities whose certificates servers may show; with neither of both the system's own.
    public var authoritiesFile: String?
    public var authoritiesDirectory: String?
    /// The certification authorities in memory, as PEM.
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
    /// The client's certificate with its chain, and its key, in memory as PEM, instead of files.
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
    /// Whether the server has to prove, by an answer of its authority that it staples, that its certificate was not
    /// revoked.
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

/// The files of either side's TLS, and what is said when one is wrong.
enum TLSFiles {
    /// Reads a side's own certificate and key into the context, each if it is given.
    ///
    /// - Parameter password: of a key that has one; nil refuses such a key: what starts by itself has nobody to ask.
    static func useCertificate(
        _ certificateFile: String?, key keyFile: String?, password: String? = nil, in context: OpaquePointer
    ) throws(TLSFailure) {
        SSL_CTX_set_default_passwd_cb(context, givePassword)
        if let path = certificateFile {
            try checkReadable("certfile", path)
            guard SSL_CTX_use_certificate_chain_file(context, path) == 1 else {
                throw failure("certfile", path, "it holds no certificate")
            }
        }
        guard let path = keyFile else { return }
        try checkReadable("keyfile", path)
        let mismatch = "the key does not match the certificate in \(certificateFile.map { FullPath.of($0) } ?? "certfile")"
        let isRead = withPassword(password) { password in
            SSL_CTX_set_default_passwd_cb_userdata(context, password)
            defer { SSL_CTX_set_default_passwd_cb_userdata(context, nil) }
            return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1
        }
        guard isRead else {
            let reason = OpenSSLErrors.takeFirst(or: "it holds no key")
            throw TLSFailure(option: "keyfile", value: path, reason: reason.holds("mismatch") ? mismatch : reason)
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            OpenSSLErrors.clear()
            throw TLSFailure(option: "keyfile", value: path, reason: mismatch)
        }
    }

    /// Uses a certificate with its chain, and its key, that are in memory as PEM.
    static func useCertificate(
        _ certificate: [UInt8], key: [UInt8], password: String?, in context: OpaquePointer
    ) throws(TLSFailure) {
        guard withMemory(certificate, { openssl_use_certificate_chain(context, $0) == 1 }) else {
            throw failure("certificate in memory", "", "it holds no certificate in PEM")
        }
        let mismatch = TLSFailure(option: "key in memory", value: "", reason: "the key does not match the certificate")
        let isRead = withPassword(password) { password in
            withMemory(key) { openssl_use_private_key(context, $0, givePassword, password) }
        }
        guard isRead == 1 else {
            let reason = OpenSSLErrors.takeFirst(or: "it holds no key in PEM")
            throw reason.holds("mismatch") ? mismatch : TLSFailure(option: "key in memory", value: "", reason: reason)
        }
        guard SSL_CTX_check_private_key(context) == 1 else {
            OpenSSLErrors.clear()
            throw mismatch
        }
    }

    /// Lends OpenSSL the bytes to read from.
    static func withMemory<Answer>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Answer) -> Answer {
        bytes.withUnsafeBytes { bytes in
            let reader = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
            defer { BIO_free(reader) }
            return body(reader)
        }
    }

    private static func withPassword<Answer>(_ password: String?, _ body: (UnsafeMutableRawPointer?) -> Answer) -> Answer {
        guard let password else { return body(nil) }
        return password.withCString { body(UnsafeMutableRawPointer(mutating: $0)) }
    }

    /// All bytes of a file.
    static func bytes(of path: String, option: String) throws(TLSFailure) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: Limits.tlsFileBytesMax)
        } catch {
            switch error {
            case .isDirectory: throw TLSFailure(option: option, value: path, reason: "it is a directory")
            case .isTooLarge:
                throw TLSFailure(option: option, value: path, reason: "it is larger than \(Limits.tlsFileBytesMax >> 20) MiB")
            case .refused(let error): throw TLSFailure(option: option, value: path, reason: error.reason)
            }
        }
    }

    /// OpenSSL's words for a missing file are about its own insides. A block right behind a byte order mark it passes
    /// over, in silence where others follow: an authority, or a list of revoked certificates, would not count.
    static func checkReadable(_ option: String, _ path: String) throws(TLSFailure) {
        var head = [UInt8](repeating: 0, count: markedBlock.count)
        do throws(SystemError) {
            let file = try SystemCall.open(path, flags: O_RDONLY)
            defer { file.close() }
            // What cannot be read is OpenSSL's to say; capath is a directory.
            guard head.withUnsafeMutableBytes({ read(file.rawValue, $0.baseAddress, $0.count) }) == head.count else { return }
        } catch {
            throw TLSFailure(option: option, value: path, reason: error.reason)
        }
        guard head == markedBlock else { return }
        // A link, as of certificates that renew themselves, stays one.
        let parts = FullPath.of(path).split(separator: "'", omittingEmptySubsequences: false)
        let command = #"sed -i --follow-symlinks '1s/^\xEF\xBB\xBF//' '\#(parts.joined(separator: #"'\''"#))'"#
        throw TLSFailure(
            option: option, value: path,
            reason:
                "it begins with a byte order mark, so that OpenSSL would not read its first block. Remove it: \(command)"
        )
    }

    private static let markedBlock = ByteOrderMark.bytes + Array("-----BEGIN ".utf8)

    /// With what OpenSSL has to say about it.
    static func failure(_ option: String, _ value: String, _ words: String) -> TLSFailure {
        let reason = OpenSSLErrors.takeFirst(or: words)
        return TLSFailure(option: option, value: value, reason: reason == words ? words : "\(words) (\(reason))")
    }
}

/// What OpenSSL calls for a key's password, which is the data that it was given; returns its length, -1 if there is
/// none or no room.
private func givePassword(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ isForWriting: Int32, _ data: UnsafeMutableRawPointer?
) -> Int32 {
    guard let buffer, let data else { return -1 }
    let password = data.assumingMemoryBound(to: CChar.self)
    let length = strlen(password)
    guard length <= Int(size) else { return -1 }
    memcpy(buffer, password, length)
    return Int32(length)
}

/// OpenSSL's queue of errors, one for each thread. What a call leaves there explains it; what an earlier one left would
/// mislead.
enum OpenSSLErrors {
    static func clear() {
        ERR_clear_error()
    }

    /// Takes the whole queue; the words of its first error, or these.
    ///
    /// A certificate that fails to verify is told as that, and not as the arithmetic that found it.
    static func takeFirst(or words: String) -> String {
        var first = ERR_get_error()
        guard first != 0 else { return words }
        while case let next = ERR_get_error(), next != 0 {
            if openssl_is_verification_failure(next) == 1 { first = next }
        }
        guard let reason = ERR_reason_error_string(first) else { return "\(words) (OpenSSL error \(first))" }
        return String(cString: reason)
    }
}
