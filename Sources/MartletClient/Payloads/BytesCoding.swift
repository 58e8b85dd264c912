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
