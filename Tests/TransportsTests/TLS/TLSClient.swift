import COpenSSL

@testable import Transports

/// The other side of TLS, over OpenSSL's own memory, to feed a filter by hand.
final class TLSClient {
    private let context: OpaquePointer
    private let connection: OpaquePointer
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private(set) var received: [UInt8] = []

    init?(authority: String, certificate: String? = nil, key: String? = nil) {
        guard let context = SSL_CTX_new(TLS_client_method()),
            let connection = Self.connection(context, authority, certificate, key),
            let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
        else { return nil }
        SSL_set_bio(connection, incoming, outgoing)
        SSL_set_connect_state(connection)
        self.context = context
        self.connection = connection
        self.incoming = incoming
        self.outgoing = outgoing
    }

    deinit {
        SSL_free(connection)
        SSL_CTX_free(context)
    }

    private static func connection(
        _ context: OpaquePointer, _ authority: String, _ certificate: String?, _ key: String?
    ) -> OpaquePointer? {
        SSL_CTX_load_verify_file(context, authority)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        if let certificate { SSL_CTX_use_certificate_chain_file(context, certificate) }
        if let key { SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) }
        return SSL_new(context)
    }

    var isOpen: Bool { SSL_is_init_finished(connection) == 1 }

    /// Takes what the server sent, and returns what there is to send to it.
    func exchange(_ bytes: [UInt8]) -> [UInt8] {
        if !bytes.isEmpty { BIO_write(incoming, bytes, Int32(bytes.count)) }
        if !isOpen { SSL_do_handshake(connection) }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var count = 0
        while SSL_read_ex(connection, &buffer, buffer.count, &count) == 1 { received += buffer[..<count] }
        return output()
    }

    func send(_ bytes: [UInt8]) -> [UInt8] {
        var written = 0
        SSL_write_ex(connection, bytes, bytes.count, &written)
        return output()
    }

    func close() -> [UInt8] {
        SSL_shutdown(connection)
        return output()
    }

    private func output() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(BIO_ctrl_pending(outgoing)))
        if !bytes.isEmpty { BIO_read(outgoing, &bytes, Int32(bytes.count)) }
        return bytes
    }
}
