internal import Bytes
internal import COpenSSL
public import HTTP

/// The server's side of a WebSocket that carries MQTT on a connection which somebody else reads and writes, as a server
/// of HTTP does.
///
///     answer(to:) ─► decode, encode … ─► finish()
///
/// Owned by the thread of that connection.
public final class WebSocketTunnel {
    /// What has come from the peer.
    public struct Decoded {
        /// Bytes of MQTT.
        public var bytes: [UInt8]
        /// What the peer is answered beside MQTT: pongs, and its Close.
        public var reply: [UInt8]
        /// Whether nothing more comes.
        public var isEnded: Bool
    }

    private let filter: WebSocketFilter
    private let scratch = ByteBlock(capacity: Limits.filteredSlackBytes)
    private let reply = ByteBlock(capacity: 1 << 10)

    public init(_ settings: WebSocketSettings) { filter = WebSocketFilter(opened: settings) }

    /// The fields of the answer that opens a WebSocket, which has the status 101.
    public static func answer(to request: HTTPRequest, _ settings: WebSocketSettings) throws(HTTPRefusal) -> HTTPFields {
        let opening = try WebSocketHandshake(settings: settings).opening(
            method: request.method, version: request.version, fields: request.fields, host: request.host)
        return [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": opening.key,
            "Sec-WebSocket-Protocol": opening.subprotocol,
        ]
    }

    public func decode(_ bytes: UnsafeRawBufferPointer) -> Decoded {
        scratch.removeAll()
        reply.removeAll()
        _ = scratch.extend(by: bytes.count + Limits.filteredSlackBytes)
        let decoding = filter.decode(bytes, into: scratch.room, reply: reply)
        return Decoded(
            bytes: Array(scratch.room[..<decoding.count]), reply: Array(reply.bytes), isEnded: decoding.end != nil)
    }

    /// Bytes of MQTT, each packet in a frame of its own.
    public func encode(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        guard let base = bytes.baseAddress else { return [] }
        scratch.removeAll()
        let slice = ByteSlice(base: base, count: bytes.count)
        withUnsafePointer(to: slice) { filter.encode(UnsafeBufferPointer(start: $0, count: 1), into: scratch) }
        return Array(scratch.bytes)
    }

    /// The farewell; empty if there was one.
    public func finish() -> [UInt8] {
        scratch.removeAll()
        filter.finish(into: scratch)
        return Array(scratch.bytes)
    }
}

/// What a listener demands of those that come over WebSocket.
public struct WebSocketSettings: Sendable, Equatable {
    /// The values of Origin that are let in, each compared whole; none lets all in.
    public var origins: [String]
    /// How long the head of the HTTP request may be.
    public var headerBytesMax: Int
    /// The longest frame that is taken. Frames are passed on as they come, so this is no buffer's size.
    public var frameBytesMax: UInt64
    /// Where only this machine can connect: what it is called besides localhost, in lower case. A page of another site
    /// must not use the browser of this machine to come in, so that requests for other names, and of pages of other
    /// sites, are refused unless `origins` has any. nil where other machines can connect.
    public var ownNames: [String]?

    public init(
        origins: [String] = [], headerBytesMax: Int = 4096, frameBytesMax: UInt64 = 268_435_460, ownNames: [String]? = nil
    ) {
        self.origins = origins
        self.ownNames = ownNames
        self.headerBytesMax = headerBytesMax
        self.frameBytesMax = frameBytesMax
    }
}

/// What a client of a WebSocket asks for.
public struct WebSocketClientSettings: Sendable, Equatable {
    /// The server's name, as the field Host has it, with the port if that is not the usual one.
    public var host: String
    /// What follows the host in the address, beginning with a slash, with the query.
    public var path: String
    /// Fields beside those of the handshake, in this order. Those with a `flaw` would make another request of it.
    public var fields: [Field]
    /// The longest frame that is taken.
    public var frameBytesMax: UInt64

    public init(host: String, path: String = "/mqtt", fields: [Field] = [], frameBytesMax: UInt64 = 268_435_460) {
        self.host = host
        self.path = path
        self.fields = fields
        self.frameBytesMax = frameBytesMax
    }

    /// A field of the request's head.
    public struct Field: Sendable, Equatable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }

        /// The reason why the field may not be sent, as the end of a sentence that begins with its name; nil if it may.
        public var flaw: String? {
            guard !name.isEmpty, name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }) else {
                return "is no name of a header: that has letters, digits and hyphens"
            }
            guard value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                return "has a value with control characters, such as a line's end"
            }
            let lowercased = name.lowercased()
            return Self.own.contains(lowercased) || lowercased.hasPrefix("sec-websocket-") ? "is set by the handshake itself" : nil
        }

        private static let own: Set = ["host", "upgrade", "connection", "content-length", "transfer-encoding"]
    }
}

/// Judges the request that opens a WebSocket, RFC 6455, section 4.2.
struct WebSocketHandshake {
    let settings: WebSocketSettings
    /// The peer, if it is a proxy whose word for its client is believed.
    var proxy: ForwardingProxy?

    /// The outcome of a request that opens the WebSocket.
    struct Acceptance {
        /// The answer.
        let answer: String
        /// Where the request is from, as the proxy in front says; nil where nobody is believed, or nothing but a Unix
        /// socket is known.
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

    /// Objects to pages of other sites where only this machine can connect: its browser would come in for them. One
    /// such page names its own host, and has that name point to this machine.
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
