/// What an answer is, where it is not the response: the value of a User Property of its message.
enum AnswerStatus: String {
    /// The payload is the request's failure.
    case failure
    /// The responder failed and does not tell how.
    case `internal`
    /// The responder could not read the request.
    case undecodable
    /// The responder is leaving and has not run the request.
    case unavailable

    private static let name: EncodedString = "martlet-answer"

    /// Nil for a response, also for those of others than this library.
    init?(_ message: ReceivedMessage) {
        guard message.hasUserProperties, let property = message.properties.userProperties.first(where: { $0.name == Self.name })
        else { return nil }
        self.init(rawValue: "\(property.value)")
    }

    var userProperty: UserProperty {
        UserProperty(name: Self.name, value: EncodedString(rawValue) ?? EncodedString())
    }
}
