/// What a proxy says of the client that it speaks for.
struct ProxyHeader: Equatable {
    /// The client's address; nil when the proxy speaks for itself, as health checks do, or does not know it.
    var source: PeerAddress?
    /// The path of a Unix socket that the client has, if it came to the proxy by one and the socket has a name.
    var sourcePath: String?
    /// Whether the client came to the proxy with TLS.
    var hasTLS = false
    /// Whether the client showed the proxy a certificate, in this connection or the session that it resumed, and it was verified.
    var hasCertificate = false
    /// The common name in that certificate.
    var commonName: String?
    var tlsVersion: String?
    var cipher: String?

    /// What became of bytes that may be a header.
    enum Parsing: Equatable {
        /// They are the beginning of one.
        case incomplete
        /// They begin with this one, of that many bytes.
        case complete(ProxyHeader, byteCount: Int)
        case malformed(String)
    }
}
