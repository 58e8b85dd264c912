/// How a collection is kept.
public struct CollectionSettings: Hashable, Sendable {
    /// When everything is asked for again.
    public var resynchronize = Resynchronize.always
    /// The highest QoS at which values come, and that of writes; at least 1, as what gets lost would never be corrected.
    public var qos = QoS.atLeastOnce
    /// How many topics the collection may have; more are left out and counted.
    public var entriesMax = 1_000_000
    /// How many bytes their names and payloads may have together; what does not fit is left out and counted.
    public var bytesMax = 256 << 20
    /// How long a write that the server has taken over may take to come back. Then it is rolled back: a server before MQTT 5.0 cannot say that it
    /// drops a message.
    public var echoPatience = Duration.seconds(10)

    // What follows is for servers that do not tell when they have sent all that they retain. Then the end is a guess: a message of one's own that
    // has come back, and silence after that. A server that is slow, or sends its retained messages later than others, makes it wrong; then
    // entries go and come back, and the collection is right again.

    /// Below which topic the collection publishes and awaits a message of its own after it has subscribed; nil for none.
    public var fence: TopicName? = "martlet/fence"
    /// How long no retained message may have come.
    public var quiet = Duration.milliseconds(250)

    /// As the properties say.
    public init() {}
}

extension CollectionSettings {
    /// When a collection asks its server for everything again.
    public enum Resynchronize: Hashable, Sendable {
        /// On each new connection: also a server that keeps the session drops messages when their queue is full, and tells nobody.
        case always
        /// Only when the server has lost the session.
        case whenSessionLost
    }
}
