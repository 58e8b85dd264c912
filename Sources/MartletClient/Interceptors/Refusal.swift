/// What a server refuses, and why.
public struct Refusal: Hashable, Sendable {
    public enum Subject: Hashable, Sendable {
        /// CONNACK, or the server's DISCONNECT.
        case connection
        case publication(TopicName)
        case subscription([TopicFilter])
    }

    public var subject: Subject
    public var reason: ReasonCode
    /// The server's own words, where it has any.
    public var words: String?

    public init(_ subject: Subject, _ reason: ReasonCode, _ words: String? = nil) {
        (self.subject, self.reason, self.words) = (subject, reason, words)
    }
}

/// What a client does about a refusal, beside telling whoever asked.
public enum RefusalAction: Hashable, Sendable {
    case none
    /// It says goodbye and stays offline until `start()` or `connect()`.
    case logOut
}
