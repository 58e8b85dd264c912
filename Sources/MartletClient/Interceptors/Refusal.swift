internal import ClientCore

/// What a server refuses, and why.
public struct Refusal: Hashable, Sendable {
    /// What was refused.
    public enum Subject: Hashable, Sendable {
        /// CONNACK, or the server's DISCONNECT.
        case connection
        /// A message to this topic.
        case publication(TopicName)
        /// A subscription to these filters.
        case subscription([TopicFilter])
    }

    /// What the server refused.
    public var subject: Subject
    /// Why, by the standard's reason code.
    public var reason: ReasonCode
    /// The server's own words, where it has any.
    public var words: String?
    /// The User Properties of its answer.
    public var userProperties: [UserProperty]

    /// A refusal, with the server's own words and User Properties if it has any.
    public init(
        _ subject: Subject, _ reason: ReasonCode, _ words: String? = nil, userProperties: [UserProperty] = []
    ) {
        (self.subject, self.reason, self.words, self.userProperties) = (subject, reason, words, userProperties)
    }
}

extension Refusal {
    init(_ subject: Subject, _ reason: ReasonCode, _ texts: AnswerTexts?) {
        self.init(subject, reason, texts?.words, userProperties: texts?.userProperties ?? [])
    }
}

extension Refusal {
    /// What a client does about a refusal, beside telling whoever asked.
    public enum Action: Hashable, Sendable {
        /// The client goes on.
        case none
        /// It says goodbye and stays offline until `start()` or `connect()`.
        case logOut
    }
}
