/// The standard's UTF-8 Encoded String: bytes that are well-formed UTF-8 without U+0000, at most 65,535 of them.
///
/// Equal means the same bytes: Swift's strings would take two spellings of é for the same. [MQTT-4.7.3-4 v5]
public struct EncodedString: Hashable, Sendable {
    /// The bytes, as they stand on the wire without their length.
    public let bytes: [UInt8]

    /// The empty text.
    public init() { bytes = [] }

    /// Takes the bytes if they are legal.
    public init?(_ bytes: some Collection<UInt8>) {
        self.init(owning: Array(bytes))
    }

    /// Copies the bytes if they are legal.
    public init?(validating bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= TextScan.lengthMax, UTF8Validation.validate(bytes) == nil else { return nil }
        self.bytes = Array(bytes)
    }

    /// Takes the text's UTF-8 if it is legal.
    public init?(_ string: String) {
        self.init(owning: Array(string.utf8))
    }

    private init?(owning bytes: [UInt8]) {
        guard bytes.count <= TextScan.lengthMax, bytes.withUnsafeBytes(UTF8Validation.validate) == nil else { return nil }
        self.bytes = bytes
    }

    /// Takes bytes that were checked already.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// How many bytes.
    public var count: Int { bytes.count }
    /// Whether there is no byte.
    public var isEmpty: Bool { bytes.isEmpty }
}

extension EncodedString {
    /// All bytes at once: an array hashes one by one.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension EncodedString: ExpressibleByStringLiteral {
    /// A literal of the program's own; an illegal one is a mistake of ours and traps.
    public init(stringLiteral value: String) {
        guard let legal = EncodedString(value) else { preconditionFailure("not a UTF-8 Encoded String: \(value)") }
        self = legal
    }
}

extension EncodedString: CustomStringConvertible {
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// The one pass over text that every check of text is made of.
enum TextScan {
    /// The error that the bytes are refused with, or nil: they must be UTF-8 without U+0000 and, if asked, without +
    /// and #.
    ///
    /// `rejectsWildcards` is always a literal, so that each caller gets its own loop.
    @inline(__always)
    static func validate(_ bytes: UnsafeRawBufferPointer, rejectsWildcards: Bool) -> WireError? {
        let count = bytes.count
        var index = 0
        while index < count {
            if let end = endOfPlain(bytes, from: index, rejectsWildcards: rejectsWildcards) {
                index = end
                continue
            }
            let byte = bytes[index]
            if byte < 0x80 {
                if byte == 0 { return .nullCharacter }  // [MQTT-1.5.4-2 v5]
                if rejectsWildcards && (byte == wildcardOne || byte == wildcardMany) { return .topicNameWithWildcard }
                index &+= 1
            } else {
                let length = scalarLength(bytes, at: index)
                if length == 0 { return .invalidUTF8 }  // [MQTT-1.5.4-1 v5]
                index &+= length
            }
        }
        return nil
    }

    /// Whether the bytes are 8 to 32 and all plain: what nearly every topic name is, told without a loop. False says
    /// nothing.
    @inline(__always)
    static func isShortAndPlain(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = bytes.count
        guard count >= 8, count <= 32 else { return false }
        if count >= 16 {
            return isPlain(bytes.loadUnaligned(fromByteOffset: 0, as: SIMD2<UInt64>.self), rejectsWildcards: true)
                && isPlain(bytes.loadUnaligned(fromByteOffset: count &- 16, as: SIMD2<UInt64>.self), rejectsWildcards: true)
        }
        return isPlain(
            SIMD2(
                bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self)), rejectsWildcards: true)
    }

