import ClientStore
import MartletClient
import MartletClientJSON
import Platform
import Testing

/// Requests whose answers are fetched, stored or updated locally, and returned.
@Suite(.timeLimit(.minutes(10))) struct AnswerCacheTests {
    private struct GetUser: Request, Codable {
        enum Failure: String, Error, Codable { case unknown }
        struct Response: Codable, Hashable, Sendable { var name: String }
        var id: Int
    }

    /// Answers what it is told, and counts.
    private final class Service: RequestClient {
        let answer = Locked<Result<String, ClientError>>(.success("Anna"))
        let count = Locked(0)

        func send<Asked: Request>(
            _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
        ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
            count.withLock { $0 += 1 }
            switch answer.value {
            case .failure(let error): throw .client(error)
            case .success("nobody"):
                guard let failure = GetUser.Failure.unknown as? Asked.Failure else { throw .client(.responderFailed) }
                throw .answered(failure)
            case .success(let name):
                guard let response = GetUser.Response(name: name) as? Asked.Response else { throw .client(.responderFailed) }
                return response
            }
        }
    }

    private let service = Service()
    private let time = Locked(Duration.seconds(1000))

    private var cache: AnswerCache {
        AnswerCache(service, scope: "anna") { [time] in time.value }
    }

    @Test func `a young answer is given without asking, an older one is asked for`() async throws {
        let cache = cache
        let policy = AnswerCache.Policy(maxAge: .seconds(60))
        #expect(
            try await cache.send(GetUser(id: 1), policy) == CachedResponse(value: .init(name: "Anna"), age: .zero, isStale: false))
        time.withLock { $0 += .seconds(59) }
        service.answer.withLock { $0 = .success("Berta") }
        #expect(try await cache.send(GetUser(id: 1), policy).value.name == "Anna")
        #expect(try await cache.send(GetUser(id: 2), policy).value.name == "Berta", "another request has another answer")
        time.withLock { $0 += .seconds(1) }
        #expect(try await cache.send(GetUser(id: 1), policy).value.name == "Berta")
        #expect(service.count.value == 3)
        #expect(try await cache.send(GetUser(id: 1), .reload).value.name == "Berta")
        #expect(service.count.value == 4)
    }

    @Test func `an older answer is returned while it is asked for anew, once at a time`() async throws {
        let cache = cache
        let policy = AnswerCache.Policy(maxAge: .seconds(1), staleWhileRevalidate: .seconds(60))
        _ = try await cache.send(GetUser(id: 1), policy)
        time.withLock { $0 += .seconds(30) }
        service.answer.withLock { $0 = .success("Berta") }
        let stale = try await cache.send(GetUser(id: 1), policy)
        #expect(stale == CachedResponse(value: .init(name: "Anna"), age: .seconds(30), isStale: true))
        while cache.response(to: GetUser(id: 1))?.value.name != "Berta" { await Task.yield() }
        #expect(try await cache.send(GetUser(id: 1), policy).isStale == false)
        #expect(service.count.value == 2)
    }

    @Test func `offline an answer that is kept is given, as old as the policy allows`() async throws {
        let cache = cache
        let policy = AnswerCache.Policy(maxAge: .seconds(1), staleIfError: .seconds(60))
        _ = try await cache.send(GetUser(id: 1), policy)
        service.answer.withLock { $0 = .failure(.timedOut) }
        time.withLock { $0 += .seconds(60) }
        #expect(try await cache.send(GetUser(id: 1), policy).isStale)
        time.withLock { $0 += .seconds(1) }
        await #expect(throws: RequestError<GetUser.Failure>.client(.timedOut)) { try await cache.send(GetUser(id: 1), policy) }
        service.answer.withLock { $0 = .success("nobody") }
        time.withLock { $0 = .seconds(1030) }
        await #expect(throws: RequestError<GetUser.Failure>.answered(.unknown)) { try await cache.send(GetUser(id: 1), policy) }
    }

    @Test func `what is kept comes first, then the answer`() async throws {
        let cache = cache
        let policy = AnswerCache.Policy(staleIfError: .seconds(60))
        try cache.update(.init(name: "Local"), to: GetUser(id: 1))
        var names: [String] = []
        for try await response in cache.responses(to: GetUser(id: 1), policy) { names.append(response.value.name) }
        #expect(names == ["Local", "Anna"])
        cache.remove(GetUser(id: 1))
        #expect(cache.response(to: GetUser(id: 1)) == nil)
        try cache.update(.init(name: "Local"), to: GetUser(id: 1))
        cache.removeAll()
        #expect(cache.response(to: GetUser(id: 1)) == nil)
    }

    @Test func `a store keeps answers through restarts, each scope its own`() async throws {
        let disk = MemoryDisk()
        func client() throws -> Client {
            let store = try MemoryStore(disk)
            var settings = ClientSettings(server: "mqtt://127.0.0.1:1", clientIdentifier: "panel")
            settings.store = .custom { () throws(StoreError) in store }
            return try Client(settings)
        }
        let first = try client()
        try first.answerCache(scope: "anna").update(.init(name: "Anna"), to: GetUser(id: 1))
        try first.answerCache(scope: "berta").update(.init(name: "Berta"), to: GetUser(id: 1))
        // What was handed over before is written before: the next of the loop's commits.
        try await first.outbox.forgetRefused([])
        await first.crash()
        let second = try client()
        #expect(second.answerCache(scope: "anna").response(to: GetUser(id: 1))?.value.name == "Anna")
        second.answerCache(scope: "anna").removeAll()
        #expect(second.answerCache(scope: "anna").response(to: GetUser(id: 1)) == nil)
        #expect(second.answerCache(scope: "berta").response(to: GetUser(id: 1))?.value.name == "Berta")
        try await second.outbox.forgetRefused([])
        await second.crash()
        let third = try client()
        #expect(third.answerCache(scope: "anna").response(to: GetUser(id: 1)) == nil)
        #expect(third.answerCache(scope: "berta").response(to: GetUser(id: 1))?.value.name == "Berta")
    }
}
