/// The codings of an endpoint's payloads: one that writes, and others that only read, chosen by the Content Type of a
/// message.
///
/// `.text`, `.bytes`, with MartletClientJSON `.json`, or `MessageCoding(MyCoding())`; `.json.or(.text)` writes JSON and
/// reads both.
public struct MessageCoding<Value: Sendable>: Sendable {
    /// Writes, and reads what has no Content Type. Without others it reads whatever comes.
    public let main: any PayloadCoding<Value>
    /// Read what has their Content Type.
    public let others: [any PayloadCoding<Value>]
    /// Whether messages carry the Content Type of their payload. MQTT 5.0 only.
    public let statesContentType: Bool
    /// What stands for a payload that cannot be read; nil if that is an error.
    private let fallback: Value?

    /// One coding that writes and reads. Messages carry its Content Type unless `statesContentType` is false.
    public init(_ main: any PayloadCoding<Value>, statesContentType: Bool = true) {
        (self.main, others, self.statesContentType, fallback) = (main, [], statesContentType, nil)
    }

    private init(
        _ main: any PayloadCoding<Value>, _ others: [any PayloadCoding<Value>], statesContentType: Bool, fallback: Value?
    ) {
        (self.main, self.others, self.statesContentType, self.fallback) = (main, others, statesContentType, fallback)
    }

    /// Writes as this one does, and reads also what has the Content Type of the other.
    public func or(_ other: MessageCoding) -> MessageCoding {
        MessageCoding(main, others + [other.main] + other.others, statesContentType: true, fallback: fallback ?? other.fallback)
    }

    /// Writes and reads as this one does; for a payload that cannot be read, an empty one too, the value stands. So a
    /// value always comes: nothing is skipped, refused or counted as undecodable. An empty payload of an endpoint that
    /// retains still removes.
    public func defaulting(to value: Value) -> MessageCoding {
        MessageCoding(main, others, statesContentType: statesContentType, fallback: value)
    }

    /// The bytes of a value. Throws `ClientError.unencodable`.
    public func encode(_ value: Value) throws(ClientError) -> Payload {
        do { return try main.encode(value) } catch { throw ClientError.unencodable("\(error)") }
    }

    /// The value of bytes that came with this Content Type. Throws `ClientError.undecodable`.
    public func decode(_ payload: Payload, contentType: EncodedString? = nil) throws(ClientError) -> Value {
        guard let coding = coding(for: contentType) else {
            if let fallback { return fallback }
            throw .undecodable("no coding reads “\(contentType ?? EncodedString())”")
        }
        do { return try coding.decode(payload) } catch {
            if let fallback { return fallback }
            throw ClientError.undecodable("\(error)")
        }
    }

    /// The value of a message. Throws `ClientError.undecodable`.
    package func decode(_ message: ReceivedMessage) throws(ClientError) -> Value {
        try decode(message.payload, contentType: others.isEmpty ? nil : message.properties.contentType)
    }

    /// Gives a message the bytes of a value, and the properties that tell of them. Throws `ClientError.unencodable`.
    package func encode(_ value: Value, into publication: inout Publication) throws(ClientError) {
        publication.payload = try encode(value)
        guard statesContentType else { return }
        var properties = publication.properties
        properties.contentType = main.contentType
        properties.payloadFormatIndicator = main.isText ? 1 : nil
        publication.properties = properties
    }

    /// Nil where there is a choice and none is of this type. Publishers say all kinds of types where there is no
    /// choice.
    private func coding(for contentType: EncodedString?) -> (any PayloadCoding<Value>)? {
        guard let contentType, !others.isEmpty else { return main }
        return ([main] + others).first { $0.contentType?.isSameMediaType(as: contentType) ?? false }
    }
}

extension EncodedString {
    /// Whether both name the same type: what follows a semicolon and the case of letters do not count.
    func isSameMediaType(as other: EncodedString) -> Bool { mediaType.elementsEqual(other.mediaType) }

    private var mediaType: some Sequence<UInt8> {
        bytes.lazy.prefix { $0 != UInt8(ascii: ";") }.filter { $0 != UInt8(ascii: " ") }.map { byte in
            UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte
        }
    }
}

/// Bytes as they are, in any collection of them.
package struct BytesCoding<Value: RangeReplaceableCollection<UInt8> & Sendable>: PayloadCoding {
    package init() {}

    package var contentType: EncodedString? { "application/octet-stream" }

    package func encode(_ value: Value) -> Payload { Payload(Array(value)) }
    package func decode(_ payload: Payload) -> Value { Value(payload) }
}

/// Payloads as they came, without a copy.
package struct SamePayload: PayloadCoding {
    package init() {}

    package var contentType: EncodedString? { "application/octet-stream" }

    package func encode(_ value: Payload) -> Payload { value }
    package func decode(_ payload: Payload) -> Payload { payload }
}

extension MessageCoding where Value: RangeReplaceableCollection<UInt8> {
    /// The bytes as they are. Messages carry no Content Type, unless there is a choice.
    public static var bytes: MessageCoding { MessageCoding(BytesCoding(), statesContentType: false) }
}

extension MessageCoding where Value == Payload {
    /// The payload as it is. Messages carry no Content Type, unless there is a choice.
    public static var bytes: MessageCoding { MessageCoding(SamePayload(), statesContentType: false) }
}

/// Values as text: numbers, Booleans, strings, and all that can be made of its own description.
package struct TextCoding<Value: LosslessStringConvertible & Sendable>: PayloadCoding {
    package init() {}

    package var contentType: EncodedString? { "text/plain" }
    package var isText: Bool { true }

    package func encode(_ value: Value) -> Payload { Payload(value.description) }

    package func decode(_ payload: Payload) throws -> Value {
        guard let text = payload.text else { throw NotAValue(description: "\(payload.count) bytes that are not UTF-8") }
        guard let value = Value(text) else { throw NotAValue(description: "“\(text.prefix(60))” is no \(Value.self)") }
        return value
    }
}

/// Values as the text of their raw values, such as enumerations of strings.
package struct RawTextCoding<Value: RawRepresentable & Sendable>: PayloadCoding
where Value.RawValue: LosslessStringConvertible & Sendable {
    package init() {}

    package var contentType: EncodedString? { "text/plain" }
    package var isText: Bool { true }

    package func encode(_ value: Value) -> Payload { Payload(value.rawValue.description) }

    package func decode(_ payload: Payload) throws -> Value {
        let rawValue = try TextCoding<Value.RawValue>().decode(payload)
        guard let value = Value(rawValue: rawValue) else { throw NotAValue(description: "“\(rawValue)” is no \(Value.self)") }
        return value
    }
}

extension MessageCoding where Value: LosslessStringConvertible {
    /// Text as the value describes itself. Messages carry no Content Type, unless there is a choice.
    public static var text: MessageCoding { MessageCoding(TextCoding(), statesContentType: false) }
}

extension MessageCoding where Value: RawRepresentable, Value.RawValue: LosslessStringConvertible & Sendable {
    /// The text of the raw value. Messages carry no Content Type, unless there is a choice.
    public static var text: MessageCoding { MessageCoding(RawTextCoding(), statesContentType: false) }
}

/// How values become the bytes of messages, and back: what a program writes for itself where neither `.text`, `.bytes`
/// nor the `.json` of MartletClientJSON will do.
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
    /// The type of the values.
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
