/// RFC 4648's Base64, strict: nothing but the alphabet, no line breaks, no bits that are lost.
package enum Base64 {
    package enum Padding {
        /// `=` up to a multiple of four characters, as the RFC has it.
        case required
        /// None, as Argon2's encoded hashes have it.
        case none
    }

    package static func encode(_ bytes: some Collection<UInt8>, padding: Padding = .required) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var pending: UInt32 = 0
        var bits = 0
        for byte in bytes {
            pending = pending << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(pending >> UInt32(bits) & 63)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(pending << UInt32(6 - bits) & 63)]) }
        if case .required = padding {
            while !text.count.isMultiple(of: 4) { text.append(equals) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes, or nil when the text is not what `encode` makes.
    package static func decode(_ text: some StringProtocol, padding: Padding = .required) -> [UInt8]? {
        var characters = Array(text.utf8)
        if case .required = padding {
            guard characters.count.isMultiple(of: 4) else { return nil }
            for _ in 0..<2 where characters.last == equals { characters.removeLast() }
        }
        guard characters.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(characters.count * 3 / 4)
        var pending: UInt32 = 0
        var bits = 0
        for character in characters {
            guard let value = value(of: character) else { return nil }
            pending = pending << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: pending >> UInt32(bits)))
            }
        }
        return pending & (1 << UInt32(bits) - 1) == 0 ? bytes : nil
    }

    package static func isDigit(_ byte: UInt8) -> Bool { value(of: byte) != nil }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let equals = UInt8(ascii: "=")
}
