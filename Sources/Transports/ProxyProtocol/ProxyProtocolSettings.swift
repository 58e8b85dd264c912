/// How a listener reads the PROXY header that each of its connections begins with.
public struct ProxyProtocolSettings: Sendable, Equatable {
    public enum Version: Sendable {
        /// A line of text.
        case v1
        /// Binary, with what the proxy knows of the client's TLS.
        case v2
    }

    public var version: Version
    /// The header has to say that the client came with TLS. Version 2 only.
    public var requiresTLS: Bool
    /// The header has to say that the client showed a certificate that was verified. Version 2 only.
    public var requiresCertificate: Bool
    /// The networks whose headers are believed. Empty: anybody's.
    public var trusted: [TrustedNetwork]

    public init(
        version: Version, requiresTLS: Bool = false, requiresCertificate: Bool = false, trusted: [TrustedNetwork] = []
    ) {
        self.trusted = trusted
        self.version = version
        self.requiresTLS = requiresTLS
        self.requiresCertificate = requiresCertificate
    }

    /// Whether a peer's header is believed. Whoever comes through a Unix socket may do so by the rights of its file.
    public func trusts(_ peer: PeerAddress) -> Bool {
        trusted.isEmpty || peer.family == .local || trusted.contains { $0.contains(peer) }
    }
}
