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
