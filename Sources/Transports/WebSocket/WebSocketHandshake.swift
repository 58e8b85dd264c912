internal import Bytes
internal import COpenSSL

/// Judges the request that opens a WebSocket, RFC 6455, section 4.2.
struct WebSocketHandshake {
    let settings: WebSocketSettings

    /// The answer that opens the WebSocket.
    func accept(_ head: some Sequence<UInt8>) throws(HTTPRefusal) -> String {
        guard let request = HTTPRequest(head: head) else {
            throw HTTPRefusal(status: "400 Bad Request", explanation: "This is not a valid HTTP request.")
        }
        guard request.method == "GET" else {
            throw HTTPRefusal(
                status: "405 Method Not Allowed", fields: ["Allow: GET"],
                explanation: "A WebSocket is opened with GET, not \(request.method).")
        }
        guard request.version == "HTTP/1.1" else {
            throw HTTPRefusal(
                status: "505 HTTP Version Not Supported", explanation: "A WebSocket is opened with HTTP/1.1.")
        }
        guard request.fields.list("upgrade").contains(where: { $0.lowercased() == "websocket" }),
            request.fields.list("connection").contains(where: { $0.lowercased() == "upgrade" })
        else {
            throw Self.upgradeRequired("This port speaks MQTT over WebSocket only: ask for it with Upgrade: websocket.")
        }
        guard request.fields["sec-websocket-version"] == "13" else {
            throw Self.upgradeRequired("Sec-WebSocket-Version has to be 13.")
        }
        guard request.fields["host"] != nil else {
            throw HTTPRefusal(status: "400 Bad Request", explanation: "The field Host is missing.")
        }
        guard let key = request.fields["sec-websocket-key"], request.fields.count(of: "sec-websocket-key") == 1, Self.isKey(key)
        else {
            throw HTTPRefusal(status: "400 Bad Request", explanation: "Sec-WebSocket-Key has to be 16 bytes in base64.")
        }
        guard settings.origins.isEmpty || request.fields["origin"].map(settings.origins.contains) == true else {
            throw HTTPRefusal(
                status: "403 Forbidden",
                explanation: "The origin \(request.fields["origin"] ?? "(none)") may not connect; see websockets_origin.")
        }
        // Spelt as mosquitto does; case means nothing there.
        return [
            "HTTP/1.1 101 Switching Protocols", "Upgrade: WebSocket", "Connection: Upgrade",
            "Sec-WebSocket-Accept: \(Self.answer(to: key))", "Sec-WebSocket-Protocol: \(try subprotocol(of: request))",
        ].joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// [MQTT-6.0.0-3 v5] [MQTT-6.0.0-4 v5]; `mqttv3.1` is what was said before there was a standard.
    private func subprotocol(of request: HTTPRequest) throws(HTTPRefusal) -> String {
        let offered = request.fields.list("sec-websocket-protocol")
        guard let chosen = ["mqtt", "mqttv3.1"].first(where: offered.contains) else {
            throw HTTPRefusal(
                status: "400 Bad Request", explanation: "Sec-WebSocket-Protocol has to offer mqtt.")
        }
        return chosen
    }

    private static func upgradeRequired(_ explanation: String) -> HTTPRefusal {
        HTTPRefusal(
            status: "426 Upgrade Required", fields: ["Upgrade: websocket", "Sec-WebSocket-Version: 13"],
            explanation: explanation)
    }

    /// 22 digits and two signs of padding; the last digit's unused bits are forgiven.
    private static func isKey(_ text: String) -> Bool {
        text.utf8.count == 24 && text.hasSuffix("==") && text.utf8.prefix(22).allSatisfy(Base64.isDigit)
    }

    /// Shows the client that we have read its key. SHA-1 is no protection here, and none is needed.
    static func answer(to key: String) -> String {
        let text = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        _ = SHA1(text, text.count, &digest)
        return Base64.encode(digest)
    }
}
