import MartletClient
import TestBasics
import Testing

@testable import Commands

@Suite struct RunningTests {
    private func read(_ command: ClientCommand, _ line: String) throws -> ClientArguments {
        let wish = try ClientArguments.read(line.split(separator: " ").map(String.init), for: command)
        guard case .run(let arguments) = wish else { throw Unexpected() }
        return arguments
    }

    private struct Unexpected: Error {}

    private func message(_ topic: TopicName, retain: Bool = false) -> ReceivedMessage {
        ReceivedMessage(topic: topic, payload: "x", qos: .atMostOnce, retain: retain, duplicate: false, token: nil)
    }

    @Test(arguments: [
        ("-t a", "mqtt://localhost:1883"), ("-t a -h h -p 7", "mqtt://h:7"), ("-t a -h ::1", "mqtt://[::1]:1883"),
        ("-t a --unix /s", "unix:/s"), ("-t a -h h --ws", "ws://h:1883"), ("-t a -h h -p 8883", "mqtts://h:8883"),
        ("-t a --cafile f -h h --ws -p 9", "wss://h:9"), ("-L wss://h/t", "wss://h:8883"),
        ("-t a -p 8883 --no-tls", "mqtt://localhost:8883"),
    ])
    func `Arguments become the library's address`(line: String, address: String) throws {
        #expect(try read(.sub, line).connection.address == address)
    }

    @Test func `A session's life is what -c and -x say`() throws {
        #expect(try ClientSettings(try read(.sub, "-t a")).session == .ended)
        #expect(try ClientSettings(try read(.sub, "-t a -c -i me -V 5")).session == .kept(.seconds(UInt32.max)))
        #expect(try ClientSettings(try read(.sub, "-t a -x 60 -i me -V 5")).session == .keptAnew(.seconds(60)))
        #expect(try ClientSettings(try read(.sub, "-t a -x 60 -i me")).session == .ended)
        #expect(try ClientSettings(try read(.sub, "-t a -C 3")).receiveMaximum == 3)
    }

    @Test func `What the broker may send is bounded, and by how much can be said`() throws {
        #expect(try ClientSettings(try read(.sub, "-t a")).maximumPacketSize == 16 << 20)
        #expect(try ClientSettings(try read(.sub, "-t a -D connect maximum-packet-size 1000")).maximumPacketSize == 1000)
    }

    @Test func `Only what lasts is connected again`() throws {
        #expect(try ClientSettings(try read(.pub, "-t a -n")).reconnect.attemptsMax == 0)
        for policy in [
            try ClientSettings(try read(.pub, "-t a -l")).reconnect, try ClientSettings(try read(.sub, "-t a")).reconnect,
        ] {
            #expect(policy.attemptsMax == nil)
            #expect((policy.first, policy.longest) == (.seconds(1), .seconds(1)))
        }
    }

    @Test func `A refusal ends a command, though the library tries again`() throws {
        let policy = try ClientSettings(try read(.sub, "-t a")).reconnect
        #expect(policy.isFinal(ServerRefusal(.notAuthorized)))
        #expect(policy.isFinal(ServerRefusal(.administrativeAction, wasConnected: true)))
        #expect(!policy.isFinal(ServerRefusal(.serverBusy)))
    }

    @Test func `Path, headers and proxy go with the address`() throws {
        let arguments = try read(.sub, "-t a -h h --ws-path /x?y=1 --ws-header X-Token:abc --proxy socks5h://me:no@p:7")
        #expect(arguments.connection.address == "ws://h:1883/x?y=1")
        let settings = try ClientSettings(arguments)
        #expect(settings.servers[0].webSocketHeaders == ["X-Token": "abc"])
        #expect(settings.proxy.map { "\($0)" } == "socks5h://p:7")
    }

