public import HTTP

/// A proxy that asks for others in HTTP, and is believed when the request's fields say for whom: `Forwarded` (RFC 7239), `X-Forwarded-For` or
/// `X-Real-IP`.
///
/// A client may have sent such fields itself, and a proxy adds its word behind them, or to one of them. So the hosts of a list count from our
/// side, as far as they are proxies that are believed too, and where two fields contradict each other the request is refused.
public struct ForwardingProxy: Sendable {
    private let peer: PeerAddress
    private let trusted: [TrustedNetwork]

    /// The peer of a connection; nil of one that is not believed. Whoever comes through a Unix socket may do so by the rights of its file.
    ///
    /// - Parameters:
    ///   - peer: who has connected.
    ///   - trusted: whose word counts; where it is empty, nobody's does.
    public init?(_ peer: PeerAddress, trusted: [TrustedNetwork]) {
        guard !trusted.isEmpty, peer.family == .local || trusted.contains(where: { $0.contains(peer) }) else { return nil }
        self.peer = peer
        self.trusted = trusted
    }

    /// Whom a request is from, without a port: the nearest host that is not a proxy that is believed, or the farthest where all are; the peer
    /// itself where no field names one, or the client is hidden.
    public func client(of fields: HTTPFields) throws(HTTPRefusal) -> PeerAddress {
        let standard = try walk(fields.forwardedNodes, "Forwarded")
        let listed = try walk(fields.nodes(of: "X-Forwarded-For"), "X-Forwarded-For")
        let single = try self.single(fields.nodes(of: "X-Real-IP"))
        if let standard, let listed, standard.client != listed.client { throw Self.contradiction("Forwarded", "X-Forwarded-For") }
        guard let path = standard ?? listed else { return single ?? peer }
        // A proxy behind another one names that one here.
        if let single, !path.hosts.contains(single), path.client != single {
            throw Self.contradiction(standard == nil ? "X-Forwarded-For" : "Forwarded", "X-Real-IP")
        }
        return path.client
    }

    /// The hosts of a list that count, from our side, and the client among them.
    private struct Path {
        var client: PeerAddress
        var hosts: [PeerAddress] = []
    }

    private func walk(_ nodes: [ForwardedNode], _ field: String) throws(HTTPRefusal) -> Path? {
        guard !nodes.isEmpty else { return nil }
        var path = Path(client: peer)
        for node in nodes.reversed() {
            guard let host = try address(node, field) else { return path }
            path.hosts.append(host)
            path.client = host
            guard trusted.contains(where: { $0.contains(host) }) else { return path }
        }
        return path
    }

    private func single(_ nodes: [ForwardedNode]) throws(HTTPRefusal) -> PeerAddress? {
        guard let node = nodes.first else { return nil }
        guard nodes.count == 1 else { throw HTTPRefusal(.badRequest, "X-Real-IP names more than one address.") }
        return try address(node, "X-Real-IP")
    }

    /// nil of one that is hidden.
    private func address(_ node: ForwardedNode, _ field: String) throws(HTTPRefusal) -> PeerAddress? {
        switch node {
        case .hidden: return nil
        case .host(let text):
            guard let address = PeerAddress(host: text) else { fallthrough }
            return address.plain
        case .malformed:
            throw HTTPRefusal(.badRequest, "\(field) is not what a proxy says of its client: addresses, with commas between.")
        }
    }

    private static func contradiction(_ one: String, _ other: String) -> HTTPRefusal {
        HTTPRefusal(
            .badRequest,
            "\(one) and \(other) name different clients. The proxy has to set one of them, and to take away what clients send.")
    }
}
