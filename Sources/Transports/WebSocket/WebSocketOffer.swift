internal import Bytes
internal import HTTP
internal import Platform

/// What a client says to open a WebSocket, RFC 6455, section 4.1, and which answer it takes.
struct WebSocketOffer {
    let settings: WebSocketClientSettings
    /// Random; the answer shows that the server has read it.
    private let key: String

    init(_ settings: WebSocketClientSettings) {
        self.settings = settings
        var bytes = [UInt8](repeating: 0, count: 16)
        bytes.withUnsafeMutableBytes { RandomBytes.fill($0) }
        key = Base64.encode(bytes)
    }

    /// [MQTT-6.0.0-3 v5]
    var request: String {
        let own = [
            "GET \(settings.path) HTTP/1.1", "Host: \(settings.host)", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: \(key)", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt",
        ]
        let others = settings.fields.filter { $0.flaw == nil }.map { "\($0.name): \($0.value)" }
        return (own + others).joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Finds what is wrong with the server's answer, nil when it opens the WebSocket.
    func flaw(inAnswer head: some Collection<UInt8>) -> String? {
        guard let response = HTTPResponseHead(head), response.version == .http11 else { return "the server's answer is not HTTP" }
        guard response.status.rawValue == 101 else { return "the server answers \(response.status.rawValue) \(response.reason)" }
        let fields = response.fields
        guard fields.names("websocket", in: "Upgrade"), fields.names("upgrade", in: "Connection"),
            fields["Sec-WebSocket-Accept"] == WebSocketHandshake.answer(to: key)
        else { return "the server's answer does not belong to the request" }
        guard fields["Sec-WebSocket-Protocol"] == "mqtt" else { return "the server does not speak MQTT over WebSocket" }
        return nil
    }
}
