/// What messages are published to: one or more tokens with dots between them, none of them empty or a wildcard.
///
/// Invariant: 1 to `Limits.subjectBytesMax` bytes, none of them a blank, a control byte or DEL, which would change the meaning of the
/// line that the subject stands in. Servers check less.
public struct Subject: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// nil if the bytes are no subject.
    public init?(_ bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard SubjectScan.isWellFormed(bytes, allowsWildcards: false) else { return nil }
        self.bytes = bytes
    }

    /// Whether the bytes are a subject.
    public static func isLegal(_ bytes: UnsafeRawBufferPointer) -> Bool { SubjectScan.isWellFormed(bytes, allowsWildcards: false) }

    public init?(_ text: String) { self.init(text.utf8) }

    /// Bytes that were checked.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// A pattern to subscribe to: a subject in which a token may be `*`, and the last one `>`.
public struct SubjectPattern: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// nil if the bytes are no pattern.
    public init?(_ bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard SubjectScan.isWellFormed(bytes, allowsWildcards: true) else { return nil }
        self.bytes = bytes
    }

    public init?(_ text: String) { self.init(text.utf8) }

    /// Every subject is a pattern, which only it matches.
    public init(_ subject: Subject) { bytes = subject.bytes }

    /// Bytes that were checked.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// The form that subjects and patterns share.
enum SubjectScan {
    static func isWellFormed<Bytes>(_ bytes: Bytes, allowsWildcards: Bool) -> Bool
    where Bytes: RandomAccessCollection<UInt8>, Bytes.Index == Int {
        guard (1...Limits.subjectBytesMax).contains(bytes.count) else { return false }
        var start = 0
        for index in 0...bytes.count {
            if index < bytes.count, bytes[index] != dot {
                guard bytes[index] > 0x20, bytes[index] != 0x7F else { return false }
                continue
            }
            let length = index - start
            if length == 0 { return false }
            let isWildcard = length == 1 && (bytes[start] == star || bytes[start] == rest)
            if isWildcard, !allowsWildcards || (bytes[start] == rest && index < bytes.count) { return false }
            start = index + 1
        }
        return true
    }

    private static let dot = UInt8(ascii: ".")
    private static let star = UInt8(ascii: "*")
    private static let rest = UInt8(ascii: ">")
}
