import MartletClient
import MartletClientJSON
import Platform
import Testing

@Suite struct RequestTests {
    let clock = ManualClock()
    let client: StubClient

    init() { client = StubClient(clock: clock) }

    /// Answers as the documentation's heating does, until it is cancelled.
    private func startHeating() async -> Task<Void, any Error> {
        let client = client
        let heating = Task {
            try await client.respond(to: Home.setTarget, sharedBy: "heating", concurrency: 8) {
                (request, context) throws(SetTarget.Failure) in
                guard context.parameters != "attic" else { throw .unknownRoom }
                guard request.celsius < 28 else { throw .tooHot }
                return Accepted(at: .seconds(request.celsius))
            }
        }
        await until { client.server.filters.contains("$share/heating/home/+/target") }
        return heating
    }

    @Test func `a request is answered`() async throws {
        let heating = await startHeating()
        defer { heating.cancel() }
        let answer = try await client.send(SetTarget(celsius: 21), to: Home.setTarget("kitchen"), timeout: .seconds(2))
        #expect(answer == Accepted(at: .seconds(21)))
        #expect(client.requests.count == 0)
    }

    @Test func `a responder's failure is typed`() async throws {
        let heating = await startHeating()
        defer { heating.cancel() }
        do {
            _ = try await client.send(SetTarget(celsius: 30), to: Home.setTarget("kitchen"), timeout: .seconds(2))
            Issue.record("an answer")
        } catch .answered(.tooHot) {
        } catch .client(.noResponder) {
            Issue.record("nobody")
        } catch {
            Issue.record(error)
        }
        await #expect(throws: RequestError<SetTarget.Failure>.answered(.unknownRoom)) {
            try await client.send(SetTarget(celsius: 20), to: Home.setTarget("attic"))
        }
    }

    @Test func `what else a responder throws does not leak`() async throws {
        struct Secret: Error {}
        let client = client
        let responder = Task { try await client.respond(to: PlaceSearch.self) { _, _ in throw Secret() } }
        await until { !client.server.filters.isEmpty }
        await #expect(throws: RequestError<Never>.client(.responderFailed)) {
            try await client.send(PlaceSearch(region: "r", keyword: "k"))
        }
        responder.cancel()
        try await responder.value
        #expect(client.server.filters.allSatisfy { "\($0)".hasPrefix("responses/") })
    }

    @Test func `without a responder a request ends at once`() async throws {
        await #expect(throws: RequestError<SetTarget.Failure>.client(.noResponder)) {
            try await client.send(SetTarget(celsius: 20), to: Home.setTarget("kitchen"))
        }
    }

    @Test func `a request that cannot be read is said to be so`() async throws {
        let heating = await startHeating()
        defer { heating.cancel() }
        struct Other: Request, Codable {
            typealias Response = Accepted
            var name = "x"
        }
        await #expect(throws: RequestError<Never>.client(.undecodable("the responder cannot read the request"))) {
            try await client.send(Other(), to: CallTopic("home/kitchen/target"))
        }
    }

    @Test func `an answer that cannot be read is an error of the client`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        async let search = client.send(PlaceSearch(region: "r", keyword: "k"))
        for try await request in requests {
            try await client.publish(try answer(request, "no JSON"))
            break
        }
        do {
            _ = try await search
            Issue.record("an answer")
        } catch RequestError<Never>.client(.undecodable) {}
    }

    private func answer(_ request: Message, _ payload: Payload) throws -> Publication {
        let properties = request.properties
        let topic = try #require(properties.responseTopic.flatMap { TopicName($0.bytes) })
        var answer = Publication(topic, payload, qos: .atLeastOnce)
        answer.properties.correlationData = properties.correlationData
        return answer
    }

    @Test func `a request says where the answer goes, what it is and how long it is wanted`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        async let search = client.send(PlaceSearch(region: "r", keyword: "k"), timeout: .milliseconds(2500))
        for try await request in requests {
            #expect(request.qos == .atLeastOnce)
            #expect(request.payload == #"{"keyword":"k","region":"r"}"#)
            #expect(request.properties.messageExpiryInterval == 3)
            #expect(request.properties.contentType == "application/json")
            #expect(request.properties.correlationData == [0, 0, 0, 0, 0, 0, 0, 1])
            try await client.publish(try answer(request, #"[{"title":"Noodle bar"}]"#))
            break
        }
        #expect(try await search.map(\.title) == ["Noodle bar"])
    }

    @Test func `all requests of a client share one topic and one subscription`() async throws {
        let heating = await startHeating()
        defer { heating.cancel() }
        let client = client
        let answers = try await withThrowingTaskGroup(of: Accepted.self) { group in
            for number in 0..<20 {
                group.addTask { try await client.send(SetTarget(celsius: Double(number)), to: Home.setTarget("kitchen")) }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(answers == Set((0..<20).map { Accepted(at: .seconds(Double($0))) }))
        #expect(client.server.filters.count == 2)
    }

    @Test func `a request times out, and its late answer is counted`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let search = Task { try await client.send(PlaceSearch(region: "r", keyword: "k"), timeout: .seconds(2)) }
        var iterator = requests.makeAsyncIterator()
        let request = try #require(try await iterator.next())
        await clock.advance(by: .milliseconds(1999))
        #expect(client.requests.count == 1)
        await clock.advance(by: .milliseconds(1))
        await #expect(throws: RequestError<Never>.client(.timedOut)) { try await search.value }
        try await client.publish(try answer(request, "[]"))
        await until { client.requests.lateAnswerCount == 1 }
        #expect(client.requests.strangeAnswerCount == 0)
        #expect(client.requests.count == 0)
    }

    @Test func `requests time out each at its time, by one alarm`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let clock = clock
        let ended = Locked<[Int]>([])
        let searches = [30, 1, 20, 10].map { (seconds: Int) in
            Task {
                await #expect(throws: RequestError<Never>.client(.timedOut)) {
                    try await client.send(PlaceSearch(region: "r", keyword: "k"), timeout: .seconds(seconds))
                }
                ended.withLock { $0.append(seconds) }
            }
        }
        await until { requests.waitingCount == 4 && clock.sleeperCount == 1 }
        await clock.advance(by: .seconds(1))
        await until { ended.value == [1] }
        await clock.advance(by: .seconds(9))
        await until { ended.value == [1, 10] }
        await clock.advance(by: .seconds(20))
        for search in searches { await search.value }
        #expect(Set(ended.value) == [1, 10, 20, 30])
    }

    @Test(arguments: [Duration.zero, .seconds(-1)])
    func `a request without time ends at once`(timeout: Duration) async throws {
        do {
            _ = try await client.send(PlaceSearch(region: "r", keyword: "k"), timeout: timeout)
            Issue.record("an answer")
        } catch {
            // Whichever comes first.
            #expect([.client(.timedOut), .client(.noResponder)].contains(error))
        }
    }

    @Test func `a request may have all time`() async throws {
        let heating = await startHeating()
        defer { heating.cancel() }
        let answer = try await client.send(SetTarget(celsius: 20), to: Home.setTarget("a"), timeout: .seconds(Int64.max))
        #expect(answer == Accepted(at: .seconds(20)))
    }

    @Test func `an answer to nothing is counted and harms nobody`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let search = Task { try await client.send(PlaceSearch(region: "r", keyword: "k")) }
        for try await request in requests {
            var strange = try answer(request, "[]")
            strange.properties.correlationData = [1, 2]
            try await client.publish(strange)
            strange.properties = Properties()
            try await client.publish(strange)
            await until { client.requests.strangeAnswerCount == 2 }
            #expect(client.requests.count == 1)
            try await client.publish(try answer(request, "[]"))
            break
        }
        #expect(try await search.value.isEmpty)
    }

    @Test func `a cancelled task ends its request, cancelAllRequests all of them`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let one = Task { try await client.send(PlaceSearch(region: "1", keyword: "k")) }
        await until { requests.waitingCount == 1 }
        one.cancel()
        await #expect(throws: RequestError<Never>.client(.cancelled)) { try await one.value }
        let others = (2...4).map { region in
            Task { try await client.send(PlaceSearch(region: "\(region)", keyword: "k")) }
        }
        await until { client.requests.count == 3 && requests.waitingCount == 4 }
        client.cancelAllRequests()
        for other in others {
            await #expect(throws: RequestError<Never>.client(.cancelled)) { try await other.value }
        }
        #expect(client.requests.count == 0)
    }

    @Test func `a task that was cancelled before sends nothing`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let gate = Gate()
        let search = Task {
            await gate.pass()
            return try await client.send(PlaceSearch(region: "1", keyword: "k"))
        }
        search.cancel()
        await gate.open()
        await #expect(throws: RequestError<Never>.client(.cancelled)) { try await search.value }
        #expect(requests.waitingCount == 0)
        #expect(client.requests.count == 0)
    }

    @Test func `the end of the subscription for answers ends requests`() async throws {
        let client = client
        let requests = client.messages("map/place/search")
        let search = Task { try await client.send(PlaceSearch(region: "1", keyword: "k")) }
        await until { requests.waitingCount == 1 }
        client.server.end()
        await #expect(throws: RequestError<Never>.client(.ended)) { try await search.value }
    }

    @Test func `a parameter that makes no level is an error`() async throws {
        await #expect(throws: RequestError<SetTarget.Failure>.self) {
            try await client.send(SetTarget(celsius: 20), to: Home.setTarget("a/b"))
        }
    }

    @Test func `a server without MQTT 5 is told clearly`() async throws {
        let old = DoubleClient(ConnectedServer(connectionNumber: 1, version: .v311))
        let error = ClientError.unsupported("requests need MQTT 5.0, which the server does not speak")
        await #expect(throws: RequestError<Never>.client(error)) { try await old.send(PlaceSearch(region: "r", keyword: "k")) }
        await #expect(throws: error) { try await old.respond(to: PlaceSearch.self) { _, _ in [] } }
        #expect(old.stub.server.filters.isEmpty)
    }

    @Test func `the server's Response Information begins the topic of answers`() async throws {
        let client = DoubleClient(ConnectedServer(connectionNumber: 1, responseInformation: "reply/me"))
        let requests = client.messages("map/place/search")
        let search = Task { try await client.send(PlaceSearch(region: "1", keyword: "k")) }
        for try await request in requests {
            let topic = try #require(request.properties.responseTopic)
            #expect("\(topic)".hasPrefix("reply/me/") && topic.count == 25)
            try await client.publish(try answer(request, "[]"))
            break
        }
        #expect(try await search.value.isEmpty)
    }

    @Test func `a request waits for the connection, and times out without one`() async throws {
        let client = DoubleClient(nil)
        let search = Task { try await client.send(PlaceSearch(region: "1", keyword: "k"), timeout: .seconds(2)) }
        await client.clockOfTest.advance(by: .seconds(2))
        await #expect(throws: RequestError<Never>.client(.timedOut)) { try await search.value }
        #expect(client.stub.server.filters.isEmpty)
    }
}

/// A stub behind another server.
final class DoubleClient: RequestingClient {
    let stub = StubClient()
    let requests = PendingRequests()
    let clockOfTest = ManualClock()
    private let server: ConnectedServer?

    init(_ server: ConnectedServer?) { self.server = server }

    var clock: any Clock<Duration> { clockOfTest }

    func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked>, timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        try await exchange(request, to: topic, timeout: timeout)
    }

    func endAllSubscriptions() async { await stub.endAllSubscriptions() }

    @discardableResult
    func publish(_ publication: Publication) async throws(ClientError) -> PublishReceipt { try await stub.publish(publication) }

    func messages(_ filters: [TopicFilter], _ settings: SubscriptionSettings) -> Messages { stub.messages(filters, settings) }

    func connections() -> AsyncStream<ConnectedServer?> { AsyncStream { $0.yield(server) } }
    var connection: ConnectedServer? { server }
}