    /// Where the plain bytes at `index` end, as far as two loads tell; nil if they do not. The last load of a text
    /// reaches back over bytes that were checked already, so that no byte is looked at alone unless the text has fewer
    /// than four.
    @inline(__always)
    private static func endOfPlain(_ bytes: UnsafeRawBufferPointer, from index: Int, rejectsWildcards: Bool) -> Int? {
        let count = bytes.count
        guard count >= 8 else {
            guard count >= 4 else { return nil }
            let first = bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self)
            let last = bytes.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self)
            let word = UInt64(first) | UInt64(last) &<< 32
            return isPlain(SIMD2(repeating: word), rejectsWildcards: rejectsWildcards) ? count : nil
        }
        let end = min(index &+ 16, count)
        let first = bytes.loadUnaligned(fromByteOffset: min(index, count &- 8), as: UInt64.self)
        let last = bytes.loadUnaligned(fromByteOffset: end &- 8, as: UInt64.self)
        if isPlain(SIMD2(first, last), rejectsWildcards: rejectsWildcards) { return end }
        return index &+ 8 < end && isPlain(SIMD2(repeating: first), rejectsWildcards: rejectsWildcards) ? index &+ 8 : nil
    }

    /// Whether all sixteen bytes are ASCII, not zero and, if asked, no wildcard.
    ///
    /// For bytes below 0x80, `x - 1` borrows into bit 7 exactly where x is zero; `x ^ c` is zero exactly where x is c.
    @inline(__always)
    private static func isPlain(_ words: SIMD2<UInt64>, rejectsWildcards: Bool) -> Bool {
        let ones = SIMD2(repeating: lows)
        var suspicious = words | (words &- ones)
        if rejectsWildcards {
            suspicious |= (words ^ SIMD2(repeating: lows &* UInt64(wildcardOne))) &- ones
            suspicious |= (words ^ SIMD2(repeating: lows &* UInt64(wildcardMany))) &- ones
        }
        return (suspicious[0] | suspicious[1]) & highs == 0
    }

    /// How many bytes the scalar at `index` takes, which begins with a byte from 0x80 on; 0 if it is ill-formed (table
    /// 3-7 of Unicode).
    private static func scalarLength(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Int {
        let left = bytes.count &- index
        guard left >= 2 else { return 0 }
        let second = bytes[index &+ 1]
        switch bytes[index] {
        case 0xC2...0xDF:
            return isContinuation(second) ? 2 : 0
        case 0xE0:
            return left >= 3 && (0xA0...0xBF).contains(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xED:  // The surrogates U+D800 to U+DFFF begin at ED A0.
            return left >= 3 && (0x80...0x9F).contains(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xE1...0xEF:
            return left >= 3 && isContinuation(second) && isContinuation(bytes[index &+ 2]) ? 3 : 0
        case 0xF0:
            return left >= 4 && (0x90...0xBF).contains(second) && isTail(bytes, at: index) ? 4 : 0
        case 0xF1...0xF3:
            return left >= 4 && isContinuation(second) && isTail(bytes, at: index) ? 4 : 0
        case 0xF4:  // U+10FFFF is F4 8F BF BF.
            return left >= 4 && (0x80...0x8F).contains(second) && isTail(bytes, at: index) ? 4 : 0
        default:
            return 0
        }
    }

    @inline(__always)
    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

    @inline(__always)
    private static func isTail(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Bool {
        isContinuation(bytes[index &+ 2]) && isContinuation(bytes[index &+ 3])
    }

    private static let lows: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    static let wildcardOne = UInt8(ascii: "+")
    static let wildcardMany = UInt8(ascii: "#")
    static let levelSeparator = UInt8(ascii: "/")
    static let lengthMax = 65_535
}

/// Checks that bytes are a UTF-8 Encoded String: well-formed UTF-8 without U+0000.
public enum UTF8Validation {
    /// The error that the bytes are refused with, or nil if they are a legal text. Linear; eight bytes at a time while
    /// they are ASCII.
    public static func validate(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        TextScan.validate(bytes, rejectsWildcards: false)
    }
}

/// What a peer called something, as the log names it: at most 256 bytes of it, for one line has to stay readable
/// whatever a peer sends.
///
/// What could pass for another line is escaped when the line is written, not here.
public struct LoggedText: CustomStringConvertible {
    public let description: String

    /// - Parameter bytes: UTF-8. A longer text ends with `...` after its first 256 bytes, or up to three fewer where a
    ///   character would be cut.
    public init(_ bytes: some BidirectionalCollection<UInt8>) {
        guard bytes.count > Limits.loggedTextBytesMax else {
            description = String(decoding: bytes, as: UTF8.self)
            return
        }
        var head = bytes.prefix(Limits.loggedTextBytesMax)
        // The first byte that is left out may go on with the last character that is kept.
        while head.endIndex < bytes.endIndex, bytes[head.endIndex] & 0xC0 == 0x80, !head.isEmpty { head = head.dropLast() }
        description = String(decoding: head, as: UTF8.self) + "..."
    }
}

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

extension TopicFilter {
    /// Whether a message published to `topic` is for this filter: level by level, byte by byte. [MQTT-4.7.3-4 v5]
    ///
    /// Plain and slow on purpose: what is faster is tested against it.
    public func matches(_ topic: TopicName) -> Bool {
        let filterLevels = matchingBytes.split(separator: TextScan.levelSeparator, omittingEmptySubsequences: false)
        let topicLevels = topic.bytes.split(separator: TextScan.levelSeparator, omittingEmptySubsequences: false)
        let beginsWithWildcard =
            isWildcard(filterLevels[0], TextScan.wildcardOne) || isWildcard(filterLevels[0], TextScan.wildcardMany)
        if beginsWithWildcard && topic.bytes.first == UInt8(ascii: "$") { return false }  // [MQTT-4.7.2-1 v5]

        for (index, level) in filterLevels.enumerated() {
            if isWildcard(level, TextScan.wildcardMany) { return true }  // Also the parent: a/# matches a.
            guard index < topicLevels.count else { return false }
            guard isWildcard(level, TextScan.wildcardOne) || level == topicLevels[index] else { return false }
        }
        return filterLevels.count == topicLevels.count
    }

    private func isWildcard(_ level: ArraySlice<UInt8>, _ wildcard: UInt8) -> Bool {
        level.count == 1 && level.first == wildcard
    }
}

/// A topic that a message is published to: at least one character and no wildcard.
public struct TopicName: Hashable, Sendable {
    /// The bytes, as they stand on the wire without their length.
    public let bytes: [UInt8]

    /// Takes the bytes if they are a topic name.
    public init?(_ bytes: some Collection<UInt8>) {
        self.init(owning: Array(bytes))
    }

    /// Copies the bytes if they are a topic name.
    public init?(validating bytes: UnsafeRawBufferPointer) {
        guard Self.isLegal(bytes) else { return nil }
        self.bytes = Array(bytes)
    }

    /// Whether the bytes are a topic name, for those that are not to be copied.
    public static func isLegal(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count <= TextScan.lengthMax && TopicValidation.validateName(bytes) == nil
    }

    /// Takes the text's UTF-8 if it is a topic name.
    public init?(_ string: String) {
        self.init(owning: Array(string.utf8))
    }

    private init?(owning bytes: [UInt8]) {
        guard bytes.count <= TextScan.lengthMax, bytes.withUnsafeBytes(TopicValidation.validateName) == nil else { return nil }
        self.bytes = bytes
    }

    /// Takes bytes that were checked already.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// The bytes of the topic or filter as a text.
    public var text: EncodedString { EncodedString(checked: bytes) }
}

extension TopicName {
    /// All bytes at once: an array hashes one by one.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension TopicName: ExpressibleByStringLiteral {
    /// A literal of the program's own; an illegal one is a mistake of ours and traps.
    public init(stringLiteral value: String) {
        guard let legal = TopicName(value) else { preconditionFailure("not a topic name: \(value)") }
        self = legal
    }
}

extension TopicName: CustomStringConvertible {
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// Checks topic names and topic filters where they lie in a frame.
public enum TopicValidation {
    /// The error that a topic name is refused with, or nil: at least one character, UTF-8, no wildcard. One pass.
    /// [MQTT-4.7.0-1 v5]
    public static func validateName(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        if bytes.isEmpty { return .emptyTopic }  // [MQTT-4.7.3-1 v5]
        return TextScan.validate(bytes, rejectsWildcards: true)  // [MQTT-3.3.2-2 v5]
    }

    /// The error that a topic filter is refused with, or nil; one that begins with $share/ is checked as a shared
    /// subscription's.
    public static func validateFilter(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        if let error = TextScan.validate(bytes, rejectsWildcards: false) { return error }
        guard let start = matchingOffset(bytes) else { return .invalidTopicFilter }
        return areWildcardsWhole(bytes, from: start) ? nil : .invalidTopicFilter
    }

    /// Where the part begins that is matched against topics: 0, or behind $share/NAME/; nil if NAME or that part is
    /// missing or wrong. [MQTT-4.8.2-1 v5]
    static func matchingOffset(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.starts(with: sharePrefix) else { return bytes.isEmpty ? nil : 0 }  // [MQTT-4.7.3-1 v5]
        var index = sharePrefix.count
        while index < bytes.count, bytes[index] != TextScan.levelSeparator {
            let byte = bytes[index]
            if byte == TextScan.wildcardOne || byte == TextScan.wildcardMany { return nil }  // [MQTT-4.8.2-2 v5]
            index &+= 1
        }
        let isNamed = index > sharePrefix.count
        return isNamed && index &+ 1 < bytes.count ? index &+ 1 : nil
    }

    /// Whether every + fills its level [MQTT-4.7.1-2 v5] and a # is a level of its own and the last. [MQTT-4.7.1-1 v5]
    private static func areWildcardsWhole(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Bool {
        let count = bytes.count
        for index in start..<count {
            let byte = bytes[index]
            guard byte == TextScan.wildcardOne || byte == TextScan.wildcardMany else { continue }
            let isLast = index &+ 1 == count
            guard index == start || bytes[index &- 1] == TextScan.levelSeparator else { return false }
            guard isLast || (byte == TextScan.wildcardOne && bytes[index &+ 1] == TextScan.levelSeparator) else { return false }
        }
        return true
    }

    static let sharePrefix = Array("$share/".utf8)
}

extension Limits {
    /// Bytes of what a peer called something that come into a line of the log; a longer name is cut.
    static let loggedTextBytesMax = 256
}
