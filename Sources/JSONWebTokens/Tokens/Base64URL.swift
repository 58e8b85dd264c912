internal import Bytes

/// RFC 4648's Base64 for URLs, as JWS has it: strict, without padding.
enum Base64URL {
    static func encode(_ bytes: some Collection<UInt8>) -> String {
        let text = Base64.encode(bytes, padding: .none).utf8.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes, or nil when the text is not what `encode` makes.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var characters: [UInt8] = []
        characters.reserveCapacity(text.count)
        for byte in text {
            switch byte {
            case UInt8(ascii: "-"): characters.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): characters.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            case 0x80...: return nil
            default: characters.append(byte)
            }
        }
        return Base64.decode(String(decoding: characters, as: UTF8.self), padding: .none)
    }
}

/// Texts of strangers in words that go into the log.
enum Shown {
    /// The text, cut, with nothing in it that could change a terminal or begin another line.
    static func text(_ text: String) -> String {
        var shown = String(String.UnicodeScalarView(text.unicodeScalars.prefix(Limits.shownTextMax).map(plain)))
        if text.unicodeScalars.count > Limits.shownTextMax { shown += "..." }
        return shown
    }

    private static func plain(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned: "?"
        default: scalar
        }
    }
}
