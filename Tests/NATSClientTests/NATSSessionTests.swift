import Bytes
import Testing

@testable import NATSClient

/// A session against a server that the test plays.
@Suite struct NATSSessionTests {
    /// A session, its clock, and what came of it.
    final class Played {
        let session: NATSSession
        var now: UInt64 = 1000
        var heard: [String] = []

        init(_ servers: [String] = ["nats://a"], login: NATSLogin? = nil, changing: (inout NATSSettings) -> Void = { _ in }) throws
        {
            var settings = NATSSettings(
                servers: try servers.map { try ServerAddress(reading: $0) }, name: "n1", versionMin: ServerVersion(2, 11),
                programVersion: "1.0")
            settings.login = login
            changing(&settings)
            session = NATSSession(settings, random: SeededGenerator(seed: 7))
        }

        /// What the session wants now.
        func effects() -> [NATSEffect] { session.takeEffects() }

        func output() -> String { String(decoding: session.takeOutput(), as: UTF8.self) }

        func say(_ text: String) {
            Array(text.utf8).withUnsafeBytes {
                session.received($0, now: now) { view in
                    heard.append("\(view.subscription) \(String(decoding: view.payload, as: UTF8.self))")
                }
            }
        }

        func wait(_ milliseconds: UInt64) {
            now += milliseconds
            session.advance(now: now)
        }

        /// Goes until the server is to say who it is.
        func greet() {
            if session.state == .idle { session.start(now: now) }
            session.connected(now: now)
            _ = effects()
        }

        /// Goes until messages flow; returns the first output.
        @discardableResult
        func join(_ info: String = NATSSessionTests.info()) -> String {
            greet()
            say(info)
            let output = output()
            say("PONG\r\n")
            return output
        }
    }

    static func info(version: String = "2.14.0", _ more: String = "") -> String {
        "INFO {\"server_id\":\"A\",\"version\":\"\(version)\",\"max_payload\":1024,\"headers\":true\(more)}\r\n"
    }

