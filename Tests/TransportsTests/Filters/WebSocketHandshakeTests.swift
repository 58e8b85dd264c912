import MartletTestKit
import Testing

@testable import Transports

@Suite struct WebSocketHandshakeTests {
    @Test(.statement("MQTT-6.0.0-4", .v5)) func `the answer carries the digest of RFC 6455's example, and the subprotocol mqtt`() {
        let driver = WebSocketClient.opened()
        let answer = String(decoding: driver.replies, as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 101 "))
        #expect(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
        #expect(answer.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"))
        #expect(answer.hasSuffix("\r\n\r\n"))
        #expect(driver.filter.isOpen)
    }

    @Test func `the request may be cut anywhere, and frames may follow it at once`() {
        let bytes = WebSocketClient.request() + WebSocketClient.frame(0x82, [1, 2, 3])
        for (first, second) in splits(bytes) {
            let driver = FilterDriver(WebSocketFilter(WebSocketSettings()))
            driver.receive(first)
            driver.receive(second)
            #expect(driver.decoded == [1, 2, 3])
            #expect(driver.end == nil)
        }
    }

    @Test(
        arguments: [
            (["Upgrade": nil], "426 "), (["Connection": "close"], "426 "), (["Sec-WebSocket-Version": "8"], "426 "),
            (["Sec-WebSocket-Version": nil], "426 "), (["Sec-WebSocket-Key": nil], "400 "),
            (["Sec-WebSocket-Key": "short"], "400 "),
            (["Host": nil], "400 "), (["Sec-WebSocket-Protocol": "chat"], "400 "), (["Sec-WebSocket-Protocol": nil], "400 "),
            (["X": String(repeating: "x", count: 5000)], "431 "),
        ] as [([String: String?], String)])
    func `a request that lacks something is answered with what is wrong`(changes: [String: String?], status: String) {
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings()))
        driver.receive(WebSocketClient.request(changes))
        let answer = String(decoding: driver.replies, as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 \(status)"))
        #expect(!answer.hasSuffix("\r\n\r\n"), "it has a body that helps")
        #expect(driver.refusal?.hasPrefix(status) == true)
    }

