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
