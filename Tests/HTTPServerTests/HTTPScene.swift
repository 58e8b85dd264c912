import HTTP
import HTTPServer
import NetworkTestKit
import Platform
import Testing
import Transports

/// A server on a simulated network and clock, and a handler that the test writes.
final class HTTPScene: HTTPHandler, LoopTurn {
    let network = MemoryNetwork()
    let loop: EventLoop
    let acceptor: MemoryAcceptor
    private(set) lazy var service = HTTPService(on: loop, bodyBytesMax: bodyBytesMax, handler: self) { 784_111_777 }
    private let bodyBytesMax: Int
    private let poller: SimulatedPoller
    private var deadline: UInt64? = 0
    var reports: [HTTPReport] = []
    /// What is done with a request; says its path unless the test wants something else.
    var respond: (HTTPExchange) -> Void = { $0.answer(.text($0.request.path)) }
    var admits: (PeerAddress) -> Bool = { _ in true }
    /// By which many come.
    var proxy: PeerAddress?

    init(connectionsMax: Int = 64, bodyBytesMax: Int = 1000, layers: TransportLayers = TransportLayers()) throws {
        self.bodyBytesMax = bodyBytesMax
        poller = SimulatedPoller(network: network, seed: 1)
        loop = EventLoop(name: "control", poller: poller)
        acceptor = MemoryAcceptor(network: network)
        try service.serve(acceptor, listener: 3, layers: layers, connectionsMax: connectionsMax)
    }

    func handle(_ exchange: HTTPExchange) { respond(exchange) }
    func admits(_ peer: PeerAddress, listener: Int) -> Bool { admits(peer) }
    func record(_ report: HTTPReport) { reports.append(report) }
    func isUrgent(_ request: HTTPRequest) -> Bool { request.path == "/livez" }
    func isProxy(_ peer: PeerAddress, listener: Int) -> Bool { peer.network == proxy }
    func beginTurn(now: UInt64) {}
    func endOfTurn(now: UInt64) -> UInt64? { nil }

    /// Lets the server work until nothing is left to do at this time.
    func settle() {
        for _ in 0..<10_000 {
            let isDue = deadline.map { $0 <= network.now } ?? false
            guard isDue || poller.isReady else { return }
            deadline = loop.turn(self, until: deadline)
        }
        Issue.record("the server does not come to rest")
    }

    /// A turn, whether there is something to do or not: as when a message has come.
    func turn() { deadline = loop.turn(self, until: 0) }

    func advance(seconds: UInt64) {
        network.now += seconds * 1000
        settle()
    }

    func connect(from host: String = "192.0.2.7") throws -> MemoryChannel {
        let channel = try #require(acceptor.connect(from: host))
        settle()
        return channel
    }

    /// Sends, and gives what came back.
    func ask(_ channel: MemoryChannel, _ text: String) -> String {
        channel.send(Array(text.utf8))
        settle()
        return read(channel)
    }

    func read(_ channel: MemoryChannel) -> String {
        settle()
        let text = String(decoding: channel.take(), as: UTF8.self)
        settle()
        return text
    }
}

/// A request of a path.
func get(_ path: String, _ fields: String = "", method: String = "GET") -> String {
    "\(method) \(path) HTTP/1.1\r\nHost: x\r\n\(fields)\r\n"
}

/// An answer as text, without the date.
func answer(_ status: String, _ body: String, closes: Bool = false) -> String {
    "HTTP/1.1 \(status)\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n"
        + "Content-Length: \(body.utf8.count)\r\n" + (closes ? "Connection: close\r\n" : "") + "\r\n" + body
}
