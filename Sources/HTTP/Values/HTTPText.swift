/// The bytes of HTTP's grammar: which of them may stand where, RFC 9110, section 5.6, and RFC 3986.
enum HTTPText {
    /// A byte of a token: a method, or the name of a field.
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"), UInt8(ascii: "'"),
            UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^"), UInt8(ascii: "_"),
            UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// A byte of a field's value: visible, blank, or above ASCII.
    static func isFieldByte(_ byte: UInt8) -> Bool { byte == 0x09 || (byte >= 0x20 && byte != 0x7F) }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    /// The value of a hexadecimal digit, nil when it is none.
    static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// Whether two words are the same but for the case of ASCII letters.
    static func isSame(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        left.utf8.elementsEqual(right.utf8) { lowercased($0) == lowercased($1) }
    }

    static func trimmed<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        let front = bytes.drop(while: isBlank)
        guard let last = front.lastIndex(where: { !isBlank($0) }) else { return front[front.endIndex...] }
        return front[...last]
    }

    static func trimmed(_ text: some StringProtocol) -> String { String(decoding: Array(trimmed(Array(text.utf8))), as: UTF8.self) }

    /// The members of a list, parted by commas outside quoted text; empty ones left out.
    static func members(of list: String) -> [String] { parts(of: list, at: UInt8(ascii: ",")).filter { !$0.isEmpty } }

    /// The parts of a text between separators outside quoted text, without blanks around them.
    static func parts(of text: String, at separator: UInt8) -> [String] {
        var parts: [String] = []
        var part: [UInt8] = []
        var isQuoted = false
        var isEscaped = false
        for byte in text.utf8 {
            if byte == separator, !isQuoted {
                parts.append(String(decoding: trimmed(part), as: UTF8.self))
                part = []
                continue
            }
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
            part.append(byte)
        }
        parts.append(String(decoding: trimmed(part), as: UTF8.self))
        return parts
    }

    /// The number that digits write, nil when there is none or another byte among them; `Int.max` when it is larger than that.
    static func number(_ digits: some Collection<UInt8>) -> Int? {
        guard !digits.isEmpty, digits.allSatisfy(isDigit) else { return nil }
        return digits.reduce(0) { sum, digit in
            let (product, overflow) = sum.multipliedReportingOverflow(by: 10)
            let (total, more) = product.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
            return overflow || more ? Int.max : total
        }
    }
}
