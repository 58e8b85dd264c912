extension ProxyHeader {
    /// Reads a header of version 1: `PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883\r\n`, at most 107 bytes.
    static func parseVersion1(_ bytes: some Collection<UInt8>) -> Parsing {
        let head = Array(bytes.prefix(Limits.proxyVersion1BytesMax))
        let start = Array("PROXY ".utf8)
        guard head.starts(with: start.prefix(head.count)) else { return .malformed("it does not begin with \"PROXY \"") }
        guard let lineFeed = head.firstIndex(of: UInt8(ascii: "\n")) else {
            return head.count < Limits.proxyVersion1BytesMax
                ? .incomplete : .malformed("its line is longer than \(Limits.proxyVersion1BytesMax) bytes")
        }
        guard lineFeed > start.count, head[lineFeed - 1] == UInt8(ascii: "\r") else {
            return .malformed("its line does not end in CR LF")
        }
        let words = head[start.count..<lineFeed - 1].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        let count = lineFeed + 1
        // What follows UNKNOWN is to be passed over.
        if words[0] == "UNKNOWN" { return .complete(ProxyHeader(), byteCount: count) }
        guard words.count == 5 else { return .malformed("it has \(words.count) fields, not 5") }
        guard let source = address(family: words[0], host: words[1], port: words[3]),
            address(family: words[0], host: words[2], port: words[4]) != nil
        else { return .malformed("it has no valid addresses") }
        return .complete(ProxyHeader(source: source), byteCount: count)
    }

    private static func address(family: String, host: String, port: String) -> PeerAddress? {
        guard let number = UInt16(port), String(number) == port else { return nil }
        switch family {
        case "TCP4": return PeerAddress(ipv4: host, port: number)
        case "TCP6": return PeerAddress(ipv6: host, port: number)
        default: return nil
        }
    }
}
