/// One event of a stream as HTML, section 9.2, writes it.
public struct ServerSentEvent: Sendable, Equatable {
    /// What a client that comes back says it has seen last; nil leaves it out.
    public var id: String?
    /// Its type; nil is `message`.
    public var event: String?
    /// Text, of one line or more.
    public var data: String

    public init(id: String? = nil, event: String? = nil, data: String) {
        self.id = id
        self.event = event
        self.data = data
    }

    /// The lines that it is sent as, with the empty one that ends it. Line ends in id and type become blanks.
    public var bytes: [UInt8] {
        var text = ""
        if let id { text += "id: \(Self.oneLine(id))\n" }
        if let event { text += "event: \(Self.oneLine(event))\n" }
        // Bytes, for CR LF is one Character.
        var line: [UInt8] = []
        var previous: UInt8 = 0
        for byte in data.utf8 {
            defer { previous = byte }
            if byte == 0x0A, previous == 0x0D { continue }
            guard byte == 0x0A || byte == 0x0D else {
                line.append(byte)
                continue
            }
            text += "data: \(String(decoding: line, as: UTF8.self))\n"
            line = []
        }
        return Array((text + "data: \(String(decoding: line, as: UTF8.self))\n\n").utf8)
    }

    /// A line that clients pass over: it keeps the connection, and shows whether the peer is still there.
    public static func comment(_ text: String) -> [UInt8] { Array(": \(oneLine(text))\n\n".utf8) }

    private static func oneLine(_ text: String) -> String {
        String(decoding: text.utf8.map { $0 == 0x0A || $0 == 0x0D || $0 == 0 ? 0x20 : $0 }, as: UTF8.self)
    }
}

extension HTTPResponse {
    /// The head of the answer to a request, with its last empty line.
    ///
    /// - Parameters:
    ///   - version: the request's; one of HTTP/1.0 gets a stream without chunks, which the end of the connection ends.
    ///   - endsConnection: whether the connection ends with it.
    ///   - date: the time of the answer, as `HTTPDate` writes it; nil leaves it out.
    public func head(version: HTTPVersion = .http11, endsConnection: Bool, date: String? = nil) -> [UInt8] {
        var text = "HTTP/1.1 \(status)\r\n"
        if let date { text += "Date: \(date)\r\n" }
        for field in fields.all { text += "\(field.name): \(field.value)\r\n" }
        switch body {
        case _ where status.hasNoBody: break
        case .bytes(let bytes): text += "Content-Length: \(bytes.count)\r\n"
        case .content(let content): text += "Content-Length: \(content.byteCount)\r\n"
        case .stream where version == .http11: text += "Transfer-Encoding: chunked\r\n"
        case .stream, .upgraded: break
        }
        if endsConnection { text += "Connection: close\r\n" }
        return Array((text + "\r\n").utf8)
    }

    /// The whole answer of one whose body is whole. The connection ends after it.
    public var wholeBytes: [UInt8] { head(endsConnection: true) + (bytes ?? []) }
}

/// How a stream's pieces are framed, RFC 9112, section 7.1.
public enum HTTPChunk {
    /// A piece as one chunk; nothing of an empty one, which would end the body.
    public static func encode(_ piece: [UInt8]) -> [UInt8] {
        piece.isEmpty ? [] : Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + [0x0D, 0x0A]
    }

    /// What ends the body.
    public static let end = Array("0\r\n\r\n".utf8)
}
