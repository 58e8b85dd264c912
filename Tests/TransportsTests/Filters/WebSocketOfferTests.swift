import Testing

@testable import Transports

/// The client's side of a WebSocket: against the server's own, and against servers that do something else.
@Suite struct WebSocketOfferTests {
    private func client() -> FilterDriver { FilterDriver(WebSocketFilter(WebSocketClientSettings(host: "broker.example:9001"))) }

    private func server() -> FilterDriver { FilterDriver(WebSocketFilter(WebSocketSettings())) }

    @Test(arguments: [1, 3, 100, .max]) func `both sides open and pass bytes, wherever they are cut`(piece: Int) throws {
        let (client, server) = (client(), server())
        FilterDriver.converse(client, server, piece: piece)
        #expect(client.filter.isOpen && server.filter.isOpen)
        for length in [1, 7, 125, 126, 70_000] {
            let payload = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 11) }
            let before = server.decoded.count
            var rest = try client.send([Array(payload.prefix(5)), Array(payload.dropFirst(5))])[...]
            while !rest.isEmpty {
                server.receive(rest.prefix(piece))
                rest = rest.dropFirst(piece)
            }
            #expect(Array(server.decoded[before...]) == payload)
        }
        let packet: [UInt8] = [0x30, 3, 0, 1, 0x74]
        client.receive(try server.send([packet]))
        #expect(client.decoded == packet)
        server.receive(client.finish())
        #expect(server.hasEndedInOrder)
    }

    @Test func `the request names the host, and no two have the same key`() {
        let requests = (0..<2).map { _ in
            let client = client()
            client.begin()
            return String(decoding: client.replies, as: UTF8.self)
        }
        #expect(requests[0].hasPrefix("GET /mqtt HTTP/1.1\r\nHost: broker.example:9001\r\n"))
        #expect(requests[0] != requests[1])
    }

    @Test func `headers and query go with the request, but none that would change it`() {
        let settings = WebSocketClientSettings(
            host: "h", path: "/mqtt?token=1",
            fields: [
                .init("Authorization", "Bearer x"), .init("Host", "other"), .init("X", "a\r\nY: b"), .init("X Y", "z"),
                .init("sec-websocket-key", "k"),
            ])
        let client = FilterDriver(WebSocketFilter(settings))
        client.begin()
        let lines = String(decoding: client.replies, as: UTF8.self).split(separator: "\r\n").map(String.init)
        #expect(lines.first == "GET /mqtt?token=1 HTTP/1.1")
        #expect(lines.last == "Authorization: Bearer x")
        #expect(lines.count == 8)
        #expect(settings.fields.map { $0.flaw == nil } == [true, false, false, false, false])
    }

    @Test func `a ping is answered with a masked pong`() {
        let (client, server) = (client(), server())
        FilterDriver.converse(client, server)
        let before = client.replies.count
        client.receive([0x89, 2, 8, 9])
        let pong = client.replies[before...]
        #expect(pong.count == 8 && pong.starts(with: [0x8A, 0x82]))
        server.receive(pong)
        #expect(server.end == nil)
    }

    @Test(arguments: [
        ("HTTP/1.1 404 Not Found\r\n\r\n", "the server answers 404 Not Found"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "the server's answer is not HTTP"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "the server's answer does not belong to the request"),
        (
            "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            "the server's answer does not belong to the request"
        ),
        (String(repeating: "x", count: 9000), "the server's answer is longer than 8192 bytes"),
    ]) func `an answer that opens no WebSocket is refused`(answer: String, reason: String) {
        let client = client()
        client.begin()
        client.receive(answer.utf8)
        #expect(client.refusal == reason)
    }

    @Test func `an answer without the subprotocol is refused`() throws {
        let (client, server) = (client(), server())
        client.begin()
        server.receive(client.replies)
        let answer = String(decoding: server.replies, as: UTF8.self)
        let line = try #require(answer.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Protocol") })
        client.receive(Array(answer.utf8).replacing(Array("\(line)\r\n".utf8), with: []))
        #expect(client.refusal == "the server does not speak MQTT over WebSocket")
    }

    @Test func `a server's frame with a mask is a violation`() {
        let (client, server) = (client(), server())
        FilterDriver.converse(client, server)
        client.receive(WebSocketClient.frame(0x82, [1]))
        #expect(client.refusal == "a server's frame is masked")
    }
}
