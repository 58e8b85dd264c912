internal import Bytes

/// Takes the PROXY header off the beginning of a stream, and leaves it alone from then on.
///
///     reading ──► done            reading ──► refused
///
/// reading: less than a header has come; it is kept. The time limit is the one for CONNECT. The header is the proxy's word for the
/// client's address: such a listener must be reachable by the proxy only, or know its proxies (`ProxyProtocolSettings.trusts`).
final class ProxyFilter: StreamFilter {
    private let settings: ProxyProtocolSettings
    private var kept: [UInt8] = []
    private var header: ProxyHeader?

    init(_ settings: ProxyProtocolSettings) {
        self.settings = settings
    }

    var isOpen: Bool { header != nil }
    var isSpent: Bool { header != nil }

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        if header != nil {
            target.copyMemory(from: source)
            return Decoding(count: source.count)
        }
        let earlier = kept.count
        // A header ends in the bytes that came now; no more of them are looked at than the longest one has.
        kept.append(contentsOf: source.prefix(Limits.proxyHeaderBytesMax - min(earlier, Limits.proxyHeaderBytesMax)))
        switch settings.version == .v1 ? ProxyHeader.parseVersion1(kept) : ProxyHeader.parseVersion2(kept) {
        case .incomplete: return Decoding()
        case .malformed(let reason): return refused("Connection rejected, corrupt PROXY header. (\(reason))")
        case .complete(let header, let byteCount):
            if let reason = objection(to: header) { return refused(reason) }
            self.header = header
            kept = []
            let rest = UnsafeRawBufferPointer(rebasing: source[(byteCount - earlier)...])
            target.copyMemory(from: rest)
            return Decoding(count: rest.count)
        }
    }

    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) {
        for slice in slices { target.append(slice.base, count: slice.count) }
    }

    func finish(into target: ByteBlock) {}

    func describe(_ identity: inout PeerIdentity) {
        guard let header else { return }
        identity.forwardedAddress = header.source
        identity.forwardedPath = header.sourcePath
        identity.certificateCommonName = header.commonName
        if let version = header.tlsVersion, let cipher = header.cipher { identity.encryption = "\(version) cipher \(cipher)" }
    }

    private func objection(to header: ProxyHeader) -> String? {
        guard settings.version == .v2 else { return nil }
        let source = header.source.map { "from \($0) " } ?? ""
        if settings.requiresTLS, !header.hasTLS { return "Connection \(source)rejected, client did not connect using TLS." }
        if settings.requiresCertificate, !header.hasCertificate {
            return "Connection \(source)rejected, client did not provide a certificate."
        }
        return nil
    }

    private func refused(_ reason: String) -> Decoding {
        Decoding(end: .refused(FilterRefusal(.proxyProtocol, reason)))
    }
}
