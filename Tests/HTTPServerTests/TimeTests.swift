import HTTP
import HTTPServer
import NetworkTestKit
import Testing

@Suite struct TimeTests {
    @Test func `a silent connection is closed after a minute`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        _ = scene.ask(channel, get("/a"))
        scene.advance(seconds: 59)
        #expect(!channel.hasShutDown)
        scene.advance(seconds: 2)
        #expect(channel.hasShutDown)
        #expect(channel.take().isEmpty)
        scene.advance(seconds: 2)
        #expect(channel.isClosed)
    }

    @Test func `a head that comes byte by byte is refused ten seconds after its first`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        scene.advance(seconds: 30)
        for byte in "GET / HTTP".utf8 {
            channel.send([byte])
            scene.advance(seconds: 1)
        }
        scene.advance(seconds: 1)
        #expect(scene.read(channel).hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
        #expect(channel.hasShutDown)
    }

    @Test func `a body has thirty seconds`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        _ = scene.ask(channel, get("/", "Content-Length: 5\r\n", method: "POST") + "ab")
        scene.advance(seconds: 29)
        #expect(channel.take().isEmpty)
        scene.advance(seconds: 2)
        #expect(scene.read(channel).hasPrefix("HTTP/1.1 408 "))
    }

    @Test func `an answer that is not found in a minute is 504`() throws {
        let scene = try HTTPScene()
        var kept: [HTTPExchange] = []
        scene.respond = { kept.append($0) }
        let channel = try scene.connect()
        _ = scene.ask(channel, get("/a"))
        scene.advance(seconds: 61)
        #expect(scene.read(channel).hasPrefix("HTTP/1.1 504 "))
        #expect(kept[0].isOpen == false)
    }

    @Test func `a peer that does not read its answer loses the connection`() throws {
        let scene = try HTTPScene()
        scene.respond = { $0.answer(.text(String(repeating: "x", count: 100_000))) }
        let channel = try scene.connect()
        channel.roomBytes = 1000
        channel.send(Array(get("/a").utf8))
        scene.settle()
        scene.advance(seconds: 59)
        #expect(!channel.isClosed)
        scene.advance(seconds: 2)
        #expect(channel.isClosed)
    }
}
