import Glibc
import HTTP
import Platform
import Testing
import Transports

@testable import Commands

/// One connection of a server whose answer is known.
private final class OneAnswer: Sendable {
    let port: UInt16
    private let listener: Int32
    private let received = Locked<[UInt8]>([])
    private let thread: NamedThread

    /// Reads until the request's head has ended, writes the pieces, and closes.
    init(_ pieces: [String]) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(listener, $0, size)
                _ = listen(listener, 1)
                _ = getsockname(listener, $0, &size)
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        self.listener = listener
        let received = received
        thread = try NamedThread.start(name: "answer") {
            let connection = accept(listener, nil, nil)
            var request: [UInt8] = []
            while !request.suffix(4).elementsEqual("\r\n\r\n".utf8), request.last != UInt8(ascii: "}") {
                let chunk = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
                    count = max(0, read(connection, buffer.baseAddress, buffer.count))
                }
                if chunk.isEmpty { break }
                request += chunk
            }
            received.withLock { $0 = request }
            for piece in pieces {
                let bytes = Array(piece.utf8)
                _ = write(connection, bytes, bytes.count)
            }
            close(connection)
        }
    }

    deinit { close(listener) }

    var request: String { received.withLock { String(decoding: $0, as: UTF8.self) } }

    func service(_ credentials: BrokerService.Credentials = .none, patience: UInt64 = 60_000) -> BrokerService {
        BrokerService(
            .tcp(host: "127.0.0.1", port: port, usesTLS: false), ClientLayers(), credentials, patienceMilliseconds: patience)
    }
}

@Suite(.timeLimit(.minutes(10))) struct BrokerServiceTests {
    @Test func `a request says who asks, and the answer comes whole`() throws {
        let peer = try OneAnswer(["HTTP/1.1 201 Created\r\nContent-Len", "gth: 7\r\n\r\n{\"a\"", ":1}"])
        let request = ControlRequest(.post, ["bans"], query: [("a", "c&d"), ("left out", nil)], body: "{\"x\":1}")
        let answer = try peer.service(.token("mrt_secret")).answer(to: request)
        #expect(answer == ControlAnswer(status: 201, body: Array("{\"a\":1}".utf8)))
        let lines = peer.request.split(separator: "\r\n")
        #expect(lines.first == "POST /api/martlet/v1/bans?a=c%26d HTTP/1.1")
        #expect(lines.contains("Authorization: Bearer mrt_secret") && lines.contains("Content-Length: 7"))
        #expect(lines.contains("Host: 127.0.0.1:\(peer.port)") && lines.last == "{\"x\":1}")
    }

    @Test func `events come until the stream ends, or nobody wants more`() throws {
        let stream = [
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n", "data: 1\n\ndata", ": 2\n\ndata: 3\n\n",
        ]
        var seen: [String] = []
        let whole = try OneAnswer(stream)
        try whole.service().follow(ControlRequest(["events"])) { event in
            seen.append(event.data)
            return true
        }
        #expect(seen == ["1", "2", "3"])
        seen = []
        let left = try OneAnswer(stream)
        try left.service().follow(ControlRequest(["events"])) { event in
            seen.append(event.data)
            return false
        }
        #expect(seen == ["1"])
        #expect(whole.request.hasPrefix("GET /api/martlet/v1/events HTTP/1.1\r\n"))
        #expect(left.request.hasPrefix("GET "))
    }

    @Test func `a stream that is refused says why`() throws {
        let body = "{\"code\":\"TOO_MANY_REQUESTS\",\"message\":\"Enough.\"}"
        let peer = try OneAnswer(["HTTP/1.1 429 Too Many Requests\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"])
        #expect(throws: ControlError(.refused, "Enough.")) { try peer.service().follow(ControlRequest(["events"])) { _ in true } }
    }

    @Test func `what is no answer is told from none`() throws {
        let cut = try OneAnswer(["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"])
        #expect(throws: ControlError(.unreachable, "http://127.0.0.1:\(cut.port): what it answers ends before it is whole.")) {
            _ = try cut.service().answer(to: ControlRequest(["broker"]))
        }
        let stranger = try OneAnswer(["220 mail.example ESMTP\r\n"])
        #expect(throws: ControlError(.unreachable, "http://127.0.0.1:\(stranger.port): what it answers is no answer of HTTP.")) {
            _ = try stranger.service().answer(to: ControlRequest(["broker"]))
        }
    }

    @Test func `nobody who listens, and no such socket, are said so`() {
        let missing = BrokerService(.unixSocket(path: "/nowhere/x.sock"), ClientLayers(), .none, patienceMilliseconds: 60_000)
        do throws(ControlError) {
            _ = try missing.answer(to: ControlRequest(["broker"]))
            Issue.record("an answer from nowhere")
        } catch {
            #expect(error.code == .unreachable && error.description.hasPrefix("/nowhere/x.sock: "))
        }
    }
}
