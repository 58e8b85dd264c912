import FuzzKit

@testable import Transports

/// A client's side, against a server that may be anybody.
enum Dialling {
    static func check(_ bytes: [UInt8], _ pieces: [UInt8]) {
        let driver = FilterDriver(WebSocketFilter(WebSocketClientSettings(host: "h")))
        driver.begin()
        // Half of the inputs get a server that answers as it should first.
        if pieces.first.map({ $0 & 1 == 0 }) ?? true { driver.receive(answer(to: driver.replies)) }
        for piece in cuts(of: bytes, pieces) { driver.receive(piece) }
        expect(driver.decoded.count <= bytes.count, "more comes out than went in")
        if driver.end == nil, driver.filter.isOpen { _ = try? driver.send([bytes]) }
        _ = driver.finish()
    }

    private static func answer(to request: [UInt8]) -> [UInt8] {
        let lines = String(decoding: request, as: UTF8.self).split(separator: "\r\n")
        let name = "Sec-WebSocket-Key: "
        let key = lines.first { $0.hasPrefix(name) }?.dropFirst(name.count) ?? ""
        let head = [
            "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Accept: \(WebSocketHandshake.answer(to: String(key)))", "Sec-WebSocket-Protocol: mqtt",
        ]
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }
}
