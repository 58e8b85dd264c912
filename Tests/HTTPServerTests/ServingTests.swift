import HTTP
import HTTPServer
import NetworkTestKit
import Testing
import Transports

@Suite struct ServingTests {
    @Test func `a connection is kept for the next request`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/a")) == answer("200 OK", "/a"))
        #expect(scene.ask(channel, get("/b")) == answer("200 OK", "/b"))
        #expect(!channel.isClosed)
        #expect(scene.service.connectionCount == 1)
    }

    @Test func `a connection ends with the answer to a request that asks for it`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/a", "Connection: close\r\n")) == answer("200 OK", "/a", closes: true))
        #expect(channel.hasShutDown)
        #expect(!channel.isClosed, "what it still sends is read, so that it does not lose the answer")
        scene.advance(seconds: 3)
        #expect(channel.isClosed)
        #expect(!channel.wasReset)
        #expect(scene.service.connectionCount == 0)
    }

    @Test func `requests that come together are answered one after the other, whatever takes how long`() throws {
        let scene = try HTTPScene()
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/a") + get("/b") + get("/c")) == "")
        #expect(exchanges.map(\.request.path) == ["/a"])
        exchanges[0].answer(.text("1"))
        exchanges[1].answer(.text("2"))
        exchanges[2].answer(.text("3"))
        #expect(scene.read(channel) == ["1", "2", "3"].map { answer("200 OK", $0) }.joined())
    }

    @Test func `at most eight requests wait; more stay with the kernel`() throws {
        let scene = try HTTPScene(bodyBytesMax: 100)
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        channel.readBytesMax = 40
        for number in 0..<40 { channel.send(Array(get("/\(number)").utf8)) }
        scene.settle()
        #expect(channel.unreadCount > 20 * get("/0").utf8.count)
        scene.respond = { $0.answer(.text($0.request.path)) }
        exchanges[0].answer(.text("/0"))
        #expect(scene.read(channel) == (0..<40).map { answer("200 OK", "/\($0)") }.joined())
    }

    @Test func `a peer that sends no more gets all of its answers`() throws {
        let scene = try HTTPScene()
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        channel.send(Array((get("/a") + get("/b")).utf8))
        channel.end()
        scene.settle()
        exchanges[0].answer(.text("1"))
        exchanges[1].answer(.text("2"))
        #expect(scene.read(channel) == answer("200 OK", "1") + answer("200 OK", "2", closes: true))
        #expect(channel.isClosed)
    }

    @Test func `a request that nobody answers is answered with 500`() throws {
        let scene = try HTTPScene()
        scene.respond = { _ in }
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/a")).hasPrefix("HTTP/1.1 500 "))
        #expect(scene.ask(channel, get("/a")).hasPrefix("HTTP/1.1 500 "))
    }

    @Test func `an answer without a body has none, and HEAD gets the head alone`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        let text = scene.ask(channel, get("/abc", method: "HEAD"))
        #expect(text == String(answer("200 OK", "/abc").dropLast(4)))
        scene.respond = { $0.answer(HTTPResponse(.noContent)) }
        #expect(scene.ask(channel, get("/")) == "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n")
    }

    @Test func `leave to send a body is given once, and after the answers that come before`() throws {
        let scene = try HTTPScene()
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        let head = get("/b", "Content-Length: 2\r\nExpect: 100-continue\r\n", method: "POST")
        #expect(scene.ask(channel, get("/a") + head) == "")
        exchanges[0].answer(.text("1"))
        #expect(scene.read(channel) == answer("200 OK", "1") + "HTTP/1.1 100 Continue\r\n\r\n")
        #expect(scene.ask(channel, "hi") == "")
        #expect(exchanges[1].request.body == Array("hi".utf8))
        exchanges[1].answer(.text("2"))
        #expect(scene.read(channel) == answer("200 OK", "2"))
    }

    @Test func `a body that is too long is refused before it is sent, and the connection ends`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        let text = scene.ask(channel, get("/b", "Content-Length: 2000\r\nExpect: 100-continue\r\n", method: "POST"))
        #expect(text.hasPrefix("HTTP/1.1 413 Content Too Large\r\n"))
        #expect(text.contains("\r\nConnection: close\r\n"))
        #expect(channel.hasShutDown)
    }

    @Test func `what is no request is answered with 400 behind the answers that are owed`() throws {
        let scene = try HTTPScene()
        var exchanges: [HTTPExchange] = []
        scene.respond = { exchanges.append($0) }
        let channel = try scene.connect()
        #expect(scene.ask(channel, get("/a") + "nonsense\r\n\r\n" + get("/b")) == "")
        exchanges[0].answer(.text("1"))
        let text = scene.read(channel)
        #expect(text.hasPrefix(answer("200 OK", "1") + "HTTP/1.1 400 Bad Request\r\n"))
        #expect(exchanges.count == 1)
        #expect(channel.hasShutDown)
        guard case .refused(let peer, let refusal)? = scene.reports.first else {
            Issue.record("nobody is told")
            return
        }
        #expect(peer.listener == 3 && peer.host == "192.0.2.7")
        #expect(refusal.status == .badRequest)
    }

    @Test func `a peer that is not admitted is closed at once`() throws {
        let scene = try HTTPScene()
        scene.admits = { _ in false }
        #expect(try scene.connect().isClosed)
        #expect(scene.service.connectionCount == 0)
    }

    @Test func `the exchange hears when its peer is gone`() throws {
        let scene = try HTTPScene()
        var kept: HTTPExchange?
        var gone = 0
        scene.respond = { exchange in
            kept = exchange
            exchange.onGone = { gone += 1 }
        }
        let channel = try scene.connect()
        _ = scene.ask(channel, get("/a"))
        channel.fail()
        scene.settle()
        #expect(gone == 1)
        #expect(kept?.isOpen == false)
        kept?.answer(.text("late"))
        #expect(scene.service.connectionCount == 0)
        #expect(scene.network.openCount == 1, "the listener")
    }

    @Test func `stopping ends every connection`() throws {
        let scene = try HTTPScene()
        let channel = try scene.connect()
        _ = scene.ask(channel, get("/a"))
        scene.service.stop()
        scene.settle()
        #expect(channel.isClosed)
        #expect(scene.network.openCount == 0)
        #expect(scene.acceptor.connect() == nil)
    }
}