    @Test(arguments: [
        ("POST / HTTP/1.1", "405 "), ("GET / HTTP/1.0", "505 "), ("GET /", "400 "), ("", "400 "),
        ("\u{10}\u{0C}\u{0}\u{4}MQTT", "400 "),
    ])
    func `a first line that is none of a WebSocket is refused`(line: String, status: String) {
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings()))
        driver.receive(WebSocketClient.request(line: line))
        #expect(String(decoding: driver.replies, as: UTF8.self).hasPrefix("HTTP/1.1 \(status)"))
    }

    @Test(
        arguments: [
            ([0x10], "the client speaks MQTT, and this port MQTT over WebSocket: "),
            ([0x16, 3, 1], "the client speaks TLS, and this port does not: "),
            ([0xE0], "the client does not speak HTTP, which a WebSocket begins with"),
        ] as [([UInt8], String)])
    func `a client of another protocol is refused at its first byte, with what it speaks`(bytes: [UInt8], words: String) {
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings()))
        driver.receive(bytes)
        #expect(driver.refusal?.hasPrefix(words) == true, "\(driver.refusal ?? "none")")
    }

    @Test func `only the origins that are named may come`() {
        let settings = WebSocketSettings(origins: ["https://a.example", "https://b.example"])
        let cases = [("https://a.example", true), ("https://b.example", true), ("https://a.example.evil", false), (nil, false)]
        for (origin, isLetIn) in cases {
            let driver = FilterDriver(WebSocketFilter(settings))
            driver.receive(WebSocketClient.request(["Origin": origin]))
            #expect((driver.refusal == nil) == isLetIn)
            #expect(isLetIn || String(decoding: driver.replies, as: UTF8.self).hasPrefix("HTTP/1.1 403 "))
        }
    }

    @Test(
        arguments: [
            (["Host": "localhost:9001"], nil), (["Host": "127.0.0.1:9001"], nil), (["Host": "[::1]:9001"], nil),
            (["Host": "192.0.2.7"], nil), (["Host": "Hub.Home:9001"], nil),
            (["Host": "evil.example:9001"], "421 "), (["Host": "localhost.evil.example"], "421 "),
            (["Host": "127.0.0.1.evil.example"], "421 "), (["Host": "127.0.0.999"], "421 "),
            (["Host": "localhost", "Origin": "http://localhost:9883"], nil),
            (["Host": "127.0.0.1:9001", "Origin": "https://[::1]:3000"], nil),
            (["Host": "127.0.0.1:9001", "Origin": "https://hub.home"], nil),
            (["Host": "192.0.2.7:9001", "Origin": "http://192.0.2.7:8080"], nil),
            (["Host": "127.0.0.1:9001", "Origin": "https://evil.example"], "403 "),
            (["Host": "127.0.0.1:9001", "Origin": "http://192.0.2.7"], "403 "),
            (["Host": "127.0.0.1:9001", "Origin": "null"], "403 "), (["Host": "localhost", "Origin": "file://"], "403 "),
            (["Host": "localhost", "Origin": "http://localhost.evil.example"], "403 "),
            (["Host": "localhost", "Origin": "http://localhost@evil.example"], "403 "),
            (["Host": "evil.example", "Origin": "http://evil.example"], "421 "),
        ] as [([String: String], String?)])
    func `where only this machine can connect, pages of other sites cannot`(fields: [String: String], status: String?) {
        func answer(_ settings: WebSocketSettings) -> String? {
            let driver = FilterDriver(WebSocketFilter(settings))
            driver.receive(WebSocketClient.request(fields.mapValues { .some($0) }))
            return driver.refusal.map { String($0.prefix(4)) }
        }
        #expect(answer(WebSocketSettings(ownNames: ["hub.home"])) == status)
        #expect(answer(WebSocketSettings()) == nil, "elsewhere any page may, without websockets_origin")
        let named = WebSocketSettings(origins: ["https://evil.example", "null"], ownNames: [])
        let isNamed = fields["Origin"].map { named.origins.contains($0) } ?? false
        #expect(answer(named) == (isNamed ? nil : "403 "), "what websockets_origin says holds alone")
    }

    @Test func `the client that a trusted proxy names is the peer, and nobody else can name one`() throws {
        let trusted = try [#require(TrustedNetwork(host: "192.0.2.0", bits: 24))]
        let request = WebSocketClient.request(["X-Forwarded-For": "203.0.113.9, 198.51.100.1"])
        for (peer, client) in [("192.0.2.7", "198.51.100.1"), ("203.0.113.1", nil)] {
            let proxy = ForwardingProxy(try #require(PeerAddress(host: peer)), trusted: trusted)
            let filter = WebSocketFilter(WebSocketSettings(), proxy: proxy)
            FilterDriver(filter).receive(request)
            var identity = PeerIdentity()
            filter.describe(&identity)
            #expect(identity.forwardedAddress?.host == client)
        }
        let proxy = ForwardingProxy(try #require(PeerAddress(host: "192.0.2.7")), trusted: trusted)
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings(), proxy: proxy))
        driver.receive(WebSocketClient.request(["X-Forwarded-For": "somebody"]))
        #expect(driver.refusal?.hasPrefix("400 ") == true)
    }

    @Test func `mqttv3_1 is chosen when mqtt is not offered`() {
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings()))
        driver.receive(WebSocketClient.request(["Sec-WebSocket-Protocol": "mqttv3.1"]))
        #expect(String(decoding: driver.replies, as: UTF8.self).contains("Sec-WebSocket-Protocol: mqttv3.1\r\n"))
    }

    @Test func `a head without end is given up at the limit, not kept`() {
        let driver = FilterDriver(WebSocketFilter(WebSocketSettings(headerBytesMax: 64)))
        for _ in 0..<10 { driver.receive(Array("GET / HTTP".utf8)) }
        #expect(driver.refusal?.hasPrefix("431 ") == true)
    }
}
