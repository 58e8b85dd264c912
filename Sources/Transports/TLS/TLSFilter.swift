internal import Bytes
internal import COpenSSL
internal import Platform

/// One side of TLS.
///
/// ```
///   handshaking ──► open ──► ended
///        └─────────────────────▲
/// ```
/// Each call into OpenSSL works off all that came: a loop is held by a handshake's own computation and by nothing else.
/// A server's time limit for the handshake is the one for CONNECT.
final class TLSFilter: StreamFilter {
    private enum Side {
        case server(TLSContext)
        case client(TLSClientContext)
    }

    private let connection: OpaquePointer
    /// Keeps the context's callbacks alive for as long as the connection.
    private let side: Side
    private let wire: UnsafeMutablePointer<TLSWire>
    private(set) var isOpen = false
    /// Nothing more comes in.
    private var hasEnded = false
    /// Nothing more may go out: the farewell was said, or OpenSSL has given the connection up.
    private var isFinished = false
    /// What the peer has named in the handshake, whose key was found. Proved only when the handshake has ended with
    /// that key.
    private var claimedIdentity: String?
    /// Why a callback of ours ends the handshake, as a part of a sentence; nil for none.
    private var objection: String?
    /// What the peer began with: a TLS client with the record of a handshake.
    private var firstByte: UInt8?

    /// The server's side; nil when OpenSSL has no memory.
    convenience init?(_ context: TLSContext) {
        guard let connection = SSL_new(context.pointer) else { return nil }
        SSL_set_accept_state(connection)
        self.init(connection, .server(context))
    }

    /// The client's side; nil when OpenSSL has no memory.
    convenience init?(_ context: TLSClientContext) {
        guard let connection = context.makeConnection() else { return nil }
        SSL_set_connect_state(connection)
        self.init(connection, .client(context))
    }

