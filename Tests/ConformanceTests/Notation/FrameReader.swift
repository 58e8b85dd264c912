import MQTTCodec

/// Reads the notation of `Frame`, word by word.
struct FrameReader {
    private let words: [String]
    private let version: ProtocolVersion
    private var position = 0

    init(words: [String], version: ProtocolVersion) {
        self.words = words
        self.version = version
    }

    mutating func readToEnd() -> [UInt8] {
        let bytes = read(until: nil)
        precondition(position == words.count, "something closes that was not opened: \(words)")
        return bytes
    }

    private mutating func read(until end: String?) -> [UInt8] {
        var bytes: [UInt8] = []
        while position < words.count {
            let word = words[position]
            position += 1
            switch word {
            case end: return bytes
            case "{":
                let inner = read(until: "}")
                bytes += Frame.variableLength(inner.count) + inner
            case "(":
                let inner = read(until: ")")
                bytes += Frame.twoBytes(inner.count) + inner
            case "{}": bytes.append(0)
            case "~": bytes += version == .v5 ? [0] : []
            case "$": bytes.append(version.rawValue)
            default: bytes += Self.bytes(of: word)
            }
        }
        precondition(end == nil, "\(end ?? "") is missing: \(words)")
        return bytes
    }

    private static func bytes(of word: String) -> [UInt8] {
        let text = Array(word.utf8)
        if text.first == UInt8(ascii: "\"") { return Array(text[1..<text.count - 1]) }
        if text.first == UInt8(ascii: "'") { return Frame.twoBytes(text.count - 2) + text[1..<text.count - 1] }
        let parts = word.split(separator: "*")
        let digits = Array(parts[0])
        let once = stride(from: 0, to: digits.count, by: 2).map { index in
            guard index + 1 < digits.count, let byte = UInt8(String(digits[index...index + 1]), radix: 16) else {
                preconditionFailure("not bytes: \(word)")
            }
            return byte
        }
        let count = parts.count > 1 ? Int(parts[1]) ?? 0 : 1
        return Array(repeatElement(once, count: count).joined())
    }
}
