import HTTP
import HTTPServer
import NetworkTestKit
import Testing
import Transports

/// Who is served where there is no place for everybody.
@Suite struct PlaceTests {
    /// A scene whose requests are answered when the test says so, but for health.
    private func busyScene(connectionsMax: Int) throws -> (HTTPScene, () -> [HTTPExchange]) {
        let scene = try HTTPScene(connectionsMax: connectionsMax)
        var exchanges: [HTTPExchange] = []
        scene.respond = { if $0.request.path == "/livez" { $0.answer(.text("ok")) } else { exchanges.append($0) } }
        return (scene, { exchanges })
    }

    private func host(_ number: Int) -> String { "198.51.100.\(number)" }

    @Test func `where all places are taken, the connection that is silent since longest gives way to a newcomer`() throws {
        let scene = try HTTPScene(connectionsMax: 3)
        let channels = try (1...3).map { number in
            scene.advance(seconds: 1)
            return try scene.connect(from: host(number))
        }
        scene.advance(seconds: 1)
        #expect(scene.ask(channels[0], get("/a")) == answer("200 OK", "/a"))
        let newcomer = try scene.connect(from: host(4))
        #expect(channels.map(\.isClosed) == [false, true, false])
        #expect(scene.ask(newcomer, get("/b")) == answer("200 OK", "/b"))
        #expect(scene.service.connectionCount == 3 && scene.reports.isEmpty)
    }

    @Test func `silent connections of one address leave places to others, however many there are`() throws {
        let scene = try HTTPScene()
        let silent = try (0..<200).map { _ in try scene.connect(from: host(1)) }
        #expect(silent.count { !$0.isClosed } == 48, "one address has three quarters of 64 places")
        let others = try (2...17).map { try scene.connect(from: host($0)) }
        for other in others { #expect(scene.ask(other, get("/a")) == answer("200 OK", "/a")) }
        #expect(silent.count { !$0.isClosed } == 48)
        #expect(silent.suffix(48).allSatisfy { !$0.isClosed }, "the youngest stay")
    }

    @Test func `the 64 bits in front of an IPv6 address count as one, and an IPv4 address in it as itself`() throws {
        let scene = try HTTPScene(connectionsMax: 4)
        let channels = try (1...4).map { try scene.connect(from: "2001:db8::\($0)") }
        #expect(channels.count { !$0.isClosed } == 3)
        let mapped = try [scene.connect(from: "::ffff:192.0.2.7"), scene.connect()]
        #expect(mapped.count { !$0.isClosed } == 2 && channels.count { !$0.isClosed } == 2)
    }

    @Test func `a proxy that is known has as many places as there are`() throws {
        let scene = try HTTPScene(connectionsMax: 8)
        scene.proxy = PeerAddress(host: host(1))
        let channels = try (0..<8).map { _ in try scene.connect(from: host(1)) }
        #expect(channels.allSatisfy { !$0.isClosed })
    }

    @Test func `a listener may have few connections, and one that comes is served`() throws {
        let scene = try HTTPScene(connectionsMax: 1)
        let first = try scene.connect()
        let second = try scene.connect()
        #expect(first.isClosed)
        #expect(scene.ask(second, get("/a")) == answer("200 OK", "/a"))
        scene.service.setConnectionsMax(3, listener: 3)
        _ = try scene.connect()
        #expect(!second.isClosed)
    }

    @Test func `where every connection is of use, health is answered all the same, and all else with 503`() throws {
        let (scene, exchanges) = try busyScene(connectionsMax: 8)
        for number in 1...8 { _ = try scene.ask(scene.connect(from: host(number)), get("/slow")) }
        #expect(exchanges().count == 8)
        let probe = try scene.connect(from: host(9))
        #expect(scene.ask(probe, get("/livez")) == answer("200 OK", "ok", closes: true))
        let other = try scene.connect(from: host(9))
        let refusal = scene.ask(other, get("/a"))
        #expect(
            refusal.hasPrefix("HTTP/1.1 503 ") && refusal.contains("\r\nRetry-After: 1\r\n")
                && refusal.contains("\r\nConnection: close\r\n"))
        #expect(other.hasShutDown && exchanges().count == 8)
    }

    @Test func `silent connections in the reserve give way to who asks for health`() throws {
        let (scene, _) = try busyScene(connectionsMax: 8)
        for number in 1...8 { _ = try scene.ask(scene.connect(from: host(number)), get("/slow")) }
        let silent = try (0..<50).map { _ in try scene.connect(from: host(9)) }
        #expect(silent.count { !$0.isClosed } == 8 && scene.service.connectionCount == 16)
        let probe = try scene.connect(from: host(10))
        #expect(scene.ask(probe, get("/livez")) == answer("200 OK", "ok", closes: true))
        #expect(scene.reports.isEmpty)
    }

    @Test func `a head that comes slowly gives way, a body and an answer that is read do not`() throws {
        let scene = try HTTPScene(connectionsMax: 3)
        let body = try scene.connect(from: host(1))
        _ = scene.ask(body, get("/b", "Content-Length: 2\r\n", method: "POST"))
        let slow = try scene.connect(from: host(2))
        _ = scene.ask(slow, "GET /a HTTP/1.1\r\n")
        let reading = try scene.connect(from: host(3))
        reading.roomBytes = 100
        scene.respond = { $0.answer(.text(String(repeating: "x", count: 1000))) }
        reading.send(Array(get("/a").utf8))
        scene.settle()
        let newcomer = try scene.connect(from: host(4))
        #expect(slow.isClosed && !body.isClosed && !reading.isClosed && !newcomer.isClosed)
    }

    @Test func `behind a proxy connections count for whom it tells`() throws {
        let layers = TransportLayers(proxyProtocol: ProxyProtocolSettings(version: .v1))
        let scene = try HTTPScene(connectionsMax: 8, layers: layers)
        func come(_ number: Int) throws -> MemoryChannel {
            let channel = try scene.connect()
            _ = scene.ask(channel, "PROXY TCP4 \(host(number)) 192.0.2.1 4000 80\r\n")
            return channel
        }
        let silent = try (0..<20).map { _ in try come(1) }
        #expect(silent.count { !$0.isClosed } == 6)
        let other = try come(2)
        #expect(scene.ask(other, get("/a")) == answer("200 OK", "/a"))
        #expect(silent.count { !$0.isClosed } == 6)
    }
}
