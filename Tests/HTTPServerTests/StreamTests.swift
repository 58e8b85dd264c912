import HTTP
import HTTPServer
import NetworkTestKit
import Testing

@Suite struct StreamTests {
    private func begin(_ stream: HTTPStream, version: String = "1.1") throws -> (HTTPScene, MemoryChannel, String) {
        let scene = try HTTPScene()
        scene.respond = { $0.answer($0.request.path == "/s" ? .events(stream) : .text("next")) }
        let channel = try scene.connect()
        return (scene, channel, scene.ask(channel, "GET /s HTTP/\(version)\r\nHost: x\r\n\r\n"))
    }

    @Test func `a stream goes out in chunks as it is written, and the next request follows its end`() throws {
        let stream = HTTPStream()
        let (scene, channel, head) = try begin(stream)
        #expect(head.hasSuffix("\r\nTransfer-Encoding: chunked\r\n\r\n"))
        stream.write(ServerSentEvent(id: "7", event: "stats", data: "a\nb").bytes)
        #expect(scene.read(channel) == "23\r\nid: 7\nevent: stats\ndata: a\ndata: b\n\n\r\n".replacingSize())
        channel.send(Array(get("/b").utf8))
        scene.settle()
        #expect(channel.take().isEmpty)
        stream.finish()
        #expect(scene.read(channel) == "0\r\n\r\n" + answer("200 OK", "next"))
    }

    @Test func `a stream to a peer of HTTP 1 0 ends with the connection`() throws {
        let stream = HTTPStream()
        let (scene, channel, head) = try begin(stream, version: "1.0")
        #expect(head.hasSuffix("\r\nConnection: close\r\n\r\n"))
        stream.write(Array("abc".utf8))
        stream.finish()
        #expect(scene.read(channel) == "abc")
        #expect(channel.hasShutDown)
    }

    @Test func `a slow reader fills the stream, and its producer hears when there is room again`() throws {
        let stream = HTTPStream(bytesMax: 10_000)
        let (scene, channel, _) = try begin(stream)
        channel.roomBytes = 1000
        var rooms = 0
        stream.onRoom = { rooms += 1 }
        let piece = [UInt8](repeating: 0x61, count: 5000)
        var sent = 0
        while stream.write(piece) { sent += piece.count }
        #expect(sent < 100_000)
        #expect(rooms == 0)
        var got = 0
        for _ in 0..<1000 where got < sent {
            got += channel.take().count { $0 == 0x61 }
            scene.settle()
        }
        #expect(got == sent)
        #expect(rooms == 1)
        #expect(stream.isOpen)
    }

    @Test func `a producer that fills the room whenever there is some sends all of it`() throws {
        let stream = HTTPStream(bytesMax: 10_000)
        let (scene, channel, _) = try begin(stream)
        channel.roomBytes = 3000
        var left = 300
        let piece = [UInt8](repeating: 0x61, count: 1000)
        func fill() {
            while left > 0, stream.write(piece) { left -= 1 }
            if left == 0 { stream.finish() }
        }
        stream.onRoom = { fill() }
        fill()
        var got = 0
        for _ in 0..<1000 {
            let bytes = channel.take()
            got += bytes.count { $0 == 0x61 }
            scene.settle()
        }
        #expect(got == 300_000)
        #expect(scene.ask(channel, get("/b")) == answer("200 OK", "next"))
    }

    @Test func `the producer hears once when the peer has gone`() throws {
        for ends in [true, false] {
            let stream = HTTPStream()
            let (scene, channel, _) = try begin(stream)
            var gone = 0
            stream.onGone = { gone += 1 }
            if ends { channel.end() } else { channel.fail() }
            scene.settle()
            #expect(gone == 1)
            #expect(!stream.isOpen)
            #expect(!stream.write([1]))
            #expect(channel.isClosed)
        }
    }

    @Test func `a stream may be silent for hours, but not unread for a minute`() throws {
        let stream = HTTPStream()
        let (scene, channel, _) = try begin(stream)
        scene.advance(seconds: 10_000)
        #expect(!channel.isClosed)
        channel.roomBytes = 10
        scene.turn()
        stream.write([UInt8](repeating: 0x61, count: 5000))
        scene.turn()
        scene.advance(seconds: 61)
        #expect(channel.isClosed)
        #expect(!stream.isOpen)
    }

    @Test func `HEAD of a stream lets it go`() throws {
        let scene = try HTTPScene()
        let stream = HTTPStream()
        scene.respond = { $0.answer(.events(stream)) }
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/s", method: "HEAD")).hasSuffix("chunked\r\n\r\n"))
        #expect(!stream.isOpen)
        scene.respond = { $0.answer(.text("x")) }
        #expect(scene.ask(channel, get("/b")) == answer("200 OK", "x"))
    }
}

extension String {
    /// The chunk with its true size in front.
    fileprivate func replacingSize() -> String {
        let data = self.split(separator: "\r\n", omittingEmptySubsequences: false)[1]
        return "\(String(data.utf8.count, radix: 16))\r\n\(data)\r\n"
    }
}
