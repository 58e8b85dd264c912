/// Bytes as they are, in any collection of them.
public struct BytesCoding<Value: RangeReplaceableCollection<UInt8> & Sendable>: PayloadCoding {
    public init() {}

    public var contentType: EncodedString? { "application/octet-stream" }

    public func encode(_ value: Value) -> Payload { Payload(Array(value)) }
    public func decode(_ payload: Payload) -> Value { Value(payload) }
}

/// Payloads as they came, without a copy.
public struct SamePayload: PayloadCoding {
    public init() {}

    public var contentType: EncodedString? { "application/octet-stream" }

    public func encode(_ value: Payload) -> Payload { value }
    public func decode(_ payload: Payload) -> Payload { payload }
}

extension Coding where Value: RangeReplaceableCollection<UInt8> {
    /// The bytes as they are. Messages carry no Content Type, unless there is a choice.
    public static var bytes: Coding { Coding(BytesCoding(), statesContentType: false) }
}

extension Coding where Value == Payload {
    /// The payload as it is. Messages carry no Content Type, unless there is a choice.
    public static var bytes: Coding { Coding(SamePayload(), statesContentType: false) }
}
