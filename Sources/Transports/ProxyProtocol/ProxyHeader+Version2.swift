extension ProxyHeader {
    /// Reads a header of version 2.
    ///
    /// ```
    ///   0            12        13        14       16
    ///   | signature | 2|command | family | length | addresses | type, length, value … |
    /// ```
    static func parseVersion2(_ bytes: some Collection<UInt8>) -> Parsing {
        let head = Array(bytes.prefix(headBytes + Limits.proxyVersion2BytesMax))
        guard head.starts(with: signature.prefix(head.count)) else { return .malformed("it does not begin with the signature") }
        guard head.count >= headBytes else { return .incomplete }
        guard head[12] >> 4 == 2 else { return .malformed("its version is \(head[12] >> 4), not 2") }
        let length = Int(head[14]) << 8 | Int(head[15])
        guard length <= Limits.proxyVersion2BytesMax else {
            return .malformed("it is longer than \(Limits.proxyVersion2BytesMax) bytes")
        }
        guard head.count >= headBytes + length else { return .incomplete }
        let whole = head[..<(headBytes + length)]
        do throws(FilterRefusal) {
            let header = try header(command: head[12] & 0xF, family: head[13], whole: whole)
            return .complete(header, byteCount: whole.count)
        } catch {
            return .malformed(error.reason)
        }
    }

    private static func header(
        command: UInt8, family: UInt8, whole: ArraySlice<UInt8>
    ) throws(FilterRefusal) -> ProxyHeader {
        var header = ProxyHeader()
        let body = whole[headBytes...]
        // LOCAL: the proxy itself, which checks whether we live. Addresses and all else are to be passed over.
        if command == 0 { return header }
        guard command == 1 else { throw malformed("its command is \(command)") }
        guard let addressBytes = addressBytes(of: family), body.count >= addressBytes else {
            throw malformed("its addresses do not fit its family \(family)")
        }
        switch family {
        case 0x11: header.source = PeerAddress(ipv4: body.prefix(4), port: body.dropFirst(8))
        case 0x21: header.source = PeerAddress(ipv6: body.prefix(16), port: body.dropFirst(32))
        case 0x31:
            header.source = .local
            let path = String(decoding: body.prefix(108).prefix { $0 != 0 }, as: UTF8.self)
            header.sourcePath = path.isEmpty ? nil : path
        default: header.source = nil
        }
        try header.takeValues(body.dropFirst(addressBytes), whole: whole)
        return header
    }

    /// Family in the upper half, SOCK_STREAM in the lower. Nothing for an unspecified one.
    private static func addressBytes(of family: UInt8) -> Int? {
        switch family {
        case 0x00: 0
        case 0x11: 12
        case 0x21: 36
        case 0x31: 216
        default: nil
        }
    }

    private mutating func takeValues(_ bytes: ArraySlice<UInt8>, whole: ArraySlice<UInt8>) throws(FilterRefusal) {
        var rest = bytes
        while let (type, value) = try Self.nextValue(&rest) {
            switch type {
            case 0x03: try Self.check(checksum: value, of: whole)
            case 0x20: try takeTLS(value)
            default: continue
            }
        }
    }

    private mutating func takeTLS(_ bytes: ArraySlice<UInt8>) throws(FilterRefusal) {
        guard bytes.count >= 5, let client = bytes.first else { throw Self.malformed("what it says of TLS is cut short") }
        hasTLS = client & 0x01 != 0
        let isVerified = bytes.dropFirst().prefix(4).allSatisfy { $0 == 0 }
        hasCertificate = hasTLS && client & 0x06 != 0 && isVerified
        var rest = bytes.dropFirst(5)
        while let (type, value) = try Self.nextValue(&rest) {
            switch type {
            case 0x21: tlsVersion = String(validating: value, as: UTF8.self)
            // A name that nobody has verified is no identity.
            case 0x22 where hasCertificate: commonName = String(validating: value, as: UTF8.self)
            case 0x23: cipher = String(validating: value, as: UTF8.self)
            default: continue
            }
        }
    }

    private static func nextValue(_ rest: inout ArraySlice<UInt8>) throws(FilterRefusal) -> (UInt8, ArraySlice<UInt8>)? {
        guard let type = rest.first else { return nil }
        guard rest.count >= 3 else { throw malformed("a value is cut short") }
        let length = Int(rest[rest.startIndex + 1]) << 8 | Int(rest[rest.startIndex + 2])
        rest = rest.dropFirst(3)
        guard rest.count >= length else { throw malformed("a value is longer than the header") }
        let value = rest.prefix(length)
        rest = rest.dropFirst(length)
        return (type, value)
    }

    /// The checksum is made of the whole header with zeros in its own place.
    private static func check(checksum: ArraySlice<UInt8>, of whole: ArraySlice<UInt8>) throws(FilterRefusal) {
        guard checksum.count == 4 else { throw malformed("its checksum has \(checksum.count) bytes, not 4") }
        var zeroed = Array(whole)
        for index in checksum.indices { zeroed[index] = 0 }
        let expected = checksum.reduce(0) { $0 << 8 | UInt32($1) }
        guard CyclicRedundancyCheck.castagnoli(zeroed) == expected else { throw malformed("its checksum is wrong") }
    }

    private static func malformed(_ reason: String) -> FilterRefusal { FilterRefusal(.proxyProtocol, reason) }

    private static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    private static let headBytes = 16
}

/// The checksum that the PROXY protocol names CRC32c, bit by bit: a header has few bytes, and a connection one header.
enum CyclicRedundancyCheck {
    /// Castagnoli's polynomial, reflected, as RFC 3720 has it.
    static func castagnoli(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var remainder: UInt32 = .max
        for byte in bytes {
            remainder ^= UInt32(byte)
            for _ in 0..<8 { remainder = remainder & 1 == 0 ? remainder >> 1 : remainder >> 1 ^ 0x82F6_3B78 }
        }
        return ~remainder
    }
}
