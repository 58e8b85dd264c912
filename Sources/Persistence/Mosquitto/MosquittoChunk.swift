/// The kinds of chunk that a file of mosquitto's is made of.
public enum MosquittoChunk: UInt32, Sendable {
    case configuration = 1
    case message
    case clientMessage
    case retained
    case subscription
    case client

    /// What the operator reads.
    var words: String {
        switch self {
        case .configuration: "the configuration"
        case .message: "a message"
        case .clientMessage: "a message of a client"
        case .retained: "a retained message"
        case .subscription: "a subscription"
        case .client: "a client"
        }
    }
}
