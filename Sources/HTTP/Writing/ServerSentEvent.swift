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
