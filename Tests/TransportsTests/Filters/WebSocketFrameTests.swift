import MartletTestKit
import Testing

@testable import Transports

@Suite struct WebSocketFrameTests {
    @Test(.statement("MQTT-6.0.0-2", .v5), arguments: [0, 1, 7, 8, 9, 125, 126, 300, 65_535, 65_536])
    func `a frame of any length arrives, wherever it is cut`(length: Int) {
        let payload = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let bytes = WebSocketClient.frame(0x82, payload)
        let cuts = length < 1000 ? Array(0..<bytes.count) : [1, 2, 3, 9, 10, 13, 14, 15, 1000, 1001, bytes.count - 1]
        for cut in cuts {
            let driver = WebSocketClient.opened()
            driver.receive(bytes[..<cut])
            driver.receive(bytes[cut...])
            #expect(driver.decoded == payload)
        }
    }

    @Test func `frames come byte by byte, with a ping inside a fragmented message`() {
        let driver = WebSocketClient.opened()
        let before = driver.replies.count
        let frames =
            WebSocketClient.frame(0x02, [1, 2, 3]) + WebSocketClient.frame(0x89, [9, 9]) + WebSocketClient.frame(0x00, [4])
            + WebSocketClient.frame(0x8A, []) + WebSocketClient.frame(0x80, [5, 6]) + WebSocketClient.frame(0x82, [7])
        for byte in frames { driver.receive([byte]) }
        #expect(driver.decoded == [1, 2, 3, 4, 5, 6, 7])
        #expect(Array(driver.replies[before...]) == [0x8A, 2, 9, 9])
        #expect(driver.end == nil)
    }

    /// What a client must not do, and the code that it is closed with.
    static let violations: [(name: String, bytes: [UInt8], code: UInt16)] = [
        ("a frame without mask", [0x82, 1, 0], 1002),
        ("a reserved bit", WebSocketClient.frame(0xC2, []), 1002),
        ("an opcode that is not defined", WebSocketClient.frame(0x83, []), 1002),
        ("a control opcode that is not defined", WebSocketClient.frame(0x8B, []), 1002),
        ("a fragmented ping", WebSocketClient.frame(0x09, []), 1002),
        ("a ping of 126 bytes", WebSocketClient.frame(0x89, [UInt8](repeating: 0, count: 126)), 1002),
        ("a continuation of nothing", WebSocketClient.frame(0x80, [1]), 1002),
        ("a message inside a message", WebSocketClient.frame(0x02, [1]) + WebSocketClient.frame(0x82, [2]), 1002),
        ("a length with its highest bit", [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1002),
        ("a frame that is too long", [0x82, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4], 1009),
        ("a close code of one byte", WebSocketClient.frame(0x88, [3]), 1002),
        ("a close code that nobody may send", WebSocketClient.frame(0x88, [0x03, 0xED]), 1002),
        ("a close reason that is not UTF-8", WebSocketClient.frame(0x88, [0x03, 0xE8, 0xFF]), 1007),
    ]

    @Test(arguments: violations.indices) func `a violation is answered with its close code`(index: Int) {
        let (name, bytes, code) = Self.violations[index]
        let driver = WebSocketClient.opened()
        let before = driver.replies.count
        driver.receive(bytes)
        #expect(Array(driver.replies[before...]) == [0x88, 2, UInt8(code >> 8), UInt8(code & 0xFF)], "\(name)")
        #expect(driver.refusal != nil, "\(name)")
        #expect(driver.finish().isEmpty, "it is closed once")
    }

    @Test(.statement("MQTT-6.0.0-1", .v5)) func `a text frame closes the connection with 1003`() {
        let driver = WebSocketClient.opened()
        let before = driver.replies.count
        driver.receive(WebSocketClient.frame(0x81, Array("hello".utf8)))
        #expect(Array(driver.replies[before...]) == [0x88, 2, 0x03, 0xEB])
        #expect(driver.decoded.isEmpty)
    }

    @Test func `a close is answered with its code, behind the data before it`() {
        let driver = WebSocketClient.opened()
        let before = driver.replies.count
        driver.receive(
            WebSocketClient.frame(0x82, [1]) + WebSocketClient.frame(0x88, [0x03, 0xE9]) + WebSocketClient.frame(0x82, [2]))
        #expect(driver.decoded == [1])
        #expect(Array(driver.replies[before...]) == [0x88, 2, 0x03, 0xE9])
        #expect(driver.hasEndedInOrder)
    }
}
