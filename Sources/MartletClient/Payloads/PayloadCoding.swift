/// How values become the bytes of messages, and back: what a program writes for itself where neither `.text`, `.bytes` nor the `.json` of
/// MartletClientJSON will do.
///
/// ```swift
/// struct CBORCoding: PayloadCoding {
///     var contentType: EncodedString? { "application/cbor" }
///     func encode(_ value: Climate) throws -> Payload { … }
///     func decode(_ payload: Payload) throws -> Climate { … }
/// }
/// let endpoint = Endpoint(Climate.self, coding: MessageCoding(CBORCoding())) { "home"; "climate" }
/// ```
public protocol PayloadCoding<Value>: Sendable {
    /// What is written and read.
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
    /// False: the bytes are no text.
    public var isText: Bool { false }
}

/// Bytes that are no value, as a coding of the library tells it.
struct NotAValue: Error, CustomStringConvertible {
    let description: String
}
