/// What is spoken on a listener.
public enum ListenerProtocol: String, Sendable, Equatable, CaseIterable {
    case mqtt
    case webSockets = "websockets"
    case httpAPI = "http_api"
}