    /// Takes over the connection, in case of failure too.
    private init?(_ connection: OpaquePointer, _ side: Side) {
        guard let method = TLSWire.method, let bio = BIO_new(method) else {
            SSL_free(connection)
            return nil
        }
        self.connection = connection
        self.side = side
        wire = .allocate(capacity: 1)
        wire.initialize(to: TLSWire())
        BIO_set_data(bio, wire)
        // One BIO for both directions, which the connection owns.
        SSL_set_bio(connection, bio, bio)
        openssl_set_connection_data(connection, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit {
        // Without a farewell OpenSSL would not resume the session that a client has remembered. A cut that matters MQTT
        // finds by itself.
        if case .client = side { SSL_set_shutdown(connection, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
        SSL_free(connection)
        wire.deinitialize(count: 1)
        wire.deallocate()
    }

    /// The filter of a connection that OpenSSL calls us about.
    static func of(_ connection: OpaquePointer) -> TLSFilter? {
        openssl_connection_data(connection).map { Unmanaged<TLSFilter>.fromOpaque($0).takeUnretainedValue() }
    }

    func recordPreSharedKeyIdentity(_ identity: String) {
        claimedIdentity = identity
    }

    /// A callback ends the handshake for this reason.
    func object(_ reason: String) { objection = reason }

    // MARK: Incoming

    func begin(into target: ByteBlock) {
        guard case .client = side else { return }
        withWire(UnsafeRawBufferPointer(start: nil, count: 0), target) { _ = SSL_do_handshake(connection) }
    }

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        guard !hasEnded else { return Decoding() }
        return withWire(source, reply) {
            var decoding = Decoding()
            if !isOpen {
                if firstByte == nil { firstByte = source.first }
                let result = SSL_do_handshake(connection)
                guard result == 1 else {
                    decoding.end = end(after: result)
                    return decoding
                }
                if let words = namesObjection {
                    (hasEnded, isFinished) = (true, true)
                    decoding.end = .refused(FilterRefusal(.tls, words, isOfLogin: true))
                    return decoding
                }
                isOpen = true
                if case .client(let context) = side { context.opened(with: encryption) }
            }
            while true {
                var count = 0
                let room = target.count - decoding.count
                precondition(room > 0, "a target holds what the source gives and one record more")
                let result = SSL_read_ex(connection, target.baseAddress.map { $0 + decoding.count }, room, &count)
                guard result == 1 else {
                    decoding.end = end(after: result)
                    return decoding
                }
                decoding.count += count
            }
        }
    }

    /// What a call that gave nothing means; nil: more has to come first.
    private func end(after result: Int32) -> StreamEnd? {
        let code = SSL_get_error(connection, result)
        switch code {
        case SSL_ERROR_WANT_READ: return nil
        case SSL_ERROR_ZERO_RETURN:
            hasEnded = true
            return .orderly
        default:
            hasEnded = true
            isFinished = true
            return .refused(refusal(code))
        }
    }

    private func refusal(_ code: Int32) -> FilterRefusal {
        let verification = SSL_get_verify_result(connection)
        let words = OpenSSLErrors.takeFirst(or: "the connection broke with code \(code)")
        if let plain = plainWords { return FilterRefusal(.tls, plain) }
        if let objection { return FilterRefusal(.tls, objection) }
        guard !isOpen, verification != X509_V_OK, let detail = X509_verify_cert_error_string(Int(verification)) else {
            let isOfLogin = !isOpen && ["certificate", "psk"].contains { words.holds($0) } && !words.holds("alert")
            return FilterRefusal(.tls, words, isOfLogin: isOfLogin)
        }
        return FilterRefusal(.tls, "\(words): \(String(cString: detail))", isOfLogin: true)
    }

    /// What to say of a client that has not begun a handshake: OpenSSL has its own words for each of its guesses. nil
    /// for one that has.
    private var plainWords: String? {
        guard !isOpen, case .server = side, let firstByte, firstByte != 0x16 else { return nil }
        switch firstByte {
        case 0x10:
            return
                "the client speaks plain MQTT, and this port TLS: let it connect with TLS (mosquitto_sub --cafile FILE), or to a listener "
                + "without certfile"
        case UInt8(ascii: "G"), UInt8(ascii: "H"), UInt8(ascii: "O"):
            return "the client speaks plain HTTP, and this port TLS: let it use https or wss"
        case UInt8(ascii: "P"):
            return
                "the client speaks plain HTTP, or a proxy its PROXY protocol, and this port TLS: let it use https or wss, or write "
                + "enable_proxy_protocol for a proxy"
        default: return "the client does not speak TLS, and this port does"
        }
    }

    // MARK: Outgoing

    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) throws(FilterRefusal) {
        var isWritten = true
        withWire(UnsafeRawBufferPointer(start: nil, count: 0), target) {
            isWritten = RecordGathering.forEachRecord(of: slices) { record in
                var written = 0
                return SSL_write_ex(connection, record.baseAddress, record.count, &written) == 1 && written == record.count
            }
        }
        guard isWritten else {
            hasEnded = true
            isFinished = true
            throw FilterRefusal(.tls, OpenSSLErrors.takeFirst(or: "a record cannot be made"))
        }
    }

    func finish(into target: ByteBlock) {
        guard isOpen, !isFinished else { return }
        isFinished = true
        withWire(UnsafeRawBufferPointer(start: nil, count: 0), target) { _ = SSL_shutdown(connection) }
    }

    /// Lends the bytes of this call to the connection.
    private func withWire<Result>(_ input: UnsafeRawBufferPointer, _ output: ByteBlock, _ body: () -> Result) -> Result {
        OpenSSLErrors.clear()
        wire.pointee = TLSWire(input: input, output: Unmanaged.passUnretained(output))
        defer { wire.pointee = TLSWire() }
        return body()
    }

    // MARK: Who it is

    func describe(_ identity: inout PeerIdentity) {
        identity.encryption = encryption
        identity.preSharedKeyIdentity = provedIdentity
        verifiedCertificate.map { identity.take($0) }
    }

    /// The peer's, as far as it can be believed: only a certificate that was demanded has been verified.
    private var verifiedCertificate: OpaquePointer? {
        guard case .server(let context) = side, context.settings.requiresCertificate else { return nil }
        return SSL_get0_peer_certificate(connection)
    }

    /// Why the names of a client's certificate cannot be believed, as a part of a sentence; nil where they can.
    private var namesObjection: String? {
        guard let certificate = verifiedCertificate, let objection = CertificateNames(of: certificate).objection else { return nil }
        return "the client's certificate cannot be believed: \(objection)"
    }

    /// The identity whose key this connection is made of. In TLS 1.2 OpenSSL keeps the one that was used; in 1.3 a
    /// pre-shared key is a session that goes on, and there are no others on such a listener.
    private var provedIdentity: String? {
        guard isOpen else { return nil }
        if let used = SSL_get_psk_identity(connection) { return String(validatingCString: used) }
        return SSL_session_reused(connection) == 1 ? claimedIdentity : nil
    }

    /// Version and cipher.
    private var encryption: String? {
        guard let version = SSL_get_version(connection), let cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(connection)) else {
            return nil
        }
        return "\(String(cString: version)) cipher \(String(cString: cipher))"
    }
}

/// Makes runs of bytes as long as TLS records, so that a flush of many small messages costs one record and not one for
/// each.
enum RecordGathering {
    /// Calls `body` with each record in turn, until it answers false; returns whether it never did.
    ///
    /// A run that fills records by itself is passed on as it lies; smaller ones are copied together, up to 16 KiB.
    static func forEachRecord(
        of slices: UnsafeBufferPointer<ByteSlice>, _ body: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        if slices.count == 1 { return forEachPart(of: slices[0], body) }
        var total = 0
        for slice in slices { total &+= slice.count }
        return withUnsafeTemporaryAllocation(byteCount: min(total, Limits.tlsRecordBytesMax), alignment: 64) { stage in
            guard let base = stage.baseAddress else { return true }
            var filled = 0
            for var slice in slices {
                while slice.count > 0 {
                    let taken = min(slice.count, stage.count &- filled)
                    (base + filled).copyMemory(from: slice.base, byteCount: taken)
                    filled &+= taken
                    slice.base += taken
                    slice.count &-= taken
                    guard filled == stage.count else { continue }
                    guard body(UnsafeRawBufferPointer(stage)) else { return false }
                    filled = 0
                }
            }
            return filled == 0 || body(UnsafeRawBufferPointer(rebasing: stage[..<filled]))
        }
    }

