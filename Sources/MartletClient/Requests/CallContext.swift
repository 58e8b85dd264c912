internal import Glibc

/// What a responder knows of a request beside the request itself.
public struct CallContext<each Part: TopicParameter>: Sendable {
    /// The time since 1970-01-01 00:00 UTC, without leap seconds, at which the request was taken up.
    public let time: Duration
    /// The request's message.
    public let message: Message
    /// The parameters of its topic: a tuple, or the value itself if there is one parameter.
    public let parameters: (repeat each Part)

    /// The topic at which it was asked.
    public var topic: TopicName { message.topic }
    /// User Properties, Message Expiry and what else the request says; none before MQTT 5.0.
    public var properties: Properties { message.properties }

    init(_ message: Message, _ call: Call<some Request, repeat each Part>) throws(ClientError) {
        self.message = message
        time = .sinceEpoch
        // Last: the compiler fails on what would have to end these when a later line throws.
        parameters = try call.parameters(of: message.topic)
    }
}

extension Duration {
    /// The time since 1970-01-01 00:00 UTC.
    fileprivate static var sinceEpoch: Duration {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
