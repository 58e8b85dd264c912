import HTTP
import Platform
import Testing

@testable import JSONWebTokens
@testable import LoginServices

/// When keys are fetched, and who waits for that.
@Suite struct TokenKeyRingTests {
    private typealias Answer = Result<(keys: TokenKeys, maxAgeSeconds: Int?), TokenKeyFailure>

    /// A server of keys whose answers the test gives.
    private final class Server: Sendable {
        let asked = Locked<[@Sendable (Answer) -> Void]>([])
        let now = Locked<UInt64>(1_000_000)

        func ring(own: TokenKeys = TokenKeys([])) -> TokenKeyRing {
            TokenKeyRing(own: own, fetch: { [self] reply in asked.withLock { $0.append(reply) } }, clock: { [self] in now.value })
        }

        var count: Int { asked.value.count }

        func answer(_ answer: Answer) { asked.withLock { $0.removeFirst() }(answer) }

        func pass(seconds: UInt64) { now.withLock { $0 += seconds * 1000 } }
    }

    private func keys(_ name: String) throws -> TokenKeys {
        TokenKeys([try VerificationKey(secret: Array("0123456789abcdef0123456789abcdef".utf8), identifier: name)])
    }

    private func names(_ ring: TokenKeyRing) -> [String?] { ring.keys.keys.map(\.identifier) }

    @Test func `keys are fetched when they are first asked for, and again when they are old, while the old ones serve`() throws {
        let server = Server()
        let ring = server.ring(own: try keys("own"))
        #expect(names(ring) == ["own"] && server.count == 1)
        #expect(names(ring) == ["own"] && server.count == 1)
        server.answer(.success((try keys("a"), nil)))
        #expect(names(ring) == ["own", "a"] && server.count == 0)
        server.pass(seconds: 299)
        #expect(names(ring) == ["own", "a"] && server.count == 0)
        server.pass(seconds: 1)
        #expect(names(ring) == ["own", "a"] && server.count == 1)
        server.answer(.success((try keys("b"), nil)))
        #expect(names(ring) == ["own", "b"])
    }

    @Test func `a server says for how long its keys hold, within bounds`() throws {
        for (maxAge, seconds) in [(0, 60), (30, 60), (3600, 3600), (10_000_000, 86_400)] as [(Int, UInt64)] {
            var schedule = TokenKeySchedule()
            let first = schedule.begin(now: 0, isUrgent: false)
            schedule.succeeded(now: 0, maxAgeSeconds: maxAge)
            let justBefore = schedule.begin(now: seconds * 1000 - 1, isUrgent: false)
            let then = schedule.begin(now: seconds * 1000, isUrgent: false)
            #expect(first && !justBefore && then)
        }
    }

    @Test func `a token of an unknown key waits for a fetch, once in 10 seconds`() throws {
        let server = Server()
        let ring = server.ring()
        let told = Locked<[String]>([])
        @Sendable func tell(_ result: Result<TokenKeys, TokenKeyFailure>) {
            let text =
                switch result {
                case .success(let keys): keys.keys.compactMap(\.identifier).joined()
                case .failure(let failure): failure.description
                }
            told.withLock { $0.append(text) }
        }
        ring.refresh(tell)
        ring.refresh(tell)
        #expect(server.count == 1 && told.value.isEmpty)
        server.answer(.success((try keys("a"), nil)))
        #expect(told.value == ["a", "a"])
        server.pass(seconds: 9)
        ring.refresh(tell)
        #expect(server.count == 0 && told.value.last == "has fetched its keys just now")
        server.pass(seconds: 1)
        ring.refresh(tell)
        #expect(server.count == 1)
        server.answer(.failure(TokenKeyFailure("cannot")))
        #expect(told.value.last == "cannot" && names(ring) == ["a"])
        ring.refresh(tell)
        #expect(server.count == 0 && told.value.last == "cannot" && told.value.count == 5)
    }

    @Test func `keys of a server that is gone serve for a day and no longer`() throws {
        let server = Server()
        let ring = server.ring()
        #expect(names(ring) == [])
        server.answer(.success((try keys("a"), nil)))
        for _ in 0..<23 {
            server.pass(seconds: 3600)
            #expect(names(ring) == ["a"] && server.count == 1)
            server.answer(.failure(TokenKeyFailure("cannot")))
        }
        server.pass(seconds: 3599)
        #expect(names(ring) == ["a"])
        server.pass(seconds: 1)
        #expect(names(ring) == [])
    }

    @Test func `a ring without a server says so`() throws {
        let ring = TokenKeyRing(own: try keys("own"))
        let told = Locked("")
        ring.refresh { result in if case .failure(let failure) = result { told.replace(with: failure.description) } }
        #expect(told.value == "has no other keys" && names(ring) == ["own"])
    }

    @Test func `no more than a bounded number of logins waits`() throws {
        let server = Server()
        let ring = server.ring()
        let told = Locked(0)
        for _ in 0..<1001 { ring.refresh { _ in told.withLock { $0 += 1 } } }
        #expect(told.value == 1)
        server.answer(.failure(TokenKeyFailure("cannot")))
        #expect(told.value == 1001)
    }

    @Test(
        arguments: [
            ("max-age=600", 600), ("public, max-age=21600, must-revalidate", 21600), ("no-store", 0), ("max-age=600, no-cache", 0),
            ("max-age=", nil), ("max-age=-1", nil), ("private", nil),
        ] as [(String, Int?)])
    func `Cache-Control says for how long an answer holds`(value: String, seconds: Int?) {
        #expect(TokenKeyServer.maxAgeSeconds(["Cache-Control": value]) == seconds)
        #expect(TokenKeyServer.maxAgeSeconds(HTTPFields()) == nil)
    }
}
