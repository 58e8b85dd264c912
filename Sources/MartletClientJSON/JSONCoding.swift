public import FoundationEssentials
public import MartletClient

/// Values as JSON. Dates are text in ISO 8601, in UTC (2026-01-31T12:00:00Z); keys stand in the order of their names,
/// so that equal values have equal bytes.
public struct JSONCoding<Value: Codable & Sendable>: PayloadCoding {
    /// As `.json`.
    public init() {}

    /// The MIME type of JSON.
    public var contentType: EncodedString? { "application/json" }
    /// True: JSON is UTF-8.
    public var isText: Bool { true }

    /// The value as JSON. Throws Foundation's `EncodingError`.
    public func encode(_ value: Value) throws -> Payload {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Payload([UInt8](try encoder.encode(value)))
    }

    /// The value that the JSON says. Throws Foundation's `DecodingError`.
    public func decode(_ payload: Payload) throws -> Value {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return try decoder.decode(Value.self, from: payload.withUnsafeBytes { Data($0) })
    }
}

extension MessageCoding where Value: Codable {
    /// JSON, as `JSONCoding` writes it. Messages carry their Content Type.
    public static var json: MessageCoding { MessageCoding(JSONCoding()) }
}

extension Payload {
    /// A copy of the bytes. The other way is `Data(payload)`.
    public init(_ data: Data) { self.init([UInt8](data)) }
}
