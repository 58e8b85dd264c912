/// What a line of the log is about, one by one: for logs that programs read.
public final class LogFields: Sendable {
    /// The Client Identifier, as the log shows it.
    public let client: String?
    public let user: String?
    /// The peer's address, without its port.
    public let address: String?
    public let topic: String?
    /// Why something was refused or has ended.
    public let reason: String?

    /// The fields of a line; nil for those that it has not.
    public init(
        client: String? = nil, user: String? = nil, address: String? = nil, topic: String? = nil, reason: String? = nil
    ) {
        self.client = client
        self.user = user
        self.address = address
        self.topic = topic
        self.reason = reason
    }
}
