/// How values become the bytes of messages, and back. Examples are `TextCoding`, `BytesCoding`, the `JSONCoding` of MartletClientJSON,
/// and whatever a program writes for itself.
///
/// ```swift
/// struct CBORCoding: PayloadCoding {
///     var contentType: EncodedString? { "application/cbor" }
///     func encode(_ value: Reading) throws -> Payload { … }
///     func decode(_ payload: Payload) throws -> Reading { … }
/// }
/// let endpoint = Endpoint(Reading.self, coding: Coding(CBORCoding())) { "home"; "reading" }
/// ```
public protocol PayloadCoding<Value>: Sendable {
    associatedtype Value: Sendable

    /// The Content Type of messages with such bytes (a MIME type); nil if there is none.
    var contentType: EncodedString? { get }

    /// Whether the bytes are text in UTF-8: the Payload Format Indicator.
    var isText: Bool { get }

    /// The bytes of a value. Throws what tells why there are none.
    func encode(_ value: Value) throws -> Payload

    /// The value of the bytes. Throws what tells why they have none.
    func decode(_ payload: Payload) throws -> Value
}

extension PayloadCoding {
    public var isText: Bool { false }
}

/// Bytes that are no value, as a coding of the library tells it.
struct NotAValue: Error, CustomStringConvertible {
    let description: String
}
