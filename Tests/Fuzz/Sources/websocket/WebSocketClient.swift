@testable import Transports

/// A client's side of a WebSocket, as bytes.
enum WebSocketClient {
    static func request(_ changes: [String: String?] = [:], line: String = "GET /mqtt HTTP/1.1") -> [UInt8] {
        var fields = [
            ("Host", "broker.example"), ("Upgrade", "websocket"), ("Connection", "keep-alive, Upgrade"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", "chat, mqtt"),
        ]
        for (name, value) in changes.sorted(by: { $0.key < $1.key }) {
            fields.removeAll { $0.0 == name }
            if let value { fields.append((name, value)) }
        }
        return Array(([line] + fields.map { "\($0.0): \($0.1)" }).joined(separator: "\r\n").utf8) + Array("\r\n\r\n".utf8)
    }

    /// A masked frame; `first` is its first byte, such as 0x82 for a whole binary message.
    static func frame(_ first: UInt8, _ payload: [UInt8], mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]) -> [UInt8] {
        var bytes = [first]
        switch payload.count {
        case 0..<126: bytes.append(0x80 | UInt8(payload.count))
        case 126..<65_536: bytes += [0xFE, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0xFF] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        return bytes + mask + payload.enumerated().map { $0.element ^ mask[$0.offset & 3] }
    }

    /// A server that has answered the request.
    static func opened(_ settings: WebSocketSettings = WebSocketSettings()) -> FilterDriver {
        let driver = FilterDriver(WebSocketFilter(settings))
        driver.receive(request())
        return driver
    }
}
