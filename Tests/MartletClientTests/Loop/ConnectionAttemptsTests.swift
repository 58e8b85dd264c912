import Glibc
import MQTTCodec
import Platform
import Testing
import Transports

@testable import MartletClient

/// Which server is tried, and when again.
struct ConnectionAttemptsTests {
    private func attempts(_ servers: ServerAddress...) -> ConnectionAttempts {
        ConnectionAttempts(ClientSettings(servers: servers))
    }

    @Test func `who connects again after a goodbye has all servers tried before it hears that there is none`() {
        var attempts = attempts("mqtt://a", "mqtt://b")
        attempts.start()
        attempts.begin(now: 0)
        attempts.succeeded(now: 0)
        // disconnect() was called here.
        attempts.start()
        attempts.begin(now: 1000)
        guard case .nextServer = attempts.failed(now: 1000, chance: 0) else {
            Issue.record("the second server is not tried")
            return
        }
        #expect(attempts.server.description.contains("b"))
    }

    @Test func `a server goes straight where the others have a proxy, and where the settings say so`() throws {
        var (house, elsewhere, own) = ("mqtt://a" as ServerAddress, "wss://b" as ServerAddress, "mqtt://c" as ServerAddress)
        house.proxy = .direct
        own.proxy = "http://d"
        var settings = ClientSettings(servers: [house, elsewhere, own])
        settings.proxy = "socks5h://e"
        #expect(settings.servers.map { $0.proxy(settings)?.host } == [nil, "e", "d"])
        var attempts = ConnectionAttempts(settings)
        #expect(try attempts.layers(settings).tunnel == nil && attempts.proxy(settings) == nil)
        settings.proxy = .direct
        #expect(settings.servers.map { $0.proxy(settings)?.host } == [nil, nil, "d"])
        #expect("\(ProxyAddress.direct)" == "no proxy" && ProxyAddress.direct != "socks5h://e")
        settings.servers = ["unix:/x"]
        settings.servers[0].proxy = .direct
        _ = try Client(settings)
    }

    @Test func `servers that let a client in and send it on at once are not followed for ever`() {
        var attempts = attempts("mqtt://a")
        attempts.start()
        var followedCount = 0
        while attempts.follow("b:1883", isForGood: false, now: 0), followedCount < 10 {
            attempts.begin(now: 0)
            attempts.succeeded(now: 0)
            followedCount += 1
        }
        #expect(followedCount == 4)
    }

    @Test(arguments: [
        ("mqtts://a", "mqtt://b", false), ("wss://a/m", "ws://b/m", false), ("mqtts://a", "b", true),
        ("mqtt://a", "mqtts://b", true),
    ])
    func `nobody is sent from TLS to a connection in the clear`(server: String, reference: String, isFollowed: Bool) throws {
        var attempts = attempts(try ServerAddress(server))
        attempts.start()
        let follows = attempts.follow(EncodedString(reference), isForGood: false, now: 0)
        #expect(follows == isFollowed)
    }

    @Test(arguments: [
        ("mqtt://127.0.0.1:1", "127.0.0.1", "Connection refused"),
        ("mqtt://a.example:1", "127.0.0.1", "127.0.0.1:1: Connection refused"),
        ("mqtts://[::1]:1", "::1", "Connection refused"),
    ])
    func `who cannot be reached is named, and the last of its addresses where it has a name`(
        server: String, host: String, reason: String
    ) throws {
        let attempts = attempts(try ServerAddress(server))
        let address = try #require(try ListenAddress(host: .named(host), port: 1).resolve().first)
        let failure = DialFailure(address: address, error: SystemError(errno: ECONNREFUSED, operation: "connect"))
        #expect(attempts.unreachable(attempts.explain(failure)) == .unreachable(server: server, reason: reason))
        #expect(attempts.unreachable(attempts.explain(nil)).description == "\(server): it has no address")
    }

    @Test func `who connects in vain hears which server was tried, and why it did not answer`() async throws {
        let client = try Client(ClientSettings(servers: ["unix:/nonexistent/1", "unix:/nonexistent/2"]))
        let error = ClientError.unreachable(server: "unix:/nonexistent/2", reason: "No such file or directory")
        await #expect(throws: error) { try await client.connect() }
    }

    @Test func `each attempt that was given up may take the session over once, as long as its CONNECT may still arrive`() {
        var attempts = ConnectionAttempts(ClientSettings(server: "mqtt://a"))
        attempts.abandoned(now: 1000)
        attempts.abandoned(now: 3000)
        let first = attempts.takeAbandoned(now: 4000)
        let second = attempts.takeAbandoned(now: 4000)
        let third = attempts.takeAbandoned(now: 4000)
        #expect((first, second, third) == (true, true, false))
        attempts.abandoned(now: 5000)
        let late = attempts.takeAbandoned(now: 5000 + Limits.lateConnectMillisecondsMax)
        #expect(!late)
    }

    @Test func `how long an answer to SUBSCRIBE may take is a setting`() throws {
        var settings = ClientSettings(server: "mqtt://a")
        settings.subscribeTimeout = .milliseconds(1500)
        #expect(try settings.sessionOptions(random: 0).requestTimeoutMilliseconds == 1500)
        settings.subscribeTimeout = .zero
        #expect(throws: ClientError.settings("subscribeTimeout: longer than nothing")) { try settings.sessionOptions(random: 0) }
    }

    @Test func `a time that nobody lives to see is no overflow`() {
        #expect(Duration.seconds(Int64.max).milliseconds == 1000 << 50)
        #expect(Duration.milliseconds(1).milliseconds == 1)
    }
}
