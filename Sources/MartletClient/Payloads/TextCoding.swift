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
