/// The addresses that share their first bits: one address, or a network such as `192.0.2.0/24` (RFC 4632, RFC 4291).
///
/// An IPv4 address and the same one mapped into IPv6 are equal. The path of a Unix socket is no address of any network.
public struct AddressRange: Sendable, Hashable {
    /// 16, an IPv4 address mapped.
    private let bytes: [UInt8]
    /// How many of their bits matter, of 128.
    package let bits: Int

    private init(bytes: [UInt8], bits: Int) { (self.bytes, self.bits) = (bytes, bits) }

    /// Reads `ADDRESS` or `ADDRESS/BITS`; nil for anything else, and for bits beyond the address's.
    public init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let head = parts.first, let bytes = Self.bytes(of: head) else { return nil }
        let isVersion4 = !head.contains(UInt8(ascii: ":"))
        let width = isVersion4 ? 32 : 128
        var bits = width
        if parts.count == 2 {
            guard let asked = Int(String(decoding: parts[1], as: UTF8.self)), (0...width).contains(asked),
                parts[1].allSatisfy({ (48...57).contains($0) })
            else { return nil }
            bits = asked
        }
        self.bytes = bytes
        self.bits = isVersion4 ? bits + 96 : bits
    }

    /// Whether it is one address alone.
    package var isAddress: Bool { bits == 128 }

    /// Whether it is IPv4, mapped or not, with no bit given: all of it.
    package var isAllOfVersion4: Bool { bits == 96 && isVersion4 }

    private var isVersion4: Bool { bits >= 96 && bytes.starts(with: Self.version4Prefix) }

    /// The network of its first bits, the others 0.
    package func prefix(_ bits: Int) -> AddressRange {
        var bytes = bytes
        for place in bytes.indices {
            let kept = min(8, max(0, bits - place * 8))
            bytes[place] &= ~UInt8(truncatingIfNeeded: 0xff >> kept)
        }
        return AddressRange(bytes: bytes, bits: min(bits, self.bits))
    }

    /// The network that a connection from an address is counted by: IPv4 by the address, IPv6 by its first 64 bits, of
    /// which one party has all others.
    public static func ofParty(_ address: String) -> String? {
        guard let range = AddressRange(address), range.isAddress else { return nil }
        return range.isVersion4 ? range.description : range.prefix(64).description
    }

    /// Whether it holds an address, given as text.
    public func contains(_ address: String) -> Bool {
        Self.bytes(of: Substring(address).utf8).map { contains(AddressRange(bytes: $0, bits: 128)) } ?? false
    }

    /// Whether it holds all of another one.
    package func contains(_ other: AddressRange) -> Bool {
        guard bits <= other.bits else { return false }
        let whole = bits / 8
        for place in 0..<whole where bytes[place] != other.bytes[place] { return false }
        let rest = bits % 8
        return rest == 0 || (bytes[whole] ^ other.bytes[whole]) >> UInt8(8 - rest) == 0
    }

    /// The 16 bytes of an address, IPv4 mapped; a zone behind `%` is left out.
    private static func bytes(of text: Substring.UTF8View) -> [UInt8]? {
        let text = text.prefix { $0 != UInt8(ascii: "%") }
        guard text.contains(UInt8(ascii: ":")) else {
            return version4(text).map { version4Prefix + $0 }
        }
        return version6(text)
    }

    private static let version4Prefix: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]

    private static func version4(_ text: Substring.UTF8View) -> [UInt8]? {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var bytes: [UInt8] = []
        for part in parts {
            guard (1...3).contains(part.count), part.allSatisfy({ (48...57).contains($0) }),
                let byte = UInt8(String(decoding: part, as: UTF8.self))
            else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    /// RFC 4291, section 2.2.
    private static func version6(_ text: Substring.UTF8View) -> [UInt8]? {
        let groups = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard (3...9).contains(groups.count) else { return nil }
        var (front, back): ([UInt8], [UInt8]) = ([], [])
        var isGapSeen = false
        for (place, group) in groups.enumerated() {
            let bytes: [UInt8]
            if group.isEmpty {
                // `::` is an empty group; at an end it is two.
                if place == 0 || place == groups.count - 1 {
                    guard groups[place == 0 ? 1 : place - 1].isEmpty else { return nil }
                    continue
                }
                guard !isGapSeen else { return nil }
                isGapSeen = true
                continue
            } else if place == groups.count - 1, group.contains(UInt8(ascii: ".")) {
                guard let version4 = version4(group) else { return nil }
                bytes = version4
            } else {
                guard group.count <= 4, let value = UInt16(String(decoding: group, as: UTF8.self), radix: 16), group.first != 43
                else { return nil }
                bytes = [UInt8(value >> 8), UInt8(truncatingIfNeeded: value)]
            }
            if isGapSeen { back += bytes } else { front += bytes }
        }
        let missing = 16 - front.count - back.count
        guard isGapSeen ? missing >= 2 : missing == 0 else { return nil }
        return front + Array(repeating: 0, count: missing) + back
    }
}

extension AddressRange: CustomStringConvertible {
    /// As RFC 5952 writes it; of a network with its bits, as `networkText`.
    public var description: String { isAddress ? address : networkText }

    /// With its bits, also those of one address: `192.0.2.7/32`.
    package var networkText: String { "\(address)/\(isVersion4 ? bits - 96 : bits)" }

    private var address: String {
        if isVersion4 { return bytes[12...].map { String($0) }.joined(separator: ".") }
        let groups = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        // The longest run of zeros is left out, the first one of two alike; one zero alone is not.
        var gap = 0..<0
        var start = 0
        while start < 8 {
            let end = groups[start...].firstIndex { $0 != 0 } ?? 8
            if end - start > max(1, gap.count) { gap = start..<end }
            start = end + 1
        }
        func text(_ part: Range<Int>) -> String { groups[part].map { String($0, radix: 16) }.joined(separator: ":") }
        return gap.isEmpty ? text(0..<8) : "\(text(0..<gap.lowerBound))::\(text(gap.upperBound..<8))"
    }
}
