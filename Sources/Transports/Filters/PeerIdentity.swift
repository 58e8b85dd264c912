/// What the layers of a connection know of its other end.
public struct PeerIdentity: Sendable, Equatable {
    /// The common name in its certificate, which was verified.
    public var certificateCommonName: String?
    /// The whole subject of its certificate, as RFC 2253 writes it.
    public var certificateSubject: String?
    /// The identity of the pre-shared key that it knows.
    public var preSharedKeyIdentity: String?
    /// Version and cipher of its TLS, such as `TLSv1.3 cipher TLS_AES_256_GCM_SHA384`.
    public var encryption: String?
    /// Its address, if a proxy in front has told it.
    public var forwardedAddress: PeerAddress?
    /// The path of its Unix socket, if a proxy in front has told one.
    public var forwardedPath: String?

    public init() {}
}
