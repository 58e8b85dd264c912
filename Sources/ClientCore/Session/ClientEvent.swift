public import MQTTCodec

/// What a client's owner is to know, in the order in which it came about.
public enum ClientEvent: Hashable, Sendable {
    /// The server let us in.
    indirect case connected(ConnackPacket)
    /// The server did not; it closes the connection.
    indirect case refused(ConnackPacket)
    /// A message came. One of QoS 1 or 2 has a token for `acknowledge`.
    case message(ReceivedMessage)
    /// The server has a message of QoS 2 (PUBREC); `published` is still to come.
    case received(PublishTicket)
    /// A message of QoS 1 or 2 has been taken over by the server, or refused with that reason, and with what the server says of it.
    case published(PublishTicket, ReasonCode, AnswerTexts? = nil)
    /// A message of QoS 1 or 2 has waited for longer than its Message Expiry Interval: it is not sent.
    case expired(PublishTicket)
    indirect case subscribed(SubackPacket)
    indirect case unsubscribed(UnsubackPacket)
    /// The next step of an extended authentication is ours.
    indirect case authentication(AuthPacket)
    /// The server says goodbye; it closes the connection.
    indirect case disconnected(DisconnectPacket)
    /// The connection is of no more use: send what waits, then close it.
    case failed(ClientFailure)

    /// What lies where an event was.
    static var taken: ClientEvent { .received(PublishTicket(number: 0)) }
}

/// What a server says for people beside a reason: Reason String and User Properties of an answer. MQTT 5.0 only.
public struct AnswerTexts: Hashable, Sendable {
    /// The Reason String; nil where the server sends none.
    public var words: String?
    /// The answer's own User Properties.
    public var userProperties: [UserProperty]

    public init(words: String? = nil, userProperties: [UserProperty] = []) {
        (self.words, self.userProperties) = (words, userProperties)
    }

    /// Those of an answer's properties; nil where there is neither.
    public init?(_ properties: Properties) {
        if properties.reasonString == nil, properties.userProperties.isEmpty { return nil }
        self.init(words: properties.reasonString?.description, userProperties: properties.userProperties)
    }
}
