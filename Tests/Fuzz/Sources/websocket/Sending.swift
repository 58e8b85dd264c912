import FuzzKit

@testable import Transports

/// What a server has to send, in slices of any size: its frames hold the same bytes in the same order.
enum Sending {
    static func check(_ bytes: [UInt8], _ pieces: [UInt8]) {
        let server = WebSocketClient.opened()
        let reader = WebSocketReader()
        reader.take(server.replies, isBehindHead: true)
        var sent: [UInt8] = []
        var pings = 0
        for (index, piece) in cuts(of: bytes, pieces).enumerated() {
            if index % 3 == 2 {
                let before = server.replies.count
                server.receive(WebSocketClient.frame(0x89, [UInt8(truncatingIfNeeded: index)]))
                reader.take(Array(server.replies[before...]))
                pings += 1
            }
            guard let framed = try? server.send([Array(piece)]) else { preconditionFailure("it does not send") }
            reader.take(framed)
            sent += piece
        }
        // A head that is not complete waits.
        expect(sent.starts(with: reader.data) && sent.count - reader.data.count <= 4, "\(reader.data) of \(sent)")
    }
}
