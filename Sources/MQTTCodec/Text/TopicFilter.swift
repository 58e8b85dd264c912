/// What a subscription asks for: a topic in which + stands for one level and a last # for all that follow, or
/// $share/NAME/FILTER, which shares the messages among a group.
///
///     sport/tennis/+          $share/workers/jobs/#
///     └─ matchingBytes        └───┬──────────┘└┬──┘
///                              shareName    matchingBytes
public struct TopicFilter: Sendable {
    /// The whole filter, as it stands on the wire without its length.
    public let bytes: [UInt8]
    /// Where the part begins that is matched: 0, or behind $share/NAME/.
    private let matchingOffset: Int

    /// Takes the bytes if they are a topic filter.
    public init?(_ bytes: some Collection<UInt8>) {
        self.init(owning: Array(bytes))
    }

    /// Copies the bytes if they are a topic filter.
    public init?(validating bytes: UnsafeRawBufferPointer) {
        self.init(owning: Array(bytes))
    }

    /// Takes the text's UTF-8 if it is a topic filter.
    public init?(_ string: String) {
        self.init(owning: Array(string.utf8))
    }

    private init?(owning bytes: [UInt8]) {
        guard bytes.count <= TextScan.lengthMax, bytes.withUnsafeBytes(TopicValidation.validateFilter) == nil,
            let offset = bytes.withUnsafeBytes(TopicValidation.matchingOffset)
        else { return nil }
        self.bytes = bytes
        matchingOffset = offset
    }

    /// The group that a shared subscription belongs to; nil for an ordinary one.
    public var shareName: EncodedString? {
        guard isShared else { return nil }
        return EncodedString(checked: Array(bytes[TopicValidation.sharePrefix.count..<(matchingOffset - 1)]))
    }

    /// Whether this is a shared subscription's filter.
    public var isShared: Bool { matchingOffset > 0 }

    /// The part that is matched against topics: all of it, or what follows $share/NAME/.
    public var matchingBytes: ArraySlice<UInt8> { bytes[matchingOffset...] }
}

extension TopicFilter: Hashable {
    public static func == (left: TopicFilter, right: TopicFilter) -> Bool { left.bytes == right.bytes }

    /// All bytes at once: an array hashes one by one.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension TopicFilter: ExpressibleByStringLiteral {
    /// A literal of the program's own; an illegal one is a mistake of ours and traps.
    public init(stringLiteral value: String) {
        guard let legal = TopicFilter(value) else { preconditionFailure("not a topic filter: \(value)") }
        self = legal
    }
}

extension TopicFilter: CustomStringConvertible {
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
