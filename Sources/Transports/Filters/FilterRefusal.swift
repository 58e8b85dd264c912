/// The peer broke the protocol of a layer below MQTT, or that layer did not let it in.
public struct FilterRefusal: Error, Sendable, Equatable {
    public enum Layer: String, Sendable {
        case proxyProtocol = "PROXY protocol"
        /// A proxy that we connect through; the reason is the end of a sentence about it.
        case proxy
        case tls = "TLS"
        case webSocket = "WebSocket"
    }

    public let layer: Layer
    /// What was wrong, as a part of a sentence.
    public let reason: String
    /// Whether it is about who the peer is, such as its certificate.
    public let isOfLogin: Bool

    init(_ layer: Layer, _ reason: String, isOfLogin: Bool = false) {
        self.layer = layer
        self.reason = reason
        self.isOfLogin = isOfLogin
    }
}

extension FilterRefusal: CustomStringConvertible {
    /// `TLS: certificate verify failed`.
    public var description: String { layer == .proxy ? "the proxy \(reason)" : "\(layer.rawValue): \(reason)" }
}