    @Test func `a session is ready when the first PING is answered`() throws {
        let played = try Played(login: .user("u", password: "p"))
        played.session.start(now: played.now)
        #expect(played.effects() == [.dial(try ServerAddress(reading: "nats://a"))])
        played.session.connected(now: played.now)
        #expect(played.output() == "")
        played.say(Self.info())
        let output = played.output()
        #expect(output.hasPrefix("CONNECT {\"verbose\":false,") && output.hasSuffix("PING\r\n"))
        #expect(output.contains("\"user\":\"u\"") && output.contains("\"pass\":\"p\"") && output.contains("\"echo\":false"))
        #expect(!played.session.isReady)
        played.say("PONG\r\n")
        #expect(played.session.isReady)
        guard case .ready(let info)? = played.effects().first else { return #expect(Bool(false), "it is not ready") }
        #expect(info.version == ServerVersion(2, 14))
    }

    @Test func `another login counts for a new connection, to the same server, and the old one ends`() throws {
        let played = try Played(["nats://a", "nats://b"], login: .user("u", password: "old"))
        played.join()
        let subscription = played.session.subscribe(try #require(SubjectPattern("a.>")))
        let number = try played.session.request(try #require(Subject("q")), payload: [], within: 1000, now: played.now)
        _ = played.effects()
        played.session.renew(login: .user("u", password: "new"), requiresTLS: false, now: played.now)
        let effects = played.effects()
        let first = try ServerAddress(reading: "nats://a")
        #expect(effects.first == .hangUp && effects.last == .dial(first))
        #expect(effects.contains(.answered(number, .lost)))
        #expect(effects.contains { if case .away = $0 { true } else { false } })
        let output = played.join()
        #expect(output.contains("\"pass\":\"new\"") && output.contains("SUB a.> \(subscription)\r\n") && played.session.isReady)
    }

    @Test func `whose login was refused need not wait for the next attempt with another one`() throws {
        let played = try Played(login: .token("old"))
        played.session.renew(login: .token("older"), requiresTLS: false, now: played.now)
        #expect(played.effects().isEmpty)
        played.greet()
        played.say(Self.info() + "-ERR 'Authorization Violation'\r\n")
        played.session.ended("closed", now: played.now)
        guard case .pausing = played.session.state else { return #expect(Bool(false), "it does not pause") }
        _ = played.effects()
        played.session.renew(login: .token("new"), requiresTLS: false, now: played.now)
        #expect(played.effects() == [.dial(try ServerAddress(reading: "nats://a"))])
        #expect(played.join().contains("\"auth_token\":\"new\""))
    }

    @Test func `messages flow both ways, and subscriptions outlive a connection`() throws {
        let played = try Played()
        let early = played.session.subscribe(try #require(SubjectPattern("a.>")))
        #expect(played.join().contains("SUB a.> \(early)\r\n"))
        let late = played.session.subscribe(try #require(SubjectPattern("b")))
        try played.session.publish(try #require(Subject("c")), payload: Array("hi".utf8))
        #expect(played.output() == "SUB b \(late)\r\nPUB c 2\r\nhi\r\n")
        played.say("MSG a.x \(early) 1\r\n1\r\nPING\r\nMSG b \(late) 1\r\n2\r\n")
        #expect(played.heard == ["\(early) 1", "\(late) 2"] && played.output() == "PONG\r\n")
        played.session.unsubscribe(late)
        #expect(played.output() == "UNSUB \(late)\r\n")
        played.session.ended("gone", now: played.now)
        #expect(played.effects().contains(.away(reason: "nats://a:4222: gone")))
        #expect(throws: NATSRefusal.away) { try played.session.publish(try #require(Subject("c")), payload: []) }
        played.wait(5000)
        let output = played.join()
        #expect(output.contains("SUB a.> \(early)\r\n") && !output.contains("SUB b "))
    }

    @Test func `an old server is left, and it is said which would do`() throws {
        let played = try Played()
        played.greet()
        played.say(Self.info(version: "2.9.10"))
        let effects = played.effects()
        #expect(effects == [.hangUp, .away(reason: "nats://a:4222: it is nats-server 2.9.10; 2.11.0 or newer is needed")])
    }

    @Test func `a login that is refused is told in the server's words`() throws {
        let played = try Played()
        played.greet()
        played.say(Self.info())
        played.say("-ERR 'Authorization Violation'\r\n")
        _ = played.effects()
        played.session.ended("end of stream", now: played.now)
        #expect(played.effects() == [.away(reason: "nats://a:4222: the server says: Authorization Violation")])
    }

    @Test func `a complaint about one subject ends nothing`() throws {
        let played = try Played()
        played.join()
        _ = played.effects()
        played.say("-ERR 'Permissions Violation for Publish to \"x\"'\r\n")
        #expect(played.effects() == [.complaint("Permissions Violation for Publish to \"x\"")] && played.session.isReady)
    }

    @Test func `a subscription that is refused is tried again until it is taken`() throws {
        let played = try Played()
        let number = played.session.subscribe(try #require(SubjectPattern("a.>")))
        played.join()
        for _ in 0..<2 {
            played.say("-ERR 'Permissions Violation for Subscription to \"a.>\"'\r\n")
            played.say("PONG\r\n")
            _ = played.output()
            played.wait(Limits.pingMilliseconds - 1)
            played.say("PONG\r\n")
            #expect(!played.output().contains("SUB"))
            played.wait(Limits.refusedSubscriptionMilliseconds - Limits.pingMilliseconds + 1)
            #expect(played.output().contains("SUB a.> \(number)\r\n"))
        }
        played.say("PONG\r\n")
        played.wait(Limits.refusedSubscriptionMilliseconds)
        #expect(!played.output().contains("SUB"))
    }

    @Test(arguments: [
        ("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-OpenSSH_9.2"), ("220 mail", "220 mail"), (" \u{2}\u{0}\u{0}", " ???"),
        ("INFX", "INFX"),
        ("\(String(repeating: "x", count: 99))\n", String(repeating: "x", count: 60)),
    ])
    func `what is no NATS server is told by its first words`(_ said: String, _ shown: String) throws {
        for ends in [true, false] {
            let played = try Played()
            played.greet()
            played.say(said)
            if ends { played.session.ended("end of stream", now: played.now) } else { played.wait(Limits.joinMillisecondsMax) }
            let (effects, reason) = (played.effects(), "nats://a:4222: it is not a NATS server: it begins with \"\(shown)\"")
            #expect(effects.contains(.away(reason: reason)), "\(effects)")
        }
    }

    @Test func `who takes a connection and says nothing may be another service`() throws {
        let played = try Played()
        played.greet()
        played.wait(Limits.joinMillisecondsMax)
        guard case .away(let reason)? = played.effects().last else { return #expect(Bool(false), "it waits") }
        #expect(reason.contains("a NATS server says INFO at once: it may be another service"))
    }

    @Test(arguments: ["-ERR 'maximum connections exceeded'\r\n", "INFO {\"serv", "in"])
    func `a NATS server that ends the connection early is one`(_ said: String) throws {
        let played = try Played()
        played.greet()
        played.say(said)
        played.session.ended("end of stream", now: played.now)
        guard case .away(let reason)? = played.effects().first else { return #expect(Bool(false), "it waits") }
        #expect(reason.hasSuffix(said.hasPrefix("-") ? "the server says: maximum connections exceeded" : "a:4222: end of stream"))
    }

    @Test func `all servers are tried before there is a pause, and pauses grow within bounds`() throws {
        let played = try Played(["a", "b", "c"])
        played.session.start(now: played.now)
        var pauses: [UInt64] = []
        for _ in 0..<8 {
            var hosts: Set<String> = []
            for _ in 0..<3 {
                for case .dial(let server) in played.effects() { hosts.insert(server.host) }
                played.session.dialFailed("refused", now: played.now)
            }
            #expect(hosts == ["a", "b", "c"])
            guard case .pausing(let end) = played.session.state else { return #expect(Bool(false), "no pause") }
            pauses.append(end - played.now)
            #expect(played.session.nextDeadline == end)
            played.wait(end - played.now)
        }
        #expect(pauses.allSatisfy { (Limits.pauseMillisecondsMin...Limits.pauseMillisecondsMax).contains($0) })
        #expect(Set(pauses).count > 1)
    }

    @Test func `a server that says nothing is left for the next`() throws {
        let played = try Played(["a", "b"])
        played.session.start(now: played.now)
        let first = played.effects()
        played.session.connected(now: played.now)
        played.wait(Limits.joinMillisecondsMax)
        let second = played.effects()
        #expect(second.first == .hangUp && second.last != first.first)
    }

    @Test func `a connection in silence is asked, and left without an answer`() throws {
        let played = try Played()
        played.join()
        _ = played.effects()
        played.wait(Limits.pingMilliseconds)
        #expect(played.output() == "PING\r\n")
        played.say("PONG\r\n")
        played.wait(Limits.pingMilliseconds)
        #expect(played.output() == "PING\r\n" && played.session.isReady)
        played.wait(Limits.pongMillisecondsMax)
        #expect(!played.session.isReady && played.effects().first == .hangUp)
    }

    @Test func `a request is answered, heard by nobody, late or lost`() throws {
        let played = try Played()
        played.join()
        _ = played.effects()
        let subject = try #require(Subject("s"))
        for within in [9000, 9000, 100, 9000] as [UInt64] {
            _ = try played.session.request(subject, payload: [], within: within, now: played.now)
        }
        let inboxes = played.output().split(separator: "\r\n").filter { $0.hasPrefix("PUB") }.map { $0.split(separator: " ")[2] }
        #expect(Set(inboxes).count == 4)
        played.say(
            "MSG \(inboxes[0]) 1 2\r\nok\r\nHMSG \(inboxes[1]) 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nMSG _INBOX.x.1 1 0\r\n\r\n")
        let first = played.effects()
        guard case .answered(1, .message(let message))? = first.first else { return #expect(Bool(false), "\(first)") }
        #expect(message.payload == Array("ok".utf8) && first.last == .answered(2, .nobody) && first.count == 2)
        played.wait(100)
        #expect(played.effects() == [.answered(3, .late)])
        played.session.ended("gone", now: played.now)
        #expect(played.effects().first == .answered(4, .lost))
        #expect(played.heard.isEmpty)
    }

    @Test func `TLS is put on before anything is said, if either side wants it`() throws {
        let played = try Played()
        played.greet()
        played.say(Self.info(",\"tls_required\":true"))
        #expect(played.effects() == [.secure(try ServerAddress(reading: "nats://a"))])
        #expect(played.output().contains("\"tls_required\":true"))
        let wanting = try Played(["tls://a"])
        wanting.greet()
        wanting.say(Self.info())
        #expect(wanting.effects().last == .away(reason: "tls://a:4222: TLS is required, and the server has none"))
    }

    @Test func `what comes behind INFO in clear is not believed where TLS is wanted`() throws {
        let played = try Played()
        played.greet()
        played.say(Self.info(",\"tls_required\":true") + "PONG\r\nMSG martlet.a 9 2\r\nno\r\n")
        #expect(played.effects() == [.secure(try ServerAddress(reading: "nats://a"))])
        #expect(!played.session.isReady && played.heard.isEmpty)
    }

    @Test func `servers that a server tells of are used, under the name that its certificate has`() throws {
        let played = try Played(["nats://a.example"])
        played.join(
            Self.info(",\"connect_urls\":[\"192.0.2.1:4222\",\"[2001:db8::1]:4222\",\"b.example:4223\",\"a.example:4222\",\"::\"]"))
        #expect(
            played.session.servers.map(\.description) == [
                "nats://a.example:4222", "nats://192.0.2.1:4222", "nats://[2001:db8::1]:4222", "nats://b.example:4223",
            ])
        #expect(played.session.servers.map(\.certificateName) == ["a.example", "a.example", "a.example", "b.example"])
    }

    @Test func `a server that is about to end is left at once`() throws {
        let played = try Played(["a", "b"])
        played.join()
        _ = played.effects()
        played.say(Self.info(",\"ldm\":true"))
        let effects = played.effects()
        #expect(effects.first == .hangUp && effects.count == 3)
        guard case .dial? = effects.last else { return #expect(Bool(false), "\(effects)") }
    }

    @Test func `a key signs the nonce, and without one there is no login`() throws {
        let key = try NKey(seed: "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY")
        let played = try Played(login: .key(key))
        #expect(played.join(Self.info(",\"nonce\":\"abc\"")).contains("\"nkey\":\"\(key.publicKey)\",\"sig\":\""))
        let without = try Played(login: .key(key))
        without.greet()
        without.say(Self.info())
        guard case .away(let reason)? = without.effects().last else { return #expect(Bool(false), "it goes on") }
        #expect(reason.contains("no nonce"))
    }

    @Test func `what is too large or too much is not taken`() throws {
        let played = try Played()
        played.join()
        let subject = try #require(Subject("s"))
        #expect(throws: NATSRefusal.tooLarge(bytesMax: 1024)) {
            try played.session.publish(subject, payload: [UInt8](repeating: 0, count: 1025))
        }
        try played.session.publish(subject, payload: [UInt8](repeating: 0, count: 1024))
        played.session.outputWaits(Limits.outputBytesMax)
        #expect(throws: NATSRefusal.full) { try played.session.publish(subject, payload: [1]) }
    }

    @Test func `what cannot be read ends the connection`() throws {
        let played = try Played()
        played.join()
        _ = played.effects()
        played.say("MSG a\r\n")
        #expect(!played.session.isReady && played.effects().first == .hangUp)
        played.session.stop()
        #expect(played.session.nextDeadline == nil)
    }
}
