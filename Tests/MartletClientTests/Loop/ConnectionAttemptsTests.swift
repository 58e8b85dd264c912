import MQTTCodec
import Testing

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

    @Test func `a time that nobody lives to see is no overflow`() {
        #expect(Duration.seconds(Int64.max).milliseconds == 1000 << 50)
        #expect(Duration.milliseconds(1).milliseconds == 1)
    }
}
