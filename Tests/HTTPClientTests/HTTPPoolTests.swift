import HTTP
import NetworkTestKit
import Platform
import Testing
import Transports

@testable import HTTPClient

/// A client on a simulated network and clock, whose server is the test.
final class ClientScene: LoopTurn, HTTPConnector {
    let network = MemoryNetwork()
    let loop: EventLoop
    private let poller: SimulatedPoller
    private var deadline: UInt64? = 0
    private(set) var pool: HTTPPool?
    /// What connections come to; nil for connections that stand at once.
    var dialFailure: HTTPClientFailure?
    var isSilent = false
    private var lastNumber: UInt64 = 0
    private(set) var cancelled: [UInt64] = []
    /// What was answered, as text, in the order of the answers.
    let answers = Locked<[String]>([])

    init(_ change: (inout HTTPClientSettings) -> Void = { _ in }) {
        poller = SimulatedPoller(network: network, seed: 1)
        loop = EventLoop(name: "http", poller: poller)
        var settings = HTTPClientSettings()
        settings.bodyBytesMax = 1000
        change(&settings)
        pool = HTTPPool(HTTPAddress(host: "users", port: 80), settings, connector: self, on: loop)
    }

    deinit { pool = nil }

    let nextDeadline: UInt64? = nil
    func advance(now: UInt64) {}
    func cancel(_ number: UInt64) { cancelled.append(number) }

    func connect(_ finished: @escaping (Result<any ByteChannel, HTTPClientFailure>) -> Void) -> UInt64 {
        lastNumber += 1
        if isSilent { return lastNumber }
        if let dialFailure { finished(.failure(dialFailure)) } else { finished(.success(network.makeChannel())) }
        return lastNumber
    }

    func beginTurn(now: UInt64) {}

    func endOfTurn(now: UInt64) -> UInt64? {
        pool?.advance(now: now)
        return pool?.nextDeadline
    }

    func settle() {
        deadline = loop.turn(self, until: 0)
        for _ in 0..<10_000 {
            guard deadline.map({ $0 <= network.now }) ?? false || poller.isReady else { return }
            deadline = loop.turn(self, until: deadline)
        }
        Issue.record("the client does not come to rest")
    }

    func advance(milliseconds: UInt64) {
        network.now += milliseconds
        settle()
    }

    final class Asker {}

    @discardableResult
    func ask(_ question: HTTPQuestion = HTTPQuestion(.get, "/a"), name: String = "") -> Asker {
        let asker = Asker()
        pool?.ask(question, asker) { [answers] result in
            let text =
                switch result {
                case .success(let answer): "\(answer.status.rawValue) \(String(decoding: answer.body, as: UTF8.self))"
                case .failure(let failure): "\(failure.kind): \(failure)"
                }
            answers.withLock { $0.append(name + text) }
        }
        settle()
        return asker
    }

    var channels: [MemoryChannel] { network.channels }

    /// The server answers on the connection of that number.
    func answer(_ index: Int, _ text: String) {
        channels[index].send(Array(text.utf8))
        settle()
    }

    func asked(_ index: Int) -> String { String(decoding: channels[index].take(), as: UTF8.self) }
}

private func ok(_ body: String, _ fields: String = "") -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body)"
}

