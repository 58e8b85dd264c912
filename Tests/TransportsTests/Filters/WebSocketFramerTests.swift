import MartletTestKit
import Testing

@testable import Transports

@Suite struct WebSocketFramerTests {
    static let packets: [[UInt8]] = [
        [0xD0, 0x00], [0x40, 0x02, 0x00, 0x01], [0x30, 0x7E] + [UInt8](repeating: 1, count: 126),
        [0x30, 0x80, 0x01] + [UInt8](repeating: 2, count: 128), [0xE0, 0x00],
        [0x30, 0x80, 0x80, 0x04] + [UInt8](repeating: 3, count: 65_536),
    ]

    /// The same packets, each in a binary frame of its own.
    static let framed: [UInt8] = packets.flatMap { packet -> [UInt8] in
        let head: [UInt8] =
            switch packet.count {
            case 0..<126: [0x82, UInt8(packet.count)]
            case 126..<65_536: [0x82, 126, UInt8(packet.count >> 8), UInt8(packet.count & 0xFF)]
            default: [0x82, 127, 0, 0, 0, 0] + (0..<4).map { UInt8(truncatingIfNeeded: packet.count >> (24 - 8 * $0)) }
            }
        return head + packet
    }

    @Test(.statement("MQTT-6.0.0-1", .v5)) func `each packet gets a frame of its own`() throws {
        let driver = WebSocketClient.opened()
        #expect(try driver.send(Self.packets) == Self.framed)
        #expect(driver.finish() == [0x88, 2, 0x03, 0xE8])
    }

    @Test func `it does not matter where slices and writes cut the packets`() throws {
        let stream = Self.packets.flatMap { $0 }
        for cut in 0..<450 {
            let driver = WebSocketClient.opened()
            let first = try driver.send([Array(stream[..<cut])])
            let second = try driver.send([Array(stream[cut..<(cut + 3)]), [], Array(stream[(cut + 3)...])])
            #expect(first + second == Self.framed)
        }
    }

    @Test func `a pong waits until the packet that is half sent is complete, and only the latest is sent`() throws {
        let driver = WebSocketClient.opened()
        let before = driver.replies.count
        _ = try driver.send([[0x30, 0x05, 1, 2]])
        driver.receive(WebSocketClient.frame(0x89, [1]) + WebSocketClient.frame(0x89, [2]))
        #expect(driver.replies.count == before)
        #expect(driver.finish().isEmpty, "a Close inside a frame would be read as its data")
        let other = WebSocketClient.opened()
        _ = try other.send([[0x30, 0x05, 1, 2]])
        other.receive(WebSocketClient.frame(0x89, [1]) + WebSocketClient.frame(0x89, [2]))
        #expect(try other.send([[3, 4, 5]]) == [3, 4, 5, 0x8A, 1, 2])
    }
}
