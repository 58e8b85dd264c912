/// The peer broke the protocol of a layer below MQTT, or that layer did not let it in.
public struct FilterRefusal: Error, Sendable, Equatable {
    public enum Layer: String, Sendable {
        case proxyProtocol = "PROXY protocol"
        case tls = "TLS"
        case webSocket = "WebSocket"
    }

    public let layer: Layer
    /// What was wrong, as a part of a sentence.
    public let reason: String

    init(_ layer: Layer, _ reason: String) {
        self.layer = layer
        self.reason = reason
    }
}

extension FilterRefusal: CustomStringConvertible {
    /// `TLS: certificate verify failed`.
    public var description: String { "\(layer.rawValue): \(reason)" }
}
