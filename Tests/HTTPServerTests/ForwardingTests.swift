import HTTP
import HTTPServer
import NetworkTestKit
import Testing
import Transports

/// Requests that a proxy sends for others; in the scene every peer is 192.0.2.7.
@Suite struct ForwardingTests {
    private func scene(trusting host: String) throws -> HTTPScene {
        let scene = try HTTPScene(layers: TransportLayers(forwarders: [#require(TrustedNetwork(host: host, bits: 32))]))
        scene.respond = { $0.answer(.text($0.peer.host)) }
        return scene
    }

    private func from(_ client: String) -> String { "X-Forwarded-For: \(client)\r\n" }

    @Test func `each request of a trusted proxy is its own client's`() throws {
        let scene = try scene(trusting: "192.0.2.7")
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/", from("198.51.100.1"))) == answer("200 OK", "198.51.100.1"))
        #expect(scene.ask(channel, get("/", from("203.0.113.9, 198.51.100.2"))) == answer("200 OK", "198.51.100.2"))
        #expect(scene.ask(channel, get("/")) == answer("200 OK", "192.0.2.7"), "the proxy asks for itself")
    }

    @Test func `a field is nothing from anybody else`() throws {
        let scene = try scene(trusting: "192.0.2.8")
        #expect(scene.ask(try scene.connect(), get("/", from("198.51.100.1"))) == answer("200 OK", "192.0.2.7"))
        let unnamed = try HTTPScene()
        unnamed.respond = { $0.answer(.text($0.peer.host)) }
        #expect(unnamed.ask(try unnamed.connect(), get("/", from("198.51.100.1"))) == answer("200 OK", "192.0.2.7"))
    }

    @Test func `what one address may do bounds the clients of a proxy, and not the proxy`() throws {
        let scene = try scene(trusting: "192.0.2.7")
        var asked: [String] = []
        scene.admits = { peer in
            asked.append(peer.host)
            return peer.host != "192.0.2.7" && peer.host != "203.0.113.9"
        }
        let channel = try scene.connect()
        for _ in 0..<2 { #expect(scene.ask(channel, get("/", from("198.51.100.1"))) == answer("200 OK", "198.51.100.1")) }
        #expect(scene.ask(channel, get("/", from("203.0.113.9"))).hasPrefix("HTTP/1.1 429 "))
        #expect(asked == ["198.51.100.1", "203.0.113.9"])
    }

    @Test func `a field that names no address is refused, with words`() throws {
        let scene = try scene(trusting: "192.0.2.7")
        let said = scene.ask(try scene.connect(), get("/", from("somebody")))
        #expect(said.hasPrefix("HTTP/1.1 400 ") && said.contains("X-Forwarded-For"))
        #expect(scene.reports.count == 1)
    }
}