/// One server's questions and connections.
@Suite struct HTTPPoolTests {
    @Test func `a question is sent as it has to be, and the answer comes whole`() {
        let scene = ClientScene()
        scene.ask(HTTPQuestion(.post, "/login?x=1", fields: [.init("Content-Type", "text/plain\r\nX: y")], body: Array("hi".utf8)))
        #expect(
            scene.asked(0)
                == "POST /login?x=1 HTTP/1.1\r\nHost: users\r\nContent-Type: text/plain  X: y\r\nContent-Length: 2\r\n\r\nhi")
        let text = ok("yes")
        for byte in text.utf8 {
            scene.channels[0].send([byte])
            scene.settle()
        }
        #expect(scene.answers.value == ["200 yes"])
    }

    @Test func `a connection is kept for the next question, and goes when nobody needs it`() {
        let scene = ClientScene()
        for number in 0..<3 {
            scene.ask(HTTPQuestion(.get, "/\(number)"))
            scene.answer(0, ok("\(number)"))
        }
        #expect(scene.channels.count == 1 && scene.answers.value == ["200 0", "200 1", "200 2"])
        scene.advance(milliseconds: 30_001)
        #expect(scene.channels[0].isClosed && scene.pool?.connectionCount == 0)
        scene.ask()
        scene.answer(1, ok("x", "Connection: close\r\n"))
        #expect(scene.channels[1].isClosed && scene.answers.value.last == "200 x")
    }

    @Test func `a kept connection that had ended is replaced, once`() {
        let scene = ClientScene()
        scene.ask(HTTPQuestion(.get, "/1"))
        scene.answer(0, ok("1"))
        scene.ask(HTTPQuestion(.get, "/2"))
        scene.channels[0].end()
        scene.settle()
        #expect(scene.channels.count == 2 && scene.asked(1).hasPrefix("GET /2 "))
        scene.channels[1].end()
        scene.settle()
        #expect(scene.answers.value == ["200 1", "unavailable: closes the connection without an answer"])
        // One that ends while nobody asks is no failure.
        scene.ask(HTTPQuestion(.get, "/3"))
        scene.answer(2, ok("3"))
        scene.channels[2].end()
        scene.settle()
        #expect(scene.channels[2].isClosed && scene.pool?.connectionCount == 0)
    }

    @Test func `the same question is asked once for all who ask it, and given up when none of them waits`() {
        let scene = ClientScene()
        let first = scene.ask(name: "a ")
        let second = scene.ask(name: "b ")
        let third = scene.ask(name: "c ")
        #expect(scene.channels.count == 1)
        scene.pool?.cancel(second)
        scene.answer(0, ok("x"))
        #expect(scene.answers.value == ["a 200 x", "c 200 x"])
        let fourth = scene.ask(name: "d ")
        scene.pool?.cancel(fourth)
        scene.settle()
        // Its answer would be the next question's.
        #expect(scene.channels[0].isClosed)
        for asker in [first, second, third, fourth] { scene.pool?.cancel(asker) }
        scene.ask(name: "e ")
        scene.answer(1, ok("y"))
        #expect(scene.answers.value.last == "e 200 y")
    }

    @Test func `whoever keeps nothing to cancel its question with is answered, whoever else goes`() {
        let scene = ClientScene()
        weak var first: ClientScene.Asker?
        first = scene.ask(name: "a ")
        // Else the next one may have its place in memory.
        #expect(first != nil)
        for _ in 0..<100 {
            let other = scene.ask(name: "b ")
            scene.pool?.cancel(other)
        }
        scene.answer(0, ok("x"))
        #expect(scene.answers.value == ["a 200 x"] && first == nil)
    }

    @Test func `no more is asked at a time than allowed, and no more waits than allowed`() {
        let scene = ClientScene {
            $0.inFlightMax = 2
            $0.queueMax = 3
        }
        let askers = (0..<6).map { scene.ask(HTTPQuestion(.get, "/\($0)"), name: "\($0) ") }
        #expect(scene.channels.count == 2 && scene.answers.value == ["5 busy: has 3 questions waiting"])
        scene.pool?.cancel(askers[2])
        scene.answer(0, ok("x"))
        // The last one to come: a crowd does not keep out who comes behind it.
        #expect(scene.asked(0).contains("GET /4 "))
        scene.answer(0, ok("x"))
        scene.answer(0, ok("x"))
        #expect(scene.answers.value.dropFirst() == ["0 200 x", "4 200 x", "3 200 x"])
    }

    @Test func `a question that is hurried is given up soon, and says nothing against the server`() {
        let scene = ClientScene { ($0.inFlightMax, $0.failuresMax) = (1, 2) }
        scene.ask(HTTPQuestion(.get, "/1"))
        for index in 0..<4 {
            var question = HTTPQuestion(.get, "/hurried\(index)")
            question.isHurried = true
            scene.ask(question, name: "\(index) ")
        }
        #expect(scene.pool?.nextDeadline == scene.network.now + 500)
        scene.advance(milliseconds: 500)
        #expect(scene.answers.value == (0..<4).map { "\($0) unavailable: has not come to this question within 500 ms" })
        scene.answer(0, ok("yes"))
        var question = HTTPQuestion(.get, "/late")
        question.isHurried = true
        scene.ask(question)
        scene.advance(milliseconds: 499)
        scene.answer(0, ok("in time"))
        #expect(Array(scene.answers.value.dropFirst(4)) == ["200 yes", "200 in time"])
    }

    @Test func `a server that is silent, or slower than allowed, is answered for in time`() {
        let scene = ClientScene { $0.inFlightMax = 1 }
        scene.ask(HTTPQuestion(.get, "/1"))
        scene.ask(HTTPQuestion(.get, "/2"))
        // A byte now and then is no answer.
        for byte in "HTTP/1".utf8 {
            scene.channels[0].send([byte])
            scene.advance(milliseconds: 830)
        }
        scene.advance(milliseconds: 100)
        #expect(
            scene.answers.value == [
                "unavailable: does not answer within 5 s", "unavailable: has not come to this question within 5 s",
            ])
        #expect(scene.channels[0].isClosed)
        scene.isSilent = true
        scene.ask(HTTPQuestion(.get, "/3"))
        scene.advance(milliseconds: 3001)
        #expect(
            scene.answers.value.last == "unavailable: cannot be reached: no connection within 3000 ms" && scene.cancelled == [2])
    }

    @Test(arguments: [
        ("HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n\r\n", "answers 302 Found, and redirects are not followed"),
        ("SSH-2.0-OpenSSH\r\n", "answers what is no answer of HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n", "answers what is longer than 1000 bytes"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "answers what does not say clearly how long it is"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "answers what says in two ways, or in one that is not known, how long it is"
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            "answers with the Content-Type text/html; expected application/json"
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "answers without a Content-Type; expected application/json"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "answers what does not come"),
    ])
    func `an answer that cannot be taken is refused with words, and its connection ends`(text: String, words: String) {
        let scene = ClientScene { $0.contentTypes = ["application/json"] }
        scene.ask()
        scene.answer(0, text)
        #expect(scene.answers.value == ["badAnswer: \(words)"])
        #expect(scene.channels[0].isClosed)
    }

    @Test func `a head without an end and a body without one are bounded`() {
        for (start, piece) in [
            ("HTTP/1.1 200 OK\r\n", "X-Field: \(String(repeating: "x", count: 500))\r\n"),
            ("HTTP/1.1 200 OK\r\n\r\n", String(repeating: "x", count: 500)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1f4\r\n\(String(repeating: "x", count: 500))\r\n"),
        ] {
            let scene = ClientScene()
            scene.ask()
            scene.answer(0, start)
            for _ in 0..<60 where !scene.channels[0].isClosed { scene.answer(0, piece) }
            #expect(scene.channels[0].isClosed && scene.answers.value.first?.hasPrefix("badAnswer: answers what") == true)
        }
    }

    @Test func `a truncated answer is none, and bytes behind one end its connection`() {
        let scene = ClientScene()
        scene.ask(HTTPQuestion(.get, "/1"))
        scene.channels[0].send(Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal".utf8))
        scene.channels[0].end()
        scene.settle()
        #expect(scene.answers.value == ["badAnswer: answers what ends before it is whole"])
        scene.ask(HTTPQuestion(.get, "/2"))
        scene.answer(1, ok("x") + ok("y"))
        #expect(scene.answers.value.last == "200 x" && scene.channels[1].isClosed)
        scene.ask(HTTPQuestion(.get, "/3"))
        scene.answer(2, ok("z"))
        scene.answer(2, ok("unasked"))
        #expect(scene.channels[2].isClosed && scene.answers.value.count == 3)
        // Without a length it ends with the connection.
        scene.ask(HTTPQuestion(.get, "/4"))
        scene.channels[3].send(Array("HTTP/1.0 200 OK\r\n\r\nold".utf8))
        scene.channels[3].end()
        scene.settle()
        #expect(scene.answers.value.last == "200 old")
    }

    @Test func `after failures in a row nobody asks for a while, and then one does`() {
        let scene = ClientScene {
            $0.failuresMax = 3
            $0.pauseMilliseconds = 10_000
            $0.inFlightMax = 1
        }
        scene.dialFailure = HTTPClientFailure(.unavailable, "cannot be reached: Connection refused")
        for number in 0..<3 { scene.ask(HTTPQuestion(.get, "/\(number)")) }
        #expect(scene.answers.value.count == 3)
        scene.ask()
        #expect(scene.answers.value.last == "unavailable: is not asked for 11 s: it cannot be reached: Connection refused")
        scene.dialFailure = nil
        #expect(scene.channels.isEmpty)
        scene.advance(milliseconds: 10_001)
        let first = scene.ask(HTTPQuestion(.get, "/trial"))
        scene.ask(HTTPQuestion(.get, "/other"))
        #expect(scene.channels.count == 1)
        scene.answer(0, "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n")
        #expect(scene.answers.value.suffix(2).first == "503 ")
        #expect(scene.answers.value.last == "unavailable: is not asked for 10 s: it answers 503 Service Unavailable")
        scene.advance(milliseconds: 10_001)
        scene.ask(HTTPQuestion(.get, "/again"))
        scene.answer(0, ok("up"))
        scene.ask()
        scene.answer(0, ok("and"))
        #expect(scene.answers.value.suffix(2) == ["200 up", "200 and"])
        _ = first
    }

    @Test func `questions that it has not come to in time say nothing against a server that answers`() {
        let scene = ClientScene { ($0.failuresMax, $0.inFlightMax) = (3, 1) }
        for number in 0..<100 { scene.ask(HTTPQuestion(.get, "/\(number)")) }
        scene.advance(milliseconds: 4_999)
        scene.answer(0, ok("slow"))
        #expect(scene.answers.value == ["200 slow"])
        // The one that is being asked now has come as early as all others.
        scene.advance(milliseconds: 1)
        #expect(scene.answers.value.count == 100)
        #expect(scene.answers.value.count { $0 == "unavailable: has not come to this question within 5 s" } == 98)
        scene.ask(HTTPQuestion(.get, "/next"))
        scene.answer(1, ok("next"))
        #expect(scene.answers.value.last == "200 next")
    }

    @Test func `what waits when the server goes down does not wait for it`() {
        let scene = ClientScene {
            $0.failuresMax = 2
            $0.inFlightMax = 1
        }
        for number in 0..<100 { scene.ask(HTTPQuestion(.get, "/\(number)")) }
        for index in 0..<2 {
            scene.channels[index].end()
            scene.settle()
        }
        #expect(scene.answers.value.count == 100 && scene.network.now == 1_000_000)
    }
}

@Suite struct HTTPAddressTests {
    @Test(arguments: [
        ("http://users", "http://users/", 80), ("https://users:8443/mqtt/login?key=1", "https://users:8443/mqtt/login", 8443),
        ("http://[::1]:8080/x", "http://[::1]:8080/x", 8080), ("HTTPS://[fe80::1]", "https://[fe80::1]/", 443),
        ("http://a?b", "http://a/", 80), ("http://a/b#c", "http://a/b", 80),
    ])
    func `a URL is read, and told without its query`(url: String, text: String, port: UInt16) throws {
        let address = try HTTPAddress(url: url)
        #expect("\(address)" == text && address.port == port)
    }

    @Test(arguments: [
        "users", "ftp://users", "http://", "http:///x", "http://u:p@users", "http://users:0", "http://users:x",
        "http://users:70000",
        "http://[::1", "http://[::1]x", "http://us ers/", "http://users/a b", "http://users/ä", "http://ä/",
    ])
    func `what is none is refused with words`(url: String) {
        #expect(throws: HTTPAddressError.self) { try HTTPAddress(url: url) }
    }
}
