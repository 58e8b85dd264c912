/// The commands that are clients of a broker, under the names that follow `martlet`.
public enum ClientCommand: String, Sendable, CaseIterable {
    case pub, sub, request, respond, mirror

    /// The program of mosquitto's that takes the same options; nil where it has none.
    public var counterpart: String? {
        switch self {
        case .pub: "mosquitto_pub"
        case .sub: "mosquitto_sub"
        case .request: "mosquitto_rr"
        case .respond, .mirror: nil
        }
    }
}
