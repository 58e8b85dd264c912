import Testing

@testable import HTTP

@Suite struct ResponseReaderTests {
    /// What a reader gives of bytes that come one by one, or so many at once; the connection is closed behind them.
    private func read(
        _ text: String, to method: HTTPMethod = .get, bodyBytesMax: Int? = 100, at once: Int = 1, closes: Bool = true
    ) throws(HTTPResponseError) -> (status: Int, body: String, isWhole: Bool) {
        var reader = HTTPResponseReader(to: method, bodyBytesMax: bodyBytesMax)
        var (status, body) = (0, [UInt8]())
        var rest = Array(text.utf8)[...]
        while true {
            switch try reader.next() {
            case .head(let head): status = head.status.rawValue
            case .body(let piece): body += piece
            case .end: return (status, String(decoding: body, as: UTF8.self), true)
            case .needsMore where rest.isEmpty:
                if closes {
                    try reader.finish()
                    continue
                }
                return (status, String(decoding: body, as: UTF8.self), false)
            case .needsMore:
                reader.append(rest.prefix(once))
                rest = rest.dropFirst(once)
            }
        }
    }

    @Test(arguments: [1, 2, 7, 1000])
    func `a body is as long as its length says, its chunks say, or the connection lasts`(once: Int) throws {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let found = try read(answer, at: once)
            #expect(found.status == 200 && found.body == "hello" && found.isWhole)
        }
    }

    @Test func `answers to HEAD, 204 and 304 have no body`() throws {
        #expect(try read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", to: .head, closes: false).isWhole)
        #expect(try read("HTTP/1.1 204 No Content\r\n\r\n", closes: false).isWhole)
        #expect(try read("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", closes: false).isWhole)
    }

    @Test(arguments: [
        "220 smtp.example ready\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ])
    func `what is no clear answer is refused`(answer: String) {
        #expect(throws: HTTPResponseError.self) { try read(answer) }
    }

    @Test func `an answer that the connection cuts is told from a whole one`() {
        for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", "HTTP/1.1 200 OK\r\nTransfer-Enc", ""] {
            #expect(throws: HTTPResponseError("ends before it is whole")) { try read(answer) }
        }
    }

    @Test func `head and body have their bounds`() throws {
        let long = String(repeating: "x", count: 101)
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n\(long)",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n\(long.dropFirst())\r\n1\r\nx\r\n0\r\n\r\n",
        ] {
            #expect(throws: HTTPResponseError("is longer than 100 bytes")) { try read(answer, at: 10) }
        }
        let fields = String(repeating: "A: \(long)\r\n", count: 200)
        #expect(throws: HTTPResponseError.self) { try read("HTTP/1.1 200 OK\r\n\(fields)", at: 1000) }
        let informational = String(repeating: "HTTP/1.1 102 Wait\r\n\r\n", count: 9)
        #expect(throws: HTTPResponseError.self) { try read(informational, at: 1000, closes: false) }
        // A stream has none for all of it.
        #expect(try read("HTTP/1.1 200 OK\r\n\r\n\(long)", bodyBytesMax: nil).body.count == 101)
    }

    @Test(arguments: [1, 3, 1000])
    func `events are read as HTML says, in whatever pieces they come`(once: Int) throws {
        let sent = [
            ServerSentEvent(id: "7", event: "packet", data: "{\"a\":1}"), ServerSentEvent(id: "7", data: "one\ntwo\n"),
        ]
        var bytes = [0xEF, 0xBB, 0xBF] + ServerSentEvent.comment("hello") + sent[0].bytes
        bytes += Array("data: one\r\ndata:two\rdata\r\nretry: 3\nevent\n\n".utf8)
        // Without data it is none.
        bytes += Array("event: x\n\ndata: cut".utf8)
        var reader = ServerSentEventReader()
        var events: [ServerSentEvent] = []
        for start in stride(from: 0, to: bytes.count, by: once) { events += try reader.read(bytes[start...].prefix(once)) }
        #expect(events.count == 2)
        #expect(events.first == sent[0])
        #expect(events.last?.data == sent[1].data)
    }

    @Test func `an event without an end is refused`() {
        var reader = ServerSentEventReader()
        #expect(throws: HTTPResponseError.self) {
            _ = try reader.read([UInt8](repeating: 0x61, count: Limits.eventBytesMax + 1))
        }
    }
}
