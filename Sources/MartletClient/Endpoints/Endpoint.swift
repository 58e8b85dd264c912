/// Topics of one kind, and what is published to them: declared once, checked by the compiler at each use.
///
/// ```swift
/// enum Room: String, TopicParameter { case kitchen, cellar }
/// enum Home {
///     static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
///         "home"; Parameter("room", Room.self); "sensor"; Parameter("number", Int.self); "temperature"
///     }
/// }
/// try await client.publish(21.5, to: Home.temperature(.kitchen, 3))
/// for try await reading in client.messages(Home.temperature.matching(.kitchen, nil)) { print(reading.payload) }
/// ```
/// Wrong count or type of parameters or payload does not compile.
public struct Endpoint<Value: Sendable, each Part: TopicParameter>: Sendable {
    /// How values become payloads, and back.
    public let coding: MessageCoding<Value>
    /// At which QoS values are published, and at most come to subscribers.
    public let qos: QoS
    /// Whether the server keeps the last value of each topic. An empty payload there removes it, and is no value.
    public let retain: Bool
    let pattern: TopicPattern<repeat each Part>
    private let givenSample: @Sendable () -> Value?

    /// - `sample`: an example for stubs and checks; without one, that of the `Sampled` value.
    /// - `topic`: the levels of the topics.
    public init(
        _ type: Value.Type = Value.self, coding: MessageCoding<Value>, qos: QoS = .atMostOnce, retain: Bool = false,
        sample: @autoclosure @escaping @Sendable () -> Value? = nil,
        @TopicBuilder topic: () -> TopicPattern<repeat each Part>
    ) {
        (self.coding, self.qos, self.retain, pattern, givenSample) = (coding, qos, retain, topic(), sample)
    }

    /// The topic with these parameters. A value that makes no legal level is an error where the topic is used.
    public func callAsFunction(_ parameters: repeat each Part) -> EndpointTopic<Value> {
        EndpointTopic(
            result: Result { () throws(ClientError) in try pattern.topic(repeat each parameters) }, coding: coding, qos: qos,
            retain: retain)
    }

    /// All topics with these parameters, where nil stands for any value. A value that makes no legal level is an error where the
    /// selection is used.
    public func matching(_ parameters: repeat (each Part)?) -> Selection {
        Selection(
            endpoint: self, result: Result { () throws(ClientError) in try pattern.filter(repeat each parameters) })
    }

    /// An example of a value, if one was given.
    public var sample: Value? { givenSample() ?? sampled(Value.self) }

    /// The parameters in a topic: a tuple, or the value itself if there is one. Throws `ClientError.undecodable` if it is none of these.
    public func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) { try pattern.parameters(of: topic) }
}

/// One topic of an endpoint.
public struct EndpointTopic<Value: Sendable>: Sendable {
    let result: Result<TopicName, ClientError>
    let coding: MessageCoding<Value>
    let qos: QoS
    let retain: Bool

    /// Throws `ClientError.topic` where a parameter makes no legal level.
    public var name: TopicName { get throws(ClientError) { try result.get() } }

    /// The message that says this value. Throws `ClientError.topic` and `ClientError.unencodable`.
    public func publication(_ value: Value) throws(ClientError) -> Publication {
        var publication = Publication(try name, Payload(), qos: qos, retain: retain)
        try coding.encode(value, into: &publication)
        return publication
    }
}

extension Endpoint {
    /// Topics of an endpoint, some of whose parameters may be any.
    public struct Selection: Sendable {
        /// The endpoint whose topics these are.
        public let endpoint: Endpoint<Value, repeat each Part>
        let result: Result<TopicFilter, ClientError>

        /// Throws `ClientError.topic` where a parameter makes no legal level.
        public var filter: TopicFilter { get throws(ClientError) { try result.get() } }
    }
}
