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

        /// What is wrong with it, as the end of a sentence that begins with its name; nil for a field that may be sent.
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
