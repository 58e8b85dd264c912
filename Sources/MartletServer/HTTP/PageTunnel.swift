import Bytes
import HTTP
import Platform
import Transports

/// Carries MQTT between a page of the dashboard and the broker: the page's WebSocket is a connection of the server of
/// HTTP, and the other end is a pair of sockets, of which a loop has the one as the connection of a client.
///
///     page ─► HTTPConnection ─► received ─► the pair ─► loop
///     page ◄─ HTTPConnection ◄─ output   ◄─ the pair ◄─ loop
///
/// Little is buffered beside the output's own room: one read, and pongs; what the page does not take stays in the pair,
/// and the loop drops messages for it as for any slow client. Belongs to the control thread.
final class PageTunnel: EventHandler {
    private let events: EventLoop
    private let output: HTTPStream
    private let socket: SocketChannel
    private let webSocket: WebSocketTunnel
    private var registration: Registration?
    /// What was read for the page and had no room yet.
    private var held: [UInt8] = []
    /// What the page has sent and the pair has not taken.
    private var unsent: [UInt8] = []

    init(on events: EventLoop, output: HTTPStream, socket: SocketChannel, settings: WebSocketSettings) {
        (self.events, self.output, self.socket) = (events, output, socket)
        webSocket = WebSocketTunnel(settings)
    }

    /// Begins to carry bytes, until the page or the client has gone.
    func begin() throws(SystemError) {
        registration = try events.register(socket.fileDescriptor, for: .readable, handler: self)
        output.onRoom = { [weak self] in self?.hasRoom() }
        output.onGone = { [self] in end() }
    }

    /// Takes bytes that the page has sent.
    func received(_ bytes: UnsafeRawBufferPointer) {
        let decoded = webSocket.decode(bytes)
        if !decoded.reply.isEmpty { give(decoded.reply) }
        unsent += decoded.bytes
        flush()
        // A page that sends more than a client may leave unread is none of ours.
        if decoded.isEnded || unsent.count > Limits.pageBytesMax { output.finish() }
    }

    func ready(_ ready: ReadyEvents) {
        if ready.contains(.writable) { flush() }
        guard held.isEmpty, !ready.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        let room = UnsafeMutableRawBufferPointer(rebasing: events.scratch[..<Limits.pageReadBytesMax])
        switch socket.read(into: room) {
        case .bytes(let count): give(webSocket.encode(UnsafeRawBufferPointer(rebasing: room[..<count])))
        case .wouldBlock: return
        case .endOfStream, .refused, .failed:
            output.write(webSocket.finish())
            output.finish()
            leave()
        }
    }

    private func give(_ bytes: [UInt8]) {
        held += bytes
        if output.write(held) { held = [] }
        // A page that asks for pongs and reads none.
        if held.count > Limits.pageBytesMax { output.finish() }
        settle()
    }

    private func hasRoom() {
        if output.write(held) { held = [] }
        settle()
    }

    private func flush() {
        while !unsent.isEmpty {
            let result = unsent.withUnsafeBytes { raw -> WriteResult in
                guard let base = raw.baseAddress else { return .wouldBlock }
                return withUnsafePointer(to: ByteSlice(base: base, count: raw.count)) {
                    socket.write(UnsafeBufferPointer(start: $0, count: 1))
                }
            }
            guard case .wrote(let count) = result, count > 0 else { break }
            unsent.removeFirst(count)
        }
        settle()
    }

    private func settle() {
        guard let registration else { return }
        var interest: Interest = held.isEmpty ? .readable : []
        if !unsent.isEmpty { interest.insert(.writable) }
        events.modify(registration, interest: interest)
    }

    private func leave() {
        if let registration { events.deregister(registration) }
        registration = nil
    }

    private func end() {
        leave()
        socket.close()
    }
}

extension Limits {
    /// Bytes of one read for a page.
    static let pageReadBytesMax = 16 << 10
}
