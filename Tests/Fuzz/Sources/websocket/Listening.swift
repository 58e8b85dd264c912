import FuzzKit

@testable import Transports

/// A server's side, against a client that may be anybody.
enum Listening {
    static func check(_ bytes: [UInt8], _ pieces: [UInt8], opened: Bool) {
        let settings = WebSocketSettings()
        // A proxy that is believed: the fields that say for whom it asks are read too.
        let proxy = PeerAddress(host: "127.0.0.1").flatMap { peer in
            ForwardingProxy(peer, trusted: [TrustedNetwork(host: "127.0.0.1", bits: 8)].compactMap { $0 })
        }
        let (whole, cut) = (
            FilterDriver(WebSocketFilter(settings, proxy: proxy)), FilterDriver(WebSocketFilter(settings, proxy: proxy))
        )
        for driver in [whole, cut] where opened { driver.receive(WebSocketClient.request()) }
        whole.receive(bytes)
        for piece in cuts(of: bytes, pieces) { cut.receive(piece) }
        expect(whole.decoded == cut.decoded, "in pieces it is \(cut.decoded), else \(whole.decoded)")
        expect(whole.replies == cut.replies, "in pieces it answers \(cut.replies), else \(whole.replies)")
        expect(whole.refusal == cut.refusal, "in pieces \(cut.refusal ?? "fine"), else \(whole.refusal ?? "fine")")
        expect(whole.hasEndedInOrder == cut.hasEndedInOrder, "in pieces it ends otherwise")
        expect(whole.decoded.count <= bytes.count, "more comes out than went in")
        expect(whole.replies.count <= 1000 + 2 * bytes.count, "\(whole.replies.count) bytes for \(bytes.count)")
        if whole.end == nil, whole.filter.isOpen { goOn(whole) }
    }

    /// It says what it likes and goodbye, and a client takes it.
    private static func goOn(_ server: FilterDriver) {
        let reader = WebSocketReader()
        reader.take(server.replies, isBehindHead: true)
        guard let sent = try? server.send([[0xC0, 0x00], [0x30, 0x03, 0x00], [0x01, 0x61]]) else {
            preconditionFailure("it does not send")
        }
        reader.take(sent)
        reader.take(server.finish())
        expect(reader.data == [0xC0, 0x00, 0x30, 0x03, 0x00, 0x01, 0x61], "a client gets \(reader.data)")
        expect(reader.isClosed, "no goodbye")
    }
}

/// The pieces of bytes, as long as `lengths` say in turn.
func cuts(of bytes: [UInt8], _ lengths: [UInt8]) -> [ArraySlice<UInt8>] {
    var rest = bytes[...]
    var pieces: [ArraySlice<UInt8>] = []
    while !rest.isEmpty {
        let length = lengths.isEmpty ? 1 : 1 + Int(lengths[pieces.count % lengths.count])
        pieces.append(rest.prefix(length))
        rest = rest.dropFirst(length)
    }
    return pieces
}