    @Test func `What the client cannot do is said`() throws {
        #expect(throws: ClientError.settings("the Unix socket /s takes neither TLS nor WebSocket")) {
            try ClientSettings(try read(.sub, "-t a --unix /s --ws"))
        }
        #expect(throws: ClientError.settings("proxy: its address begins with socks5h:// or http://")) {
            try ClientSettings(try read(.sub, "-t a --proxy ftp://h"))
        }
        #expect(throws: ClientError.settings("enhanced authentication is not supported: log in with -u and -P")) {
            try ClientSettings(try read(.sub, "-t a -D connect authentication-method x"))
        }
        #expect(throws: ClientError.settings("/nonexistent: No such file or directory")) {
            try ClientSettings(try read(.sub, "-t a --cafile /nonexistent"))
        }
    }

    @Test func `A sieve lets through what the options want`() throws {
        var sieve = MessageSieve(try read(.sub, "-t # -T b/# -R"))
        #expect(sieve.judge(message("a")) == .accept(isShown: true))
        #expect(sieve.judge(message("b/c")) == .skip)
        #expect(sieve.judge(message("a", retain: true)) == .skip)
        sieve = MessageSieve(try read(.sub, "-t # -R --remove-retained"))
        #expect(sieve.judge(message("a", retain: true)) == .accept(isShown: false))
        sieve = MessageSieve(try read(.sub, "-t # --retained-only"))
        #expect(sieve.judge(message("a", retain: true)) == .accept(isShown: true))
        #expect(sieve.judge(message("a")) == .end)
        sieve = MessageSieve(try read(.sub, "-t # -E"))
        #expect(sieve.judge(message("a", retain: true)) == .skip)
    }

    @Test func `Each topic has a line of the terminal, and the cursor waits below them`() {
        var lines = TopicLines(rows: 3)
        func shown(_ topic: String, _ printed: String) -> String {
            String(decoding: lines.line(of: topic.utf8).around(Array(printed.utf8)), as: UTF8.self)
        }
        let escape = "\u{1B}["
        #expect(shown("a", "1\n") == "\(escape)H\(escape)2J\(escape)?7l\(escape)1;1H1\(escape)K\(escape)?7h\(escape)2;1H")
        #expect(shown("b", "2\nmore\n") == "\(escape)?7l\(escape)2;1H2\(escape)K\(escape)?7h\(escape)3;1H")
        #expect(shown("a", "3") == "\(escape)?7l\(escape)1;1H3\(escape)K\(escape)?7h\(escape)3;1H")
        #expect(shown("c", "4\n") == "", "there are no more lines")
    }

    @Test func `A share of the messages is shown`() throws {
        var sieve = MessageSieve(try read(.sub, "-t # --random-filter 25"), generator: SeededGenerator(seed: 0))
        var shown = 0
        for _ in 0..<10_000 where sieve.judge(message("a")) == .accept(isShown: true) { shown += 1 }
        #expect((2400...2600).contains(shown))
    }

    @Test func `Lines come out of chunks however they are cut`() {
        let text = Array("one\n\ntwo\nlast".utf8)
        for size in 1...text.count {
            var splitter = LineSplitter()
            var lines: [[UInt8]] = []
            for start in stride(from: 0, to: text.count, by: size) {
                lines += splitter.take(Array(text[start..<min(start + size, text.count)]))
            }
            if let last = splitter.last() { lines.append(last) }
            #expect(lines.map { String(decoding: $0, as: UTF8.self) } == ["one", "", "two", "last"], "in pieces of \(size)")
        }
        var splitter = LineSplitter()
        #expect(splitter.take(Array("a\n".utf8)) == [Array("a".utf8)])
        #expect(splitter.last() == nil)
    }

    struct Refusal: Sendable {
        let error: ClientError
        let version: ProtocolVersion
        let words: String
        let code: Int32
    }

    @Test(arguments: [
        Refusal(
            error: .refused(.notAuthorized), version: .v311, words: "Connection error: Connection Refused: not authorised.", code: 5
        ),
        Refusal(error: .refused(.notAuthorized), version: .v5, words: "Connection error: Not authorized", code: 135),
        Refusal(error: .refused(.banned, "go away"), version: .v5, words: "Connection error: Banned (go away)", code: 138),
        Refusal(
            error: .unreachable(server: "mqtt://a.b:1883", reason: "unknown"), version: .v5,
            words: "Error: mqtt://a.b:1883: unknown",
            code: 1),
        Refusal(error: .timedOut, version: .v5, words: "Error: The server does not answer.", code: 1),
    ])
    func `An error has its words and its exit code`(refusal: Refusal) {
        let (words, code) = ClientExitCode.of(refusal.error, refusal.version)
        #expect(words == refusal.words)
        #expect(code == refusal.code)
    }

    @Test func `A program's output is the answer, its exit code says whether it is one`() async {
        let shouted = await AnswerProgram(["tr", "a-z", "A-Z"]).run(Array("hello".utf8), environment: [:])
        #expect(shouted.output == Array("HELLO".utf8))
        #expect(shouted.failure == nil)
        let failed = await AnswerProgram(["sh", "-c", "printf %s \"$GREETING\"; exit 3"]).run([], environment: ["GREETING": "no"])
        #expect(failed.output == Array("no".utf8))
        #expect(failed.failure == "it ended with exit code 3")
        #expect(await AnswerProgram(["/nonexistent"]).run([], environment: [:]).failure == "No such file or directory")
        // It reads nothing, and more is written than a pipe holds.
        let deaf = await AnswerProgram(["true"]).run([UInt8](repeating: 1, count: 1 << 20), environment: [:])
        #expect(deaf.failure == nil)
        let large = await AnswerProgram(["cat"]).run([UInt8](repeating: 7, count: 1 << 20), environment: [:])
        #expect(large.output.count == 1 << 20)
    }
}
