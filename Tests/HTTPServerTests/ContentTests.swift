import HTTP
import HTTPServer
import NetworkTestKit
import Testing

/// Answers that are longer than what may wait for a peer.
@Suite struct ContentTests {
    /// Counts what is taken of it.
    private final class Content: HTTPContent {
        let byteCount: Int
        var heldByteCount = 0
        var readableCount: Int
        private(set) var takenCount = 0

        init(_ byteCount: Int) { (self.byteCount, readableCount) = (byteCount, byteCount) }

        func bytes(from offset: Int, count: Int) -> [UInt8] {
            let piece = [UInt8](repeating: 0x61, count: max(0, min(count, readableCount - offset)))
            takenCount += piece.count
            return piece
        }
    }

    private func begin(_ content: Content, room: Int, _ request: String = get("/a")) throws -> (HTTPScene, MemoryChannel) {
        let scene = try HTTPScene()
        scene.respond = { $0.answer($0.request.path == "/a" ? HTTPResponse(.ok, body: .content(content)) : .text("next")) }
        let channel = try scene.connect()
        channel.roomBytes = room
        channel.send(Array(request.utf8))
        scene.settle()
        return (scene, channel)
    }

    @Test func `content is taken as its peer reads, and the next answer follows it`() throws {
        let content = Content(1_000_000)
        let (scene, channel) = try begin(content, room: 1000, get("/a") + get("/b"))
        #expect(content.takenCount <= 3 * 65_536, "\(content.takenCount) bytes are taken for a peer that does not read")
        var text = ""
        for _ in 0..<2000 where !text.hasSuffix("next") { text += scene.read(channel) }
        #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.contains("\r\nContent-Length: 1000000\r\n"))
        #expect(text.utf8.count { $0 == 0x61 } >= 1_000_000 && text.hasSuffix(answer("200 OK", "next")))
    }

    @Test func `HEAD takes none of it, and an empty one is an answer`() throws {
        let content = Content(1_000_000)
        let (_, channel) = try begin(content, room: 1 << 20, get("/a", method: "HEAD"))
        #expect(String(decoding: channel.take(), as: UTF8.self).hasSuffix("\r\nContent-Length: 1000000\r\n\r\n"))
        #expect(content.takenCount == 0)
        let (_, other) = try begin(Content(0), room: 1 << 20, get("/a") + get("/b"))
        #expect(String(decoding: other.take(), as: UTF8.self).hasSuffix(answer("200 OK", "next")))
    }

    @Test func `content that cannot be read to its end ends the connection`() throws {
        let content = Content(200_000)
        content.readableCount = 100_000
        let (scene, channel) = try begin(content, room: 1 << 20)
        _ = scene.read(channel)
        #expect(channel.isClosed)
    }

    @Test func `a peer that reads nothing of it is given up`() throws {
        let (scene, channel) = try begin(Content(1_000_000), room: 1000)
        scene.advance(seconds: 59)
        #expect(!channel.isClosed)
        scene.advance(seconds: 2)
        #expect(channel.isClosed)
    }

    @Test func `answers that nobody reads are bounded together, and the one that waits longest ends`() throws {
        let scene = try HTTPScene()
        scene.respond = { $0.answer(HTTPResponse(.ok, body: .bytes([UInt8](repeating: 0x61, count: 3 << 20)))) }
        let channels = try (1...10).map { number in
            let channel = try scene.connect(from: "198.51.100.\(number)")
            channel.roomBytes = 1000
            channel.send(Array(get("/a").utf8))
            scene.advance(seconds: 1)
            return channel
        }
        #expect(channels.map(\.isClosed) == [true, true, true, true, true, false, false, false, false, false], "16 MiB may wait")
    }

    @Test func `bodies of requests are bounded together, and the one that comes since longest ends`() throws {
        let scene = try HTTPScene(bodyBytesMax: 3 << 20)
        let head = get("/a", "Content-Length: \(3 << 20)\r\n", method: "POST")
        let channels = try (1...10).map { number in
            let channel = try scene.connect(from: "198.51.100.\(number)")
            channel.send(Array(head.utf8) + [UInt8](repeating: 0x61, count: (3 << 20) - 1))
            scene.advance(seconds: 1)
            return channel
        }
        #expect(channels.map(\.isClosed) == [true, true, true, true, true, false, false, false, false, false], "16 MiB may wait")
        channels[9].send([0x61])
        #expect(scene.read(channels[9]) == answer("200 OK", "/a"))
    }

    @Test func `bodies behind a request that is being answered stay with the kernel, and come when it is answered`() throws {
        let scene = try HTTPScene(bodyBytesMax: 1 << 20)
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        let request =
            Array(get("/a", "Content-Length: 1000000\r\n", method: "POST").utf8) + [UInt8](repeating: 0x61, count: 1_000_000)
        for _ in 0..<8 { channel.send(request) }
        scene.settle()
        #expect(channel.unreadCount > 6_500_000, "what waits is the kernel's")
        for number in 0..<8 {
            exchanges[number].answer(.text("/a"))
            scene.settle()
        }
        #expect(scene.read(channel) == String(repeating: answer("200 OK", "/a"), count: 8))
    }

    @Test func `one answer may be larger than all that may wait`() throws {
        let scene = try HTTPScene()
        scene.respond = { $0.answer(HTTPResponse(.ok, body: .bytes([UInt8](repeating: 0x61, count: 20 << 20)))) }
        let channel = try scene.connect()
        channel.roomBytes = 40 << 20
        #expect(scene.ask(channel, get("/a")).utf8.count > 20 << 20)
    }
}
