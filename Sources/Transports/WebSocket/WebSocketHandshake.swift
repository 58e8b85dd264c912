internal import Bytes
internal import COpenSSL
internal import HTTP

/// Judges the request that opens a WebSocket, RFC 6455, section 4.2.
struct WebSocketHandshake {
    let settings: WebSocketSettings
    /// The peer, if it is a proxy whose word for its client is believed.
    var proxy: ForwardingProxy?

    /// The outcome of a request that opens the WebSocket.
    struct Acceptance {
        /// The answer.
        let answer: String
        /// Where the request is from, as the proxy in front says; nil where nobody is believed, or nothing but a Unix socket is known.
        let client: PeerAddress?
    }

    func accept(_ bytes: some Collection<UInt8>) throws(HTTPRefusal) -> Acceptance {
        let request = try HTTPRequestHead(bytes)
        let opening = try opening(
            method: request.method, version: request.version, fields: request.fields, host: request.host)
        let client = try proxy?.client(of: request.fields)
        // Spelt as mosquitto does; case means nothing there.
        let answer =
            [
                "HTTP/1.1 101 Switching Protocols", "Upgrade: WebSocket", "Connection: Upgrade",
                "Sec-WebSocket-Accept: \(opening.key)", "Sec-WebSocket-Protocol: \(opening.subprotocol)",
            ].joined(separator: "\r\n") + "\r\n\r\n"
        return Acceptance(answer: answer, client: client?.family == .local ? nil : client)
    }

    /// Judges a request: what shows the client that its key was read, and the subprotocol that is chosen.
    func opening(
        method: HTTPMethod, version: HTTPVersion, fields: HTTPFields, host: String
    ) throws(HTTPRefusal) -> (key: String, subprotocol: String) {
        guard method == .get else {
            throw HTTPRefusal(.methodNotAllowed, "A WebSocket is opened with GET, not \(method).", fields: ["Allow": "GET"])
        }
        guard version == .http11 else {
            throw HTTPRefusal(.versionNotSupported, "A WebSocket is opened with HTTP/1.1.")
        }
        guard fields.names("websocket", in: "Upgrade"), fields.names("upgrade", in: "Connection") else {
            throw Self.upgradeRequired("This port speaks MQTT over WebSocket only: ask for it with Upgrade: websocket.")
        }
        guard fields["Sec-WebSocket-Version"] == "13" else {
            throw Self.upgradeRequired("Sec-WebSocket-Version has to be 13.")
        }
        guard let key = fields["Sec-WebSocket-Key"], fields.count(of: "Sec-WebSocket-Key") == 1, Self.isKey(key) else {
            throw HTTPRefusal(.badRequest, "Sec-WebSocket-Key has to be 16 bytes in base64.")
        }
        guard settings.origins.isEmpty || fields["Origin"].map(settings.origins.contains) == true else {
            throw HTTPRefusal(
                .forbidden, "The origin \(fields["Origin"] ?? "(none)") may not connect; see websockets_origin.")
        }
        try checkSite(fields, host: host)
        return (Self.answer(to: key), try subprotocol(offeredIn: fields))
    }

    /// Objects to pages of other sites where only this machine can connect: its browser would come in for them. One such page names its own
    /// host, and has that name point to this machine.
    private func checkSite(_ fields: HTTPFields, host: String) throws(HTTPRefusal) {
        guard settings.origins.isEmpty, let names = settings.ownNames else { return }
        let host = HTTPHost(host)
        guard host.isLoopback || host.isAddress || names.contains(host.name) else {
            throw HTTPRefusal(
                .misdirectedRequest, "This server is not called \(host.name); see martlet_http_host and websockets_origin.")
        }
        guard let origin = fields["Origin"] else { return }
        let page = HTTPHost(origin: origin)
        guard let page, page.isLoopback || page == host || names.contains(page.name) else {
            throw HTTPRefusal(
                .forbidden,
                "Only this machine's pages may connect here, and the origin \(origin) is none of them; see websockets_origin.")
        }
    }

    /// [MQTT-6.0.0-3 v5] [MQTT-6.0.0-4 v5]; `mqttv3.1` is what was said before there was a standard.
    private func subprotocol(offeredIn fields: HTTPFields) throws(HTTPRefusal) -> String {
        let offered = fields.list("Sec-WebSocket-Protocol")
        guard let chosen = ["mqtt", "mqttv3.1"].first(where: offered.contains) else {
            throw HTTPRefusal(.badRequest, "Sec-WebSocket-Protocol has to offer mqtt.")
        }
        return chosen
    }

    private static func upgradeRequired(_ explanation: String) -> HTTPRefusal {
        HTTPRefusal(.upgradeRequired, explanation, fields: ["Upgrade": "websocket", "Sec-WebSocket-Version": "13"])
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