    private static func forEachPart(of slice: ByteSlice, _ body: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        var offset = 0
        while offset < slice.count {
            let count = min(slice.count - offset, Limits.tlsRecordBytesMax)
            guard body(UnsafeRawBufferPointer(start: slice.base + offset, count: count)) else { return false }
            offset += count
        }
        return true
    }
}

/// What lies under a TLS connection instead of a socket: the bytes of one read, and the block that takes what is to be
/// sent.
///
/// OpenSSL's own memory BIO copies each byte once more in each direction and keeps its memory. Here records are read
/// straight from the loop's scratch and written straight into its output, so neither direction ever waits: a read that
/// finds nothing says "again", and a write always succeeds. Set for the time of one call into OpenSSL.
struct TLSWire {
    var input = UnsafeRawBufferPointer(start: nil, count: 0)
    var output: Unmanaged<ByteBlock>?

    /// The kind of BIO that reads and writes a wire; its data is a pointer to one.
    nonisolated(unsafe) static let method: OpaquePointer? = {
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "martlet") else { return nil }
        BIO_meth_set_write(method, writeToWire)
        BIO_meth_set_read(method, readFromWire)
        BIO_meth_set_ctrl(method, controlWire)
        BIO_meth_set_create(method) { bio in
            BIO_set_init(bio, 1)
            return 1
        }
        return method
    }()
}

private func wire(of bio: OpaquePointer?) -> UnsafeMutablePointer<TLSWire>? {
    BIO_get_data(bio)?.assumingMemoryBound(to: TLSWire.self)
}

private func writeToWire(_ bio: OpaquePointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, count > 0, let output = wire(of: bio)?.pointee.output else { return -1 }
    output._withUnsafeGuaranteedRef { $0.append(UnsafeRawPointer(bytes), count: Int(count)) }
    return count
}

private func readFromWire(_ bio: OpaquePointer?, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, let wire = wire(of: bio) else { return -1 }
    openssl_clear_retry(bio)
    let taken = min(Int(count), wire.pointee.input.count)
    guard taken > 0, let source = wire.pointee.input.baseAddress else {
        openssl_retry_read(bio)
        return -1
    }
    UnsafeMutableRawPointer(bytes).copyMemory(from: source, byteCount: taken)
    wire.pointee.input = UnsafeRawBufferPointer(rebasing: wire.pointee.input[taken...])
    return Int32(taken)
}

/// A flush succeeds; everything else is not known here.
private func controlWire(_ bio: OpaquePointer?, _ command: Int32, _ number: Int, _ data: UnsafeMutableRawPointer?) -> Int {
    command == BIO_CTRL_FLUSH ? 1 : 0
}

extension Limits {
    /// Bytes that a TLS record holds at most.
    static let tlsRecordBytesMax = 16 << 10
}
