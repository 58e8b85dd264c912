import Testing

@testable import NATSClient

/// What servers say, cut into operations.
@Suite struct OperationReaderTests {
    /// One conversation with each operation, and what is to be read of it.
    static let conversation = [
        "INFO {\"server_id\":\"A\",\"version\":\"2.14.0\",\"max_payload\":1048576,\"headers\":true,\"nonce\":\"n\"} \r\n",
        "+OK\r\n", "PING\r\n", "PONG\r\n", "-ERR 'Unknown Protocol Operation'\r\n",
        "MSG a.b 1 5\r\nhello\r\n", "MSG a.b 18 re.ply 0\r\n\r\n", "msg\ta.b  7\t re 2\r\n\r\n\r\n",
        "HMSG a 2 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n", "HMSG a 2 r 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
        "MSG x 3 7\r\nMSG \r\n \r\n", "ping\r\n",
    ].joined()

    static let read = [
        "info 2.14.0 1048576 n", "ok", "ping", "pong", "error Unknown Protocol Operation", "a.b 1 '' '' 'hello'",
        "a.b 18 're.ply' '' ''", "a.b 7 're' '' '\r\n'", "a 2 '' 'NATS/1.0\r\nA: b\r\n\r\n' 'hi'",
        "a 2 'r' 'NATS/1.0 503\r\n\r\n' ''", "x 3 '' '' 'MSG \r\n '", "ping",
    ]

    static func text(_ operation: ServerOperation) -> String {
        func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }
        return switch operation {
        case .info(let info): "info \(info.version) \(info.payloadBytesMax) \(info.nonce ?? "-")"
        case .message(let view):
            "\(text(view.subject)) \(view.subscription) '\(text(view.reply))' '\(text(view.headers))' '\(text(view.payload))'"
        case .ping: "ping"
        case .pong: "pong"
        case .ok: "ok"
        case .error(let words): "error \(words)"
        }
    }

    static func read(_ pieces: [ArraySlice<UInt8>]) throws(WireError) -> [String] {
        var reader = OperationReader()
        var read: [String] = []
        for piece in pieces {
            try Array(piece).withUnsafeBufferPointer { (bytes) throws(WireError) in
                try reader.read(UnsafeRawBufferPointer(bytes)) {
                    read.append(text($0))
                    return true
                }
            }
        }
        return read
    }

    @Test func `every operation is read`() throws {
        #expect(try Self.read([Array(Self.conversation.utf8)[...]]) == Self.read)
    }

    @Test func `wherever a conversation is cut, the same is read`() throws {
        let bytes = Array(Self.conversation.utf8)
        for cut in 1..<bytes.count {
            #expect(try Self.read([bytes[..<cut], bytes[cut...]]) == Self.read, "cut at \(cut)")
        }
        #expect(try Self.read(bytes.indices.map { bytes[$0...$0] }) == Self.read)
        #expect(try Self.read(stride(from: 0, to: bytes.count, by: 3).map { bytes[$0..<min($0 + 3, bytes.count)] }) == Self.read)
    }

    @Test func `what stands behind the operation that ends the reading is dropped, wherever it is cut`() throws {
        let bytes = Array(Self.conversation.utf8)
        for cut in 0...bytes.count {
            var reader = OperationReader()
            var count = 0
            for piece in [bytes[..<cut], bytes[cut...]] where count < 3 {
                try Array(piece).withUnsafeBufferPointer { (bytes) throws(WireError) in
                    try reader.read(UnsafeRawBufferPointer(bytes)) { _ in
                        count += 1
                        return count < 3
                    }
                }
            }
            #expect(count == 3 && reader.waitingByteCount == 0, "cut at \(cut)")
        }
    }

    @Test(arguments: [
        "PING\n", "PING x\r\n", "\r\n", "BLAH\r\n", "PINGS\r\n", "MSG a 1\r\n", "MSG a b 1\r\n", "MSG a 1 -1\r\n", "MSG a 1 +1\r\n",
        "MSG a 1 r 2 3\r\n", "MSG a 1 99999999999\r\n", "MSG a 1 9999999999999999999999\r\n", "MSG a 1 2\r\nabc\r\n",
        "MSG a\u{1}b 1 0\r\n",
        "MSG a 1 2\r\nab\n\n", "HMSG a 1 5\r\n", "HMSG a 1 6 5\r\n", "HMSG a 1 r x 5\r\n", "INFO\r\n", "INFO {}\r\n", "INFO []\r\n",
        "INFO {\"version\":\"x\",\"max_payload\":1}\r\n", "INFO {\"version\":\"2.1.1\",\"max_payload\":0}\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
    ])
    func `what is not as the protocol has it is refused`(_ text: String) {
        #expect(throws: WireError.self) { try Self.read([Array(text.utf8)[...]]) }
        let bytes = Array(text.utf8)
        #expect(throws: WireError.self) { try Self.read(bytes.indices.map { bytes[$0...$0] }) }
    }

    @Test func `a line without an end is refused before it takes much memory`() {
        #expect(throws: WireError.self) { try Self.read(Array(repeating: [UInt8](repeating: 0x41, count: 4096)[...], count: 20)) }
    }

    @Test func `a megabyte is read however it comes`() throws {
        let payload = [UInt8](repeating: 0x61, count: 1 << 20)
        let bytes = Array("MSG a 1 \(payload.count)\r\n".utf8) + payload + Array("\r\nPING\r\n".utf8)
        let pieces = stride(from: 0, to: bytes.count, by: 10_000).map { bytes[$0..<min($0 + 10_000, bytes.count)] }
        let read = try Self.read(pieces)
        #expect(read.count == 2 && read[0].utf8.count == payload.count + "a 1 '' '' ''".utf8.count && read[1] == "ping")
    }

    @Test func `what a client writes is what servers know`() throws {
        var writer = OperationWriter()
        let subject = try #require(Subject("a.b"))
        var headers = MessageHeaders()
        #expect(headers.add("Nats-Msg-Id", "7") && !headers.add("a:b", "") && !headers.add("", "") && !headers.add("a", "b\r\nc"))
        writer.connect("{}")
        writer.publish(subject, payload: Array("hello".utf8))
        writer.publish(subject, reply: subject, payload: [])
        writer.publish(subject, headers: headers, payload: Array("x".utf8))
        writer.publish(subject, headers: MessageHeaders(), payload: [])
        writer.subscribe(try #require(SubjectPattern("a.*.>")), subscription: 3)
        writer.unsubscribe(3)
        writer.ping()
        writer.pong()
        #expect(
            String(decoding: writer.bytes, as: UTF8.self) == """
                CONNECT {}\r
                PUB a.b 5\r
                hello\r
                PUB a.b a.b 0\r
                \r
                HPUB a.b 28 29\r
                NATS/1.0\r
                Nats-Msg-Id: 7\r
                \r
                x\r
                PUB a.b 0\r
                \r
                SUB a.*.> 3\r
                UNSUB 3\r
                PING\r
                PONG\r

                """)
    }
}
