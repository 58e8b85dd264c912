internal import COpenSSL
internal import Glibc
internal import Platform

/// OpenSSL's SSL_CTX for a listener: certificate, key, authorities, ciphers. Made once, then only read, from any
/// thread.
///
/// Sessions are resumed by tickets, whose keys each context makes for itself: a new certificate or list of revoked ones
/// ends what was agreed under the old.
public final class TLSContext: @unchecked Sendable {
    let pointer: OpaquePointer
    let settings: TLSSettings
    /// The protocol that is chosen, as ALPN writes it: its length, its name.
    let applicationProtocol: [UInt8]
    private let keyLog: FileDescriptor?
    fileprivate private(set) var hosts = HostCertificates()
    fileprivate private(set) var tickets = TicketKeys()
    /// The authority's answer about the certificate.
    fileprivate private(set) var status: [UInt8]?
    /// What clients are shown; nil for nothing.
    public private(set) var certificate: OwnCertificate?

    /// Reads every file. Throws the first thing that is wrong, by its option's name.
    public init(_ settings: TLSSettings) throws(TLSFailure) {
        OpenSSLErrors.clear()
        guard let pointer = SSL_CTX_new(TLS_server_method()) else {
            throw TLSFailure(option: "TLS", value: "", reason: OpenSSLErrors.takeFirst(or: "OpenSSL has no memory"))
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
        SSL_CTX_set_num_tickets(pointer, settings.givesTickets ? 1 : 0)
        if !settings.givesTickets { openssl_refuse_tickets(pointer) }
        if let seconds = settings.ticketSeconds { openssl_set_session_seconds(pointer, seconds) }
        let sessionContext = try sessionContext()
        SSL_CTX_set_session_id_context(pointer, sessionContext, UInt32(sessionContext.count))
        openssl_set_context_data(pointer, Unmanaged.passUnretained(self).toOpaque())
        try setVersions()
        try TLSFiles.useCertificate(settings.certificateFile, key: settings.keyFile, in: pointer)
        try readAuthorities()
        try readDiffieHellmanParameters()
        try setPreSharedKeys()
        try setHosts()
        try setTickets()
        try readStatus()
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
        if let groups = settings.groups, openssl_set_groups(pointer, groups) != 1 {
            let isHybrid = groups.uppercased().holds("MLKEM")
            throw TLSFiles.failure(
                "martlet_tls_groups", groups,
                "\(String(cString: OpenSSL_version(OPENSSL_VERSION))) does not know all of them"
                    + (isHybrid ? "; X25519MLKEM768 is there from OpenSSL 3.5 on" : ""))
        }
    }

    /// What a session belongs to: one that was agreed on under other authorities, or another list of revoked
    /// certificates, is not resumed, also where nodes share the keys of tickets.
    private func sessionContext() throws(TLSFailure) -> [UInt8] {
        guard !settings.ticketKeyFiles.isEmpty else { return Array("martlet".utf8) }
        var bytes = Array("martlet".utf8)
        for (option, path) in [("cafile", settings.authoritiesFile), ("crlfile", settings.revocationListFile)] {
            guard let path else { continue }
            bytes += try TLSFiles.bytes(of: path, option: option)
        }
        return HashFunction.sha256.digest(bytes)
    }

    private func setHosts() throws(TLSFailure) {
        guard !settings.namedCertificates.isEmpty || settings.refusesUnknownHosts else { return }
        hosts = try HostCertificates(settings.namedCertificates, own: SSL_CTX_get0_certificate(pointer))
        openssl_choose_by_server_name(pointer, chooseCertificate)
    }

    private func setTickets() throws(TLSFailure) {
        guard settings.givesTickets, !settings.ticketKeyFiles.isEmpty else { return }
        tickets = try TicketKeys(settings.ticketKeyFiles)
        openssl_prepare_tickets(pointer, prepareTicket)
    }

    private func readStatus() throws(TLSFailure) {
        guard let path = settings.statusFile else { return }
        let bytes = try TLSFiles.bytes(of: path, option: "martlet_ocsp_file")
        let certificate = SSL_CTX_get0_certificate(pointer)
        if let objection = certificate.flatMap({ StatusJudgement(bytes, of: $0).objection }) {
            throw TLSFailure(option: "martlet_ocsp_file", value: path, reason: objection)
        }
        status = bytes
        openssl_staple_answers(pointer, stapleStatus)
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

/// SNI: the certificate for the host that the client names; the listener's own if it names none.
private func chooseCertificate(
    _ connection: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection, let listener = context(of: connection) else { return SSL_TLSEXT_ERR_NOACK }
    guard let bytes = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name) else { return SSL_TLSEXT_ERR_NOACK }
    let host = String(cString: bytes)
    switch listener.hosts.certificate(for: host) {
    case .own?: return SSL_TLSEXT_ERR_OK
    case .other(let holder)?:
        if openssl_show_certificate_of(connection, holder.pointer) == 1 { return SSL_TLSEXT_ERR_OK }
        alert?.pointee = SSL_AD_INTERNAL_ERROR
        return SSL_TLSEXT_ERR_ALERT_FATAL
    case nil:
        guard listener.settings.refusesUnknownHosts else { return SSL_TLSEXT_ERR_NOACK }
        TLSFilter.of(connection)?.object("the client asks for the host \(LoggedName(host)), which no certificate here names")
        alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
}

/// The certificates that a listener has beside its own, by the hosts that they name.
private struct HostCertificates {
    enum Choice {
        /// The listener's.
        case own
        case other(CertificateHolder)
    }

    /// By host in lower case; `*.example.com` for all that have one label before the rest.
    private var choices: [String: Choice] = [:]

    init() {}

    /// - Parameter own: the listener's own certificate.
    init(_ files: [CertificateFiles], own: OpaquePointer?) throws(TLSFailure) {
        for one in files {
            let holder = try CertificateHolder(one)
            let names = holder.hosts
            guard !names.isEmpty else {
                throw TLSFailure(
                    option: "martlet_certificate", value: one.certificate,
                    reason: "it names no host (subjectAltName with DNS names)")
            }
            for name in names where choices[name] == nil { choices[name] = .other(holder) }
        }
        guard let own else { return }
        for name in CertificateHolder.hosts(of: own) where choices[name] == nil { choices[name] = .own }
    }

    /// The certificate for a host: one that names it, or else all of its neighbours; nil for none.
    func certificate(for host: String) -> Choice? {
        var name = host.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        if let choice = choices[name] { return choice }
        guard let dot = name.firstIndex(of: ".") else { return nil }
        return choices["*\(name[dot...])"]
    }
}

/// A certificate with its chain and key, in a context of its own.
private final class CertificateHolder {
    let pointer: OpaquePointer
    let hosts: [String]

    init(_ files: CertificateFiles) throws(TLSFailure) {
        guard let pointer = SSL_CTX_new(TLS_server_method()) else {
            throw TLSFailure(option: "martlet_certificate", value: "", reason: OpenSSLErrors.takeFirst(or: "OpenSSL has no memory"))
        }
        self.pointer = pointer
        do throws(TLSFailure) {
            try TLSFiles.useCertificate(files.certificate, key: files.key, in: pointer)
        } catch {
            SSL_CTX_free(pointer)
            throw TLSFailure(option: "martlet_certificate", value: error.value, reason: error.reason)
        }
        hosts = SSL_CTX_get0_certificate(pointer).map { Self.hosts(of: $0) } ?? []
    }

    deinit { SSL_CTX_free(pointer) }

    /// The hosts that a certificate names, in lower case: its DNS names, or else its common name.
    static func hosts(of certificate: OpaquePointer) -> [String] {
        let names = CertificateNames(of: certificate)
        return (names.dnsNames.isEmpty ? names.commonNames : names.dnsNames).map { $0.lowercased() }
    }
}

/// A name that a client has sent, for the log: short, and without what is no letter there.
private struct LoggedName: CustomStringConvertible {
    let description: String

    init(_ name: String) {
        description = String(name.unicodeScalars.prefix(80).map { $0.value > 0x20 && $0.value < 0x7f ? Character($0) : "?" })
    }
}

/// Keys of session tickets that several nodes have.
private struct TicketKeys {
    private struct Key {
        let name: [UInt8]
        let code: [UInt8]
        let cipher: [UInt8]
    }

    /// The first one makes tickets.
    private var keys: [Key] = []

    init() {}

    init(_ paths: [String]) throws(TLSFailure) {
        for path in paths {
            let bytes = try TLSFiles.bytes(of: path, option: "martlet_tls_ticket_key_file")
            guard bytes.count == Limits.ticketKeyBytes else {
                throw TLSFailure(
                    option: "martlet_tls_ticket_key_file", value: path,
                    reason: "it has \(bytes.count) bytes, and a key has \(Limits.ticketKeyBytes): openssl rand -out FILE "
                        + "\(Limits.ticketKeyBytes)")
            }
            keys.append(Key(name: Array(bytes[..<16]), code: Array(bytes[16..<48]), cipher: Array(bytes[48...])))
        }
    }

    /// Prepares a ticket that is made, or one that came. As OpenSSL wants to hear it: 1 for yes, 2 for yes, and let the
    /// client have a new one, 0 for a key that is not known, -1 for what has failed.
    func prepare(
        name: UnsafeMutablePointer<UInt8>, vector: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?, _ code: OpaquePointer?,
        isNew: Bool
    ) -> Int32 {
        let asked = UnsafeBufferPointer(start: name, count: 16)
        let index = isNew ? keys.indices.first : keys.firstIndex { $0.name.elementsEqual(asked) }
        guard let index else { return 0 }
        if isNew { for (place, byte) in keys[index].name.enumerated() { name[place] = byte } }
        let key = keys[index]
        guard openssl_prepare_ticket(key.cipher, key.code, vector, cipher, code, isNew ? 1 : 0) == 1 else { return -1 }
        return isNew || index == 0 ? 1 : 2
    }
}

private func prepareTicket(
    _ connection: OpaquePointer?, _ name: UnsafeMutablePointer<UInt8>?, _ vector: UnsafeMutablePointer<UInt8>?,
    _ cipher: OpaquePointer?, _ code: OpaquePointer?, _ isNew: Int32
) -> Int32 {
    guard let name, let vector, let listener = context(of: connection) else { return -1 }
    return listener.tickets.prepare(name: name, vector: vector, cipher, code, isNew: isNew == 1)
}

/// Gives the authority's answer to a client that asks for it, as long as it is worth something, and only with the
/// certificate that it is about.
private func stapleStatus(_ connection: OpaquePointer?, _ argument: UnsafeMutableRawPointer?) -> Int32 {
    guard let connection, let listener = context(of: connection), let status = listener.status,
        let certificate = SSL_get_certificate(connection), certificate == SSL_CTX_get0_certificate(listener.pointer),
        StatusJudgement(status, of: certificate) == .good,
        openssl_staple(connection, status, status.count) == 1
    else { return SSL_TLSEXT_ERR_NOACK }
    return SSL_TLSEXT_ERR_OK
}

/// What an authority's answer is worth for a certificate.
private enum StatusJudgement: Int32 {
    case good, noAnswer, unsuccessful, aboutOthers, expired, revoked

    init(_ bytes: [UInt8], of certificate: OpaquePointer) {
        self = StatusJudgement(rawValue: openssl_judge_answer(bytes, bytes.count, certificate)) ?? .noAnswer
    }

    /// Why it is not given to clients at all; nil for one that may be. One that is too old is left out as long as it is
    /// not renewed.
    var objection: String? {
        switch self {
        case .good, .expired: nil
        case .noAnswer: "it holds no OCSP answer (DER, as openssl ocsp -respout writes it)"
        case .unsuccessful: "the authority had no answer when it was asked"
        case .aboutOthers: "the answer is about another certificate than certfile's"
        case .revoked: "the answer says that the certificate was revoked, or is not known"
        }
    }

    /// What is to be said of it though it may be used.
    var remark: String? {
        self == .expired ? "the answer is too old, and is not given to clients; ask the authority for a new one" : nil
    }
}

extension Limits {
    /// Bytes of a key for session tickets: its name, and the keys of the code and of the cipher.
    static let ticketKeyBytes = 80

    /// Bytes of a file with an answer of an authority, or a list of certificates, that is read as a whole.
    static let tlsFileBytesMax = 16 << 20
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

/// Why a listener's or a client's TLS cannot be set up: the option, its file or value, and the reason.
public struct TLSFailure: Error, Sendable, Equatable {
    /// As the configuration names it, such as `certfile`.
    public let option: String
    public let value: String
    public let reason: String
}

extension TLSContext {
    /// Remarks on what is probably not meant in the files, though they can be used: certificates whose time is not now.
    public var remarks: [TLSFailure] {
        var remarks: [TLSFailure] = []
        if let path = settings.certificateFile, let certificate = SSL_CTX_get0_certificate(pointer),
            let reason = CertificateDates.complaint(about: certificate)
        {
            remarks.append(
                TLSFailure(option: "certfile", value: path, reason: "the certificate \(reason). Clients will refuse it; renew it"))
        }
        if let path = settings.statusFile, let status, let certificate = SSL_CTX_get0_certificate(pointer),
            let reason = StatusJudgement(status, of: certificate).remark
        {
            remarks.append(TLSFailure(option: "martlet_ocsp_file", value: path, reason: reason))
        }
        guard let path = settings.authoritiesFile, !settings.ignoresCertificateDates, let store = SSL_CTX_get_cert_store(pointer),
            let objects = X509_STORE_get0_objects(store)
        else { return remarks }
        for index in 0..<OPENSSL_sk_num(objects) {
            guard let object = OPENSSL_sk_value(objects, index), let authority = X509_OBJECT_get0_X509(OpaquePointer(object)),
                let reason = CertificateDates.complaint(about: authority)
            else { continue }
            let name = CertificateName.subject(X509_get_subject_name(authority)) ?? "without a name"
            remarks.append(
                TLSFailure(
                    option: "cafile", value: path,
                    reason: "the CA certificate \(name) \(reason). Clients with its certificates cannot log in; renew it")
            )
        }
        return remarks
    }
}

/// The time for which a certificate is good.
enum CertificateDates {
    /// Why a certificate is not good now, as a part of a sentence; nil when it is.
    static func complaint(about certificate: OpaquePointer) -> String? {
        if let end = X509_get0_notAfter(certificate), X509_cmp_current_time(end) < 0 { return "has expired on \(day(end))" }
        if let start = X509_get0_notBefore(certificate), X509_cmp_current_time(start) > 0 {
            return "is not valid before \(day(start))"
        }
        return nil
    }

    private static func day(_ time: UnsafePointer<ASN1_TIME>) -> String {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return "a day that it does not tell" }
        func digits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(digits(parts.tm_mon + 1))-\(digits(parts.tm_mday))"
    }
}

extension TLSFailure: CustomStringConvertible {
    /// `certfile /etc/martlet/cert.pem: No such file or directory`.
    public var description: String { value.isEmpty ? "\(option): \(reason)" : "\(option) \(value): \(reason)" }
}

/// The certificate that a listener shows.
public struct OwnCertificate: Sendable, Equatable {
    /// The certificate's subject, as RFC 2253 writes it; nil where it says nothing that can be read.
    public let subject: String?
    /// When it ends, in milliseconds since 1970; nil for a time that is none.
    public let notAfter: UInt64?

    /// What a context shows; nil for one that has no certificate, such as of pre-shared keys.
    init?(shownBy context: OpaquePointer) {
        guard let certificate = SSL_CTX_get0_certificate(context) else { return nil }
        subject = CertificateName.subject(X509_get_subject_name(certificate))
        var time = tm()
        guard let end = X509_get0_notAfter(certificate), ASN1_TIME_to_tm(end, &time) == 1 else {
            notAfter = nil
            return
        }
        notAfter = UInt64(clamping: timegm(&time)) * 1000
    }
}

/// The names in a certificate as user names.
enum CertificateName {
    /// The first common name; nil when there is none, or when it is not text that can be trusted to be read to its end.
    static func commonName(of name: OpaquePointer?) -> String? {
        guard let name else { return nil }
        let index = X509_NAME_get_index_by_NID(name, NID_commonName, -1)
        guard index >= 0, let data = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)) else { return nil }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&bytes, data)
        guard count > 0, let bytes else { return nil }
        defer { CRYPTO_free(bytes, #file, #line) }
        let text = UnsafeBufferPointer(start: bytes, count: Int(count))
        // A zero inside has been used to pass for another name.
        return text.contains(0) ? nil : String(validating: text, as: UTF8.self)
    }

    /// All of it, as RFC 2253 writes it: last part first.
    static func subject(_ name: OpaquePointer?) -> String? {
        guard let name, let memory = BIO_new(BIO_s_mem()) else { return nil }
        defer { BIO_free(memory) }
        guard openssl_print_name(memory, name) >= 0 else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        let count = openssl_memory(memory, &start)
        guard count > 0, let start else { return nil }
        return String(validating: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
}

/// A listener's TLS over its whole life: the context that new connections get, replaced when its files change.
///
/// `current` may be asked from any thread; the rest belongs to one, the control thread. Connections keep the context
/// that they began with.
public final class TLSServer: @unchecked Sendable {
    /// What a look at the files came to.
    public enum Refresh: Sendable {
        case unchanged
        /// New connections get what the files hold now.
        case renewed
        /// The files have changed and cannot be used; what was read before goes on. Told once per change.
        case failed(TLSFailure)
    }

    private let context: Locked<TLSContext>
    public private(set) var settings: TLSSettings
    /// The files as they were when they were last read, or tried.
    private var fingerprints: [FileFingerprint?]

    public init(_ settings: TLSSettings) throws(TLSFailure) {
        self.settings = settings
        // Before reading: a change while we read is found later.
        fingerprints = Self.fingerprints(of: settings)
        context = Locked(try TLSContext(settings))
    }

    public var current: TLSContext { context.value }

    /// Reads the files again if one of them is another than when they were last read.
    public func refreshIfChanged() -> Refresh {
        Self.fingerprints(of: settings) == fingerprints ? .unchanged : refresh()
    }

    /// Reads the files again, with other settings if they are given.
    public func refresh(_ newSettings: TLSSettings? = nil) -> Refresh {
        let wanted = newSettings ?? settings
        // Before reading, so that a change while we read is found later.
        let (ofOld, ofWanted) = (Self.fingerprints(of: settings), Self.fingerprints(of: wanted))
        do throws(TLSFailure) {
            context.replace(with: try TLSContext(wanted))
            settings = wanted
            fingerprints = ofWanted
            return .renewed
        } catch {
            // Told once: the next look finds nothing new, unless somebody mends the files.
            fingerprints = ofOld
            return .failed(error)
        }
    }

    private static func fingerprints(of settings: TLSSettings) -> [FileFingerprint?] {
        settings.watchedPaths.map { FileFingerprint(path: $0) }
    }
}

/// What tells a file from what stood at its path before, through symbolic links, as they are exchanged to publish a new
/// version.
public struct FileFingerprint: Equatable, Sendable {
    private let device: UInt64
    private let node: UInt64
    private let size: Int
    private let seconds: Int
    private let nanoseconds: Int

    /// nil when there is no file.
    public init?(path: String) {
        guard let status = SystemCall.status(of: path) else { return nil }
        device = UInt64(status.st_dev)
        node = UInt64(status.st_ino)
        size = Int(status.st_size)
        seconds = status.st_mtim.tv_sec
        nanoseconds = status.st_mtim.tv_nsec
    }
}

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
    /// The key of an identity, nil when nobody has it. Called on a loop's thread in the middle of a handshake: it may
    /// not wait.
    public var preSharedKey: (@Sendable (_ identity: String) -> [UInt8]?)?
    /// More certificates, each for the hosts that it names: shown to clients that ask for one of them.
    public var namedCertificates: [CertificateFiles] = []
    /// Whether a client that asks for a host that no certificate names is refused.
    public var refusesUnknownHosts = false
    /// Whether sessions can be resumed by tickets.
    public var givesTickets = true
    /// How long, in seconds; nil for as long as OpenSSL says.
    public var ticketSeconds: Int?
    /// Files with 80 random bytes each, which all nodes have: the first one's key makes tickets, and each reads them.
    /// Empty: keys of the context's own.
    public var ticketKeyFiles: [String] = []
    /// An answer of the authority (OCSP, DER) about the certificate, for clients that ask for one.
    public var statusFile: String?
    /// The groups of the key exchange in OpenSSL's notation, `X25519MLKEM768:X25519`; nil for OpenSSL's own.
    public var groups: String?
    /// The protocol that is chosen from a client's; none is demanded.
    public var applicationProtocol = "mqtt"
    /// Where the secrets of each connection are appended, for debugging: whoever reads it reads all traffic.
    public var keyLogFile: String?

    public init() {}

    /// Every file whose change makes a new context necessary.
    var watchedPaths: [String] {
        [
            certificateFile, keyFile, authoritiesFile, authoritiesDirectory, revocationListFile, diffieHellmanParametersFile,
            statusFile,
        ].compactMap { $0 } + namedCertificates.flatMap { [$0.certificate, $0.key] } + ticketKeyFiles
    }
}

/// A certificate with its chain, and its key, both PEM.
public struct CertificateFiles: Sendable, Equatable {
    public var certificate: String
    public var key: String

    public init(certificate: String, key: String) { (self.certificate, self.key) = (certificate, key) }
}
