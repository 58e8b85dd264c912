/// The commands that are clients of a broker, under the names that follow `martlet`.
public enum ClientCommand: String, Sendable, CaseIterable {
    case pub, sub, request, respond, mirror

    /// The program of mosquitto's whose file of defaults is read; nil where there is none.
    public var counterpart: String? {
        switch self {
        case .pub: "mosquitto_pub"
        // A mirror subscribes, to the same broker and as the same user.
        case .sub, .mirror: "mosquitto_sub"
        case .request: "mosquitto_rr"
        case .respond: nil
        }
    }
}
