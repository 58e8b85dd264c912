import MartletClient
import MartletClientJSON
import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) struct ResponderTests {
    /// Its clock stands, so that no request is too late on a machine that does much else.
    let client = StubClient(clock: ManualClock())

    /// A request as its own message, so that it can come twice.
    private func request(_ number: UInt8, celsius: Double = 20, answerTo topic: TopicName? = "answers") throws -> Publication {
        var request = Publication(
            "home/kitchen/target", try MessageCoding<SetTarget>.json.encode(SetTarget(celsius: celsius)), qos: .exactlyOnce)
        request.properties.responseTopic = topic?.text
        request.properties.correlationData = [number]
        return request
    }

    private func untilSubscribed() async {
        await until { [client] in !client.server.filters.isEmpty }
    }

    @Test func `a responder knows the parameters, the properties and the time of a request`() async throws {
        let client = client
        let answers = client.messages("answers")
        let responder = Task {
            try await client.respond(to: Home.setTarget) { request, context in
                #expect(context.parameters == "kitchen")
                #expect(context.topic == "home/kitchen/target")
                #expect(context.properties.userProperties == [UserProperty(name: "app", value: "7")])
                #expect(context.time > .seconds(1_700_000_000))
                return Accepted(at: .seconds(request.celsius))
            }
        }
        await until { client.server.filters.count == 2 }
        var request = try request(1)
        request.properties.userProperties = [UserProperty(name: "app", value: "7")]
        request.properties.messageExpiryInterval = 5
        try await client.publish(request)
        for try await answer in answers {
            #expect(answer.payload == #"{"at":[0,20000000000000000000]}"# || answer.payload.text?.contains("at") == true)
            #expect(answer.properties.correlationData == [1])
            #expect(answer.properties.messageExpiryInterval == 5)
            #expect(answer.properties.contentType == "application/json")
            #expect(answer.properties.userProperties.isEmpty)
            #expect(answer.qos == .atLeastOnce)
            break
        }
        responder.cancel()
        try await responder.value
    }

    @Test func `a responder is there when it is returned, and answers what came before it runs`() async throws {
        let responder = try await client.responder(for: Home.setTarget) { _, _ in .accepted }
        let client = client
        #expect(client.server.filters == ["home/+/target"])
        async let early = client.send(SetTarget(celsius: 20), to: Home.setTarget("kitchen"))
        let running = Task { try await responder.run() }
        #expect(try await early == .accepted)
        running.cancel()
        try await running.value
        #expect(client.server.filters.allSatisfy { $0 != "home/+/target" })
    }

    @Test func `a responder that is cancelled or given up leaves nothing behind`() async throws {
        let responder = try await client.responder(for: PlaceSearch.self, sharedBy: "search") { _, _ in [] }
        #expect(client.server.filters == ["$share/search/map/place/search"])
        responder.cancel()
        #expect(client.server.filters.isEmpty)
        try await responder.run()
        _ = try await client.responder(for: PlaceSearch.self) { _, _ in [] }
        #expect(client.server.filters.isEmpty)
        await #expect(throws: ClientError.self) {
            _ = try await client.responder(for: PlaceSearch.self, sharedBy: "a/b") { _, _ in [] }
        }
    }

    @Test func `a responder of a server that refuses throws what it says`() async throws {
        let refusing = StubClient(answering: .failing(.notAuthorized))
        await #expect(throws: ClientError.refused(.notAuthorized)) {
            _ = try await refusing.responder(for: PlaceSearch.self) { _, _ in [] }
        }
    }

    @Test func `a request that comes again is answered again and runs once`() async throws {
        let client = client
        let runs = Locked(0)
        let answers = client.messages("answers")
        let responder = Task {
            try await client.respond(to: Home.setTarget) { request, _ in
                runs.withLock { $0 += 1 }
                if request.celsius > 28 { throw SetTarget.Failure.tooHot }
                return .accepted
            }
        }
        await until { client.server.filters.count == 2 }
        var iterator = answers.makeAsyncIterator()
        for celsius in [20.0, 30] {
            let number = UInt8(celsius)
            try await client.publish(try request(number, celsius: celsius))
            let first = try #require(try await iterator.next())
            try await client.publish(try request(number, celsius: celsius))
            let second = try #require(try await iterator.next())
            #expect(first.payload == second.payload)
            #expect(first.properties == second.properties)
        }
        #expect(runs.value == 2)
        responder.cancel()
        try await responder.value
    }

    @Test func `so many requests run at a time, and each is acknowledged after its answer`() async throws {
        let client = client
        let gate = Gate()
        let running = Locked((now: 0, most: 0))
        let responder = Task {
            try await client.respond(to: Home.setTarget, concurrency: 3) { _, _ in
                running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
                await gate.pass()
                running.withLock { $0.now -= 1 }
                return .accepted
            }
        }
        await untilSubscribed()
        for number in UInt8(0)..<10 { try await client.publish(try request(number)) }
        await until { running.value.now == 3 }
        #expect(client.server.settlements.isEmpty)
        await gate.open()
        await until { client.server.settlements.count == 10 }
        #expect(running.value.most == 3)
        responder.cancel()
        try await responder.value
    }

    @Test func `a cancelled responder ends what runs, answers and acknowledges it, and takes up nothing more`() async throws {
        let client = client
        let gate = Gate()
        let answers = client.messages("answers")
        let wasCancelled = Locked(false)
        let runs = Locked(0)
        let responder = Task {
            try await client.respond(to: Home.setTarget, concurrency: 1) { _, _ in
                runs.withLock { $0 += 1 }
                await gate.pass()
                if Task.isCancelled { wasCancelled.withLock { $0 = true } }
                return .accepted
            }
        }
        await until { client.server.filters.count == 2 }
        for number in UInt8(0)..<5 { try await client.publish(try request(number)) }
        await until { runs.value == 1 }
        responder.cancel()
        await gate.open()
        try await responder.value
        #expect(runs.value == 1)
        #expect(!wasCancelled.value)
        #expect(client.server.settlements.count == 5)
        #expect(client.server.filters == ["answers"])
        // Those that did not run are turned away.
        var statuses: [String?] = []
        for try await answer in answers {
            statuses.append(answer.properties.userProperties.first.map { "\($0.value)" })
            if statuses.count == 5 { break }
        }
        #expect(statuses.filter { $0 == nil }.count == 1)
        #expect(statuses.filter { $0 == "unavailable" }.count == 4)
    }

    @Test func `who asks a responder that leaves learns that nobody answers`() async throws {
        let client = client
        let gate = Gate()
        let responder = Task {
            try await client.respond(to: Home.setTarget, concurrency: 1) { _, _ in
                await gate.pass()
                return .accepted
            }
        }
        await untilSubscribed()
        let calls = (0..<2).map { _ in
            Task { try await client.send(SetTarget(celsius: 1), to: Home.setTarget("kitchen")) }
        }
        while await gate.waitingCount == 0 || client.server.publishedCount < 2 { await Task.yield() }
        responder.cancel()
        await gate.open()
        try await responder.value
        var outcomes: [String] = []
        for call in calls {
            do { outcomes.append("\(try await call.value)") } catch { outcomes.append("\(error)") }
        }
        #expect(Set(outcomes) == ["\(Accepted.accepted)", "nobody answers at that topic"])
    }

    @Test func `responders of one group share the requests`() async throws {
        let client = client
        let runs = Locked([0, 0])
        let responders = (0..<2).map { index in
            Task {
                try await client.respond(to: Home.setTarget, sharedBy: "heating") { _, _ in
                    runs.withLock { $0[index] += 1 }
                    return .accepted
                }
            }
        }
        await until { client.server.filters == ["$share/heating/home/+/target", "$share/heating/home/+/target"] }
        for number in UInt8(0)..<10 { try await client.publish(try request(number)) }
        await until { client.server.settlements.count == 10 }
        #expect(runs.value == [5, 5])
        for responder in responders {
            responder.cancel()
            try await responder.value
        }
    }

    @Test(arguments: ["", "a/b", "+", "#"])
    func `a group that cannot be is an error`(group: String) async {
        await #expect(throws: ClientError.self) {
            try await client.respond(to: Home.setTarget, sharedBy: group) { _, _ in .accepted }
        }
    }

    @Test func `a request without Response Topic runs, one that cannot be read is acknowledged`() async throws {
        let client = client
        let runs = Locked(0)
        let responder = Task {
            try await client.respond(to: Home.setTarget) { _, _ in
                runs.withLock { $0 += 1 }
                return .accepted
            }
        }
        await untilSubscribed()
        try await client.publish(try request(1, answerTo: nil))
        try await client.publish("no JSON", to: "home/kitchen/target", qos: .exactlyOnce)
        await until { client.server.settlements.count == 2 }
        #expect(runs.value == 1)
        #expect(client.server.settlements.map(\.reason) == [.success, .success])
        responder.cancel()
        try await responder.value
    }

    @Test func `the end of the client ends a responder`() async throws {
        let client = client
        let responder = Task { try await client.respond(to: Home.setTarget) { _, _ in .accepted } }
        await untilSubscribed()
        client.server.end()
        try await responder.value
    }
}
