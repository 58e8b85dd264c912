/// Topics at which requests of one type are answered.
///
/// ```swift
/// enum Home {
///     static let setTarget = Call(SetTarget.self) { "home"; Parameter("room", Room.self); "target" }
/// }
/// let answer = try await client.send(SetTarget(celsius: 30), to: Home.setTarget(.kitchen), timeout: .seconds(2))
/// ```
public struct Call<Asked: Request, each Part: TopicParameter>: Sendable {
    let pattern: TopicPattern<repeat each Part>
    private let givenSample: @Sendable () -> Asked.Response?

    /// - `sample`: an example of an answer for stubs and checks; without one, that of the `Sampled` request.
    /// - `topic`: the levels of the topics.
    public init(
        _ type: Asked.Type = Asked.self, sample: @autoclosure @escaping @Sendable () -> Asked.Response? = nil,
        @TopicBuilder topic: () -> TopicPattern<repeat each Part>
    ) {
        (pattern, givenSample) = (topic(), sample)
    }

    /// The topic with these parameters. A value that makes no legal level is an error where the topic is used.
    public func callAsFunction(_ parameters: repeat each Part) -> CallTopic<Asked> {
        CallTopic(result: Result { () throws(ClientError) in try pattern.topic(repeat each parameters) })
    }

    /// An example of an answer, if one was given.
    public var sample: Asked.Response? { givenSample() ?? sampled(by: Asked.self, as: Asked.Response.self) }

    /// The parameters in a topic: a tuple, or the value itself if there is one parameter. Throws `ClientError.undecodable` if it is none
    /// of these.
    public func parameters(of topic: TopicName) throws(ClientError) -> (repeat each Part) { try pattern.parameters(of: topic) }
}

/// One topic at which requests of a type are answered.
public struct CallTopic<Asked: Request>: Sendable {
    let result: Result<TopicName, ClientError>

    /// Any topic, without a call that declares it.
    public init(_ topic: TopicName = Asked.topic) { result = .success(topic) }

    init(result: Result<TopicName, ClientError>) { self.result = result }

    /// Throws `ClientError.topic` where a parameter makes no legal level.
    public var name: TopicName { get throws(ClientError) { try result.get() } }
}
