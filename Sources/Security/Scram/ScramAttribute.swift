/// The pieces of SCRAM's messages. [RFC 5802, section 7]
enum ScramAttribute {
    /// The text between commas: bytes, because a comma that a combining mark follows is a comma all the same.
    static func parts(of text: Substring, maxSplits: Int = .max) -> [Substring] {
        text.utf8.split(separator: UInt8(ascii: ","), maxSplits: maxSplits, omittingEmptySubsequences: false).map { Substring($0) }
    }

    /// A name in which `=2C` stands for a comma and `=3D` for an equals sign; nil for an empty one or another use of `=`.
    static func name(_ text: Substring) -> [UInt8]? {
        var name: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "=") {
                let code = String(decoding: rest.prefix(2), as: UTF8.self)
                guard code == "2C" || code == "3D" else { return nil }
                name.append(code == "2C" ? UInt8(ascii: ",") : UInt8(ascii: "="))
                rest = rest.dropFirst(2)
            } else {
                name.append(byte)
            }
        }
        return name.isEmpty ? nil : name
    }

    /// Whether it is printable ASCII without a comma, of a length that a client can mean.
    static func isNonce(_ text: Substring) -> Bool {
        (8...1024).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: ",") }
    }

    /// Whether it is an attribute that may be passed over: a letter other than those that have a meaning, and a value.
    static func isExtension(_ text: Substring) -> Bool {
        guard text.utf8.count > 2, let letter = text.utf8.first, text.dropFirst().first == "=" else { return false }
        let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(letter | 0x20)
        return isLetter && !"amnrcpvise".utf8.contains(letter)
    }
}
