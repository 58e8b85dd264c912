public import MQTTCodec

/// What a peer called something, as it is kept when that is over: a long text is cut, and says so and how long it was,
/// `begi...(63000 bytes)`.
///
/// A text that was cut is longer than each that was not, so that it is never taken for one that somebody else has.
public enum CutText {
    /// Bytes of a text that is not cut.
    public static var keptBytes: Int { SharedLimits.keptTextBytesMax }

    /// - Parameters:
    ///   - text: UTF-8.
    ///   - bytesMax: how long it may be.
    ///   - mark: tells it from other texts that begin alike; nil where nothing is looked up by it.
    public static func cut(_ text: [UInt8], to bytesMax: Int = Self.keptBytes, mark: @autoclosure () -> UInt64? = nil) -> [UInt8] {
        guard text.count > bytesMax else { return text }
        var end = bytesMax
        // The first byte that is left out may go on with the last character that is kept.
        while end > 0, text[end] & 0xC0 == 0x80 { end -= 1 }
        let digits = mark().map { ", " + String($0, radix: 16) } ?? ""
        return Array(text[..<end]) + Array("...(\(text.count) bytes\(digits))".utf8)
    }

    public static func cut(_ text: String, to bytesMax: Int = Self.keptBytes) -> String {
        text.utf8.count > bytesMax ? String(decoding: cut(Array(text.utf8), to: bytesMax), as: UTF8.self) : text
    }
}

extension EncodedString {
    /// The name as it is kept for people who read it later.
    public var cut: EncodedString {
        bytes.count > CutText.keptBytes ? EncodedString(CutText.cut(bytes)) ?? EncodedString() : self
    }

    /// The name as it is kept where names are compared: equal for equal names alone, as far as nobody knows the hash's
    /// seed.
    package func cut(by hashing: TopicHash) -> EncodedString {
        guard bytes.count > CutText.keptBytes else { return self }
        return EncodedString(CutText.cut(bytes, mark: bytes.withUnsafeBytes { hashing.hash($0) })) ?? EncodedString()
    }
}

extension EncodedString {
    /// What is shown, stored and compared for what a client gives as its user name: the name, and for a token (JWT),
    /// which whoever sees it could use, `token:` with a mark that tells it from others.
    package var withoutToken: EncodedString { looksLikeToken ? tokenFingerprint : self }

    /// What stands for a token, whatever it looks like.
    package var tokenFingerprint: EncodedString {
        // FNV-1a: the same on all shards and nodes, and after a restart.
        let mark = bytes.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        return EncodedString("token:" + String(mark, radix: 16)) ?? EncodedString()
    }

    private var looksLikeToken: Bool {
        let scheme = "Bearer ".utf8
        let rest = bytes.starts(with: scheme) ? bytes.dropFirst(scheme.count) : bytes[...]
        return rest.starts(with: "eyJ".utf8) && rest.contains(UInt8(ascii: "."))
    }
}

extension SharedLimits {
    /// Bytes of a text that a peer chose, where it is kept for people who ask later; a longer one is cut, and says so.
    package static let keptTextBytesMax = 256
}
