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

    /// The same bytes as text.
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
