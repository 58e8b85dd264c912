import HTTP
import HTTPServer
import NetworkTestKit
import Testing

/// Connections that go on in another protocol.
@Suite struct UpgradeTests {
    private final class Heard {
        var text = ""
    }

    private func begin(_ request: String = get("/s")) throws -> (HTTPScene, MemoryChannel, HTTPStream, Heard, String) {
        let (scene, stream, heard) = (try HTTPScene(), HTTPStream(), Heard())
        scene.respond = { exchange in
            exchange.answer(
                HTTPResponse(
                    .switchingProtocols, fields: ["Upgrade": "echo", "Connection": "Upgrade"],
                    body: .upgraded(stream) { heard.text += String(decoding: $0, as: UTF8.self) }))
        }
        let channel = try scene.connect()
        return (scene, channel, stream, heard, scene.ask(channel, request))
    }

    @Test func `bytes go both ways as they are, and the connection ends with the stream`() throws {
        let (scene, channel, stream, heard, head) = try begin()
        #expect(head.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n") && head.hasSuffix("Connection: Upgrade\r\n\r\n"))
        #expect(scene.ask(channel, "GET / HTTP/1.1\r\n\r\n").isEmpty, "that is no request any more")
        #expect(heard.text == "GET / HTTP/1.1\r\n\r\n")
        stream.write(Array("abc".utf8))
        #expect(scene.read(channel) == "abc")
        scene.advance(seconds: 3600)
        stream.write(Array("later".utf8))
        stream.finish()
        #expect(scene.read(channel) == "later")
        #expect(channel.hasShutDown)
    }

    @Test func `the stream hears that the peer has gone`() throws {
        let (scene, channel, stream, _, _) = try begin()
        var isGone = false
        stream.onGone = { isGone = true }
        channel.end()
        scene.settle()
        #expect(isGone && !stream.isOpen && scene.service.connectionCount == 0)
    }

    @Test func `who sends more before it was agreed on is not upgraded`() throws {
        let (scene, _, stream, heard, answer) = try begin(get("/s") + "early")
        #expect(answer.isEmpty && heard.text.isEmpty && !stream.isOpen)
        #expect(scene.service.connectionCount == 0)
    }
}
