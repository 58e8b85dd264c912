import MartletClient
import MartletClientJSON
import Platform
import Testing

/// One place that reads every answer, attributes that are asked for at call time, and subscriptions that are ended
/// together.
@Suite(.timeLimit(.minutes(10))) struct FailureTests {
    /// Stands, so that no request is too late on a machine that does much else.
    private let clock = ManualClock()

    private struct Quote: Request, Codable {
        enum Failure: String, Error, Codable { case loginExpired, sold }
        struct Response: Codable, Hashable, Sendable { var price: Int }
        var article: String
    }

    /// Answers with failures in turn, then with a response.
    private func responder(_ client: StubClient, failing failures: [Quote.Failure]) async throws -> Task<Void, any Error> {
        let left = Locked(failures)
        let responder = try await client.responder(for: Quote.self) { request, _ in
            let failure = left.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let failure { throw failure }
            return Quote.Response(price: 7)
        }
        return Task { try await responder.run() }
    }

    @Test func `the failure of every answer is read in one place, which may log in anew and ask again`() async throws {
        let seen = Locked<[String]>([])
        let client = StubClient(
            clock: clock,
            interceptors: [
                OnFailure { request in
                    seen.withLock {
                        $0.append("\(type(of: request.request)) \(request.attempt) \(request.failure.map { "\($0)" } ?? "")")
                    }
                    switch request.outcome {
                    case .answered(let failure as Quote.Failure) where failure == .loginExpired && request.attempt < 3:
                        return .retry()
                    default: return .none
                    }
                }
            ])
        let running = try await responder(client, failing: [.loginExpired, .loginExpired, .sold])
        let error = await #expect(throws: RequestError<Quote.Failure>.self) {
            try await client.send(Quote(article: "a"), timeout: .seconds(600))
        }
        #expect(error == .answered(.sold))
        #expect(seen.value == ["Quote 1 loginExpired", "Quote 2 loginExpired", "Quote 3 sold"])
        #expect(try await client.send(Quote(article: "a"), timeout: .seconds(600)).price == 7)
        #expect(seen.value.count == 3, "a response is no failure")
        running.cancel()
        try await running.value
    }

    @Test func `a retry does not outlast the timeout, and a cancelled request is no failure`() async throws {
        let seen = Locked(0)
        let client = StubClient(
            clock: clock,
            interceptors: [
                OnFailure { _ in
                    seen.withLock { $0 += 1 }
                    return .retry(after: .seconds(60))
                }
            ])
        let error = await #expect(throws: RequestError<Quote.Failure>.self) {
            try await client.send(Quote(article: "a"), timeout: .seconds(20))
        }
        #expect(error == .client(.noResponder) && seen.value == 1)
        #expect(FinishedRequest(Quote(article: "a"), to: nil, .client(.cancelled)).failure == nil)
    }

    @Test func `attributes are asked for at each call, of messages and requests alike`() async throws {
        let count = Locked(0)
        let client = StubClient(
            clock: clock,
            interceptors: [
                AddUserProperties(["app": "panel"]),
                AddUserProperties { message in
                    count.withLock { $0 += 1 }
                    return ["call": "\(count.value)", "at": "\(message.topic)"]
                },
            ])
        var messages = client.messages("#").makeAsyncIterator()
        try await client.publish("1", to: "a")
        let request = Task { try await client.send(Quote(article: "a"), timeout: .seconds(600)) }
        let first = try #require(try await messages.next())
        let second = try #require(try await messages.next())
        #expect(first.properties.userProperties.map { "\($0.name)=\($0.value)" } == ["app=panel", "call=1", "at=a"])
        #expect(second.properties.userProperties.map { "\($0.name)=\($0.value)" } == ["app=panel", "call=2", "at=requests/Quote"])
        client.cancelAllRequests()
        _ = await request.result
    }

    @Test func `subscriptions end by their name, or all at once, and requests go on`() async throws {
        let client = StubClient(clock: clock)
        var named = SubscriptionSettings()
        named.name = "chat"
        var chat = client.messages("chat/#", named).makeAsyncIterator()
        var typed = client.messages(Home.alarm.matching(nil), named).makeAsyncIterator()
        var other = client.messages("other").makeAsyncIterator()
        await client.endSubscriptions(named: "chat")
        #expect(try await chat.next() == nil)
        #expect(try await typed.next() == nil)
        #expect(client.server.filters == ["other"])
        let running = try await responder(client, failing: [])
        #expect(try await client.send(Quote(article: "a")).price == 7)
        await client.endAllSubscriptions()
        #expect(try await other.next() == nil)
        try await running.value
        let again = try await responder(client, failing: [])
        #expect(try await client.send(Quote(article: "b")).price == 7)
        again.cancel()
        try await again.value
    }

    @Test func `a client's own subscriptions end by name, with UNSUBSCRIBE`() async throws {
        let server = TestServer()
        defer { server.end() }
        let client = try Client(server.settings)
        try await client.connect()
        var named = SubscriptionSettings()
        named.name = "chat"
        let chat = client.messages("chat/#", named)
        let other = client.messages("other")
        try await chat.granted()
        try await other.granted()
        await client.endSubscriptions(named: "chat")
        var iterator = chat.makeAsyncIterator()
        #expect(try await iterator.next() == nil)
        server.publish("1", to: "other", qos: .atLeastOnce)
        var others = other.makeAsyncIterator()
        #expect(try await others.next()?.payload == "1")
        await client.endAllSubscriptions()
        #expect(try await others.next() == nil)
    }

    @Test func `an application session logs in and out, and what is the user's ends with it`() async throws {
        struct LogIn: Request, Codable {
            struct Response: Codable, Sendable { var user: String }
            var name: String
        }
        let session = ApplicationSession(userPropertyName: "user")
        let client = StubClient(clock: clock, interceptors: [session])
        await #expect(throws: RequestError<Never>.client(.notConnected)) {
            try await session.logIn(LogIn(name: "anna")) { $0.user }
        }
        session.attach(to: client)
        var events = session.events.makeAsyncIterator()
        let responder = try await client.responder(for: LogIn.self) { request, _ in LogIn.Response(user: request.name) }
        let running = Task { try await responder.run() }
        try await session.logIn(LogIn(name: "anna")) { $0.user }
        #expect(session.user == "anna")
        #expect(await events.next() == .didLogIn(user: "anna"))
        var messages = client.messages("t").makeAsyncIterator()
        try await client.publish("1", to: "t")
        #expect(try await messages.next()?.properties.userProperties == [UserProperty(name: "user", value: "anna")])
        await session.logOut()
        await session.logOut()
        #expect(session.user == nil)
        #expect(await events.next() == .didLogOut(user: "anna"))
        #expect(try await messages.next() == nil)
        try await running.value
    }
}
