public import MartletClient

// Requests need no word about codings where JSON will do.

extension Request where Self: Codable {
    /// Requests as JSON.
    public static var coding: MessageCoding<Self> { .json }
}

extension Request where Response: Codable {
    /// Responses as JSON.
    public static var responseCoding: MessageCoding<Response> { .json }
}

extension Request where Failure: Codable {
    /// Failures as JSON.
    public static var failureCoding: MessageCoding<Failure> { .json }
}

extension Endpoint where Value: Codable {
    /// As with `coding: .json`.
    public init(
        _ type: Value.Type = Value.self, qos: QoS = .atMostOnce, retain: Bool = false,
        sample: @autoclosure @escaping @Sendable () -> Value? = nil, @TopicBuilder topic: () -> TopicPattern<repeat each Part>
    ) {
        self.init(type, coding: .json, qos: qos, retain: retain, sample: sample(), topic: topic)
    }
}
