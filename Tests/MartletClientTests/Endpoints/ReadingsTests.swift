import MartletClient
import Synchronization
import Testing

@Suite struct ReadingsTests {
    let client = StubClient()

    private func publish(_ payload: Payload, _ topic: TopicName, retain: Bool = false) async throws {
        try await client.publish(payload, to: topic, qos: .exactlyOnce, retain: retain)
    }

    @Test func `values come with the parameters of their topics`() async throws {
        let readings = client.messages(Home.temperature.matching("kitchen", nil))
        try await client.publish(21.5, to: Home.temperature("kitchen", 3))
        try await client.publish(4, to: Home.temperature("cellar", 1))
        try await client.publish(22, to: Home.temperature("kitchen", 1))
        var iterator = readings.makeAsyncIterator()
        let first = try #require(try await iterator.next())
        let (room, number) = first.parameters
        #expect(room == "kitchen" && number == 3 && first.payload == 21.5)
        #expect(!first.retain && first.message.qos == .atLeastOnce)
        #expect(try await iterator.next()?.payload == 22)
    }

    @Test func `a value that the server kept comes marked as such`() async throws {
        try await client.publish(21.5, to: Home.temperature("kitchen", 3))
        for try await reading in client.messages(Home.temperature.matching(nil, nil)) {
            #expect(reading.retain && reading.payload == 21.5)
            break
        }
        #expect(client.server.filters.isEmpty)
    }

    @Test func `a single parameter is the value itself`() async throws {
        let alarms = client.messages(Home.alarm.matching(nil))
        try await client.publish(.water, to: Home.alarm("cellar"))
        for try await alarm in alarms {
            #expect(alarm.parameters == "cellar")
            #expect(alarm.payload == .water)
            break
        }
    }

    @Test func `a typed subscription has all settings of an untyped one, at no more than the endpoint's QoS`() async throws {
        var settings = SubscriptionSettings(
            qos: .exactlyOnce, backlog: .dropOldest(3), acknowledging: .whenDone, sharedBy: "workers")
        settings.retainAsPublished = true
        settings.userProperties = [UserProperty(name: "app", value: "7")]
        let readings = client.messages(Home.temperature.matching("kitchen", nil), settings)
        #expect(client.server.filters == ["$share/workers/home/kitchen/sensor/+/temperature"])
        try await client.publish(Publication("home/kitchen/sensor/1/temperature", "1.5", qos: .exactlyOnce, retain: true))
        for try await reading in readings {
            #expect(reading.message.qos == .atLeastOnce && reading.retain && reading.payload == 1.5)
            break
        }
        var local = SubscriptionSettings()
        local.noLocal = true
        let others = client.messages(Home.alarm.matching(nil), local)
        try await client.publish(.smoke, to: Home.alarm("cellar"))
        #expect(others.waitingCount == 0)
    }

    @Test func `workers that name a group share an endpoint's values`() async throws {
        let shared = SubscriptionSettings(acknowledging: .whenDone, sharedBy: "workers")
        let first = client.messages(Home.alarm.matching(nil), shared)
        let second = client.messages(Home.alarm.matching(nil), shared)
        for _ in 1...4 { try await client.publish(.smoke, to: Home.alarm("cellar")) }
        #expect(first.waitingCount == 2 && second.waitingCount == 2)
        let untyped = client.messages("home/#", shared)
        try await client.publish(.smoke, to: Home.alarm("cellar"))
        #expect(untyped.waitingCount == 1)
    }

    @Test(arguments: ["", "a/b", "+", "a#"])
    func `a group that cannot be is an error that says what would be right`(group: String) async throws {
        var readings = client.messages(Home.alarm.matching(nil), SubscriptionSettings(sharedBy: group)).makeAsyncIterator()
        let error = await #expect(throws: ClientError.self) { _ = try await readings.next() }
        #expect(error?.description.contains("names no group of subscribers") == true)
        var twice = client.messages("$share/a/b", SubscriptionSettings(sharedBy: "c")).makeAsyncIterator()
        await #expect(throws: ClientError.self) { _ = try await twice.next() }
    }

    private enum Share: EndpointCatalogue {
        static let file = Endpoint(String.self, coding: .text, sample: "x") {
            "files"; Parameter("owner", String.self); Parameter("path", TopicTail.self)
        }
        static let list = Endpoint(String.self, coding: .text) {
            "files"; Parameter("owner", String.self)
        }
        static let other = Endpoint(String.self, coding: .text) {
            "folders"; "x"
        }
        static var all: [any EndpointDeclaration] { [file, list, other] }
    }

    @Test func `a tail is the rest of a topic, whatever its levels`() async throws {
        #expect(try Share.file("anna", "photos/1.jpg").name == "files/anna/photos/1.jpg")
        #expect(try Share.file("anna", "").name == "files/anna")
        #expect(try Share.file.matching("anna", nil).filter == "files/anna/#")
        #expect(try Share.file.matching(nil, "a/b").filter == "files/+/a/b")
        let files = client.messages(Share.file.matching("anna", nil))
        for path in ["photos/1.jpg", "", "notes"] { try await client.publish("x", to: Share.file("anna", TopicTail(path))) }
        var iterator = files.makeAsyncIterator()
        for levels in [["photos", "1.jpg"], [], ["notes"]] {
            let file = try #require(try await iterator.next())
            #expect(file.parameters.0 == "anna" && file.parameters.1.levels == levels)
        }
        #expect(throws: ClientError.self) { try Share.file("anna", "a//b").name }
        #expect(throws: ClientError.self) { try Share.file("anna", "a/+").name }
    }

    @Test func `the catalogue finds a tail that overlaps or is not last`() {
        #expect(throws: CatalogueFaults(faults: ["“files/{owner}/{path}” and “files/{owner}” match the same topics"])) {
            try Share.check()
        }
        enum Broken: EndpointCatalogue {
            static let middle = Endpoint(String.self, coding: .text) {
                "a"; Parameter("rest", TopicTail.self); "b"
            }
            static var all: [any EndpointDeclaration] { [middle] }
        }
        #expect(throws: CatalogueFaults(faults: ["“a/{rest}/b”: nothing follows rest, which is a tail"])) { try Broken.check() }
    }

    @Test func `what cannot be decoded is skipped, acknowledged and counted`() async throws {
        let alarms = client.messages(Home.alarm.matching(nil), SubscriptionSettings(acknowledging: .whenDone))
        try await publish("\"storm\"", "home/cellar/alarm")
        try await client.publish(.smoke, to: Home.alarm("cellar"))
        var iterator = alarms.makeAsyncIterator()
        let alarm = try #require(try await iterator.next())
        #expect(alarm.payload == .smoke)
        #expect(alarms.undecodableCount == 1)
        #expect(client.server.settlements.map(\.reason) == [.success])
        alarm.done()
        alarm.refuse(.unspecifiedError)
        #expect(client.server.settlements.map(\.reason) == [.success, .success])
    }

    @Test func `what cannot be decoded is refused with 0x99 on request`() async throws {
        let alarms = client.messages(Home.alarm.matching(nil), undecodable: .refuse)
        try await publish("storm", "home/cellar/alarm")
        try await client.publish(.smoke, to: Home.alarm("cellar"))
        var iterator = alarms.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == .smoke)
        #expect(client.server.settlements.map(\.reason) == [.payloadFormatInvalid])
        #expect(alarms.undecodableCount == 1)
    }

    @Test func `what cannot be decoded is thrown on request, and the next iterator goes on`() async throws {
        let readings = client.messages(Home.temperature.matching(nil, nil), undecodable: .fail)
        try await publish("warm", "home/cellar/sensor/1/temperature")
        try await publish("1", "home/cellar/sensor/x/temperature")
        try await client.publish(5, to: Home.temperature("cellar", 1))
        await #expect(throws: ClientError.undecodable("“warm” is no Double")) {
            for try await _ in readings { Issue.record("a value") }
        }
        await #expect(throws: ClientError.undecodable("topic “home/cellar/sensor/x/temperature”: “x” is no Int")) {
            for try await _ in readings { Issue.record("a value") }
        }
        for try await reading in readings {
            #expect(reading.payload == 5)
            break
        }
        #expect(client.server.settlements.map(\.reason) == [.payloadFormatInvalid, .payloadFormatInvalid, .success])
        #expect(readings.undecodableCount == 2)
    }

    @Test func `the removal of a retained value is no value and no fault`() async throws {
        let readings = client.messages(
            Home.temperature.matching(nil, nil), SubscriptionSettings(acknowledging: .whenDone), undecodable: .fail)
        try await client.publish(5, to: Home.temperature("cellar", 1))
        try await client.clearRetained(Home.temperature("cellar", 1))
        try await client.publish(6, to: Home.temperature("cellar", 1))
        var iterator = readings.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == 5)
        #expect(try await iterator.next()?.payload == 6)
        #expect(readings.undecodableCount == 0)
        #expect(client.server.settlements.count == 1)
    }

    @Test func `a refusal reaches the server`() async throws {
        let alarms = client.messages(Home.alarm.matching(nil), SubscriptionSettings(acknowledging: .whenDone))
        try await client.publish(.smoke, to: Home.alarm("cellar"))
        for try await alarm in alarms {
            alarm.refuse(.implementationSpecificError)
            break
        }
        #expect(client.server.settlements.map(\.reason) == [.implementationSpecificError])
    }

    @Test func `a selection that makes no filter throws where it is waited for`() async throws {
        let readings = client.messages(Home.temperature.matching("a/b", nil))
        let error = ClientError.topic("room is “a/b”: a level has no slash, plus, number sign or null character")
        await #expect(throws: error) { try await readings.granted() }
        await #expect(throws: error) { for try await _ in readings {} }
        await #expect(throws: error) { try await client.publish(5, to: Home.temperature("a/b", 1)) }
        #expect(client.server.filters.isEmpty)
    }

    @Test func `values dropped by the backlog's policy are counted`() async throws {
        let readings = client.messages(Home.temperature.matching(nil, nil), SubscriptionSettings(backlog: .dropOldest(2)))
        for number in 1...5 { try await client.publish(Double(number), to: Home.temperature("kitchen", number)) }
        #expect(readings.droppedCount == 3)
        var iterator = readings.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == 4)
        #expect(readings.waitingCount == 1)
    }

    @Test func `withMessages subscribes for as long as its body runs`() async throws {
        struct Enough: Error {}
        let client = client
        let answer = try await client.withMessages(
            Home.alarm.matching(nil), SubscriptionSettings(backlog: .hold(64), acknowledging: .whenDone)
        ) {
            alarms in
            try await alarms.granted()
            #expect(client.server.filters == ["home/+/alarm"])
            try await client.publish(.allClear, to: Home.alarm("kitchen"))
            for try await alarm in alarms {
                alarm.done()
                if alarm.payload == .allClear { break }
            }
            return 7
        }
        #expect(answer == 7)
        #expect(client.server.filters.isEmpty)
        await #expect(throws: Enough.self) {
            try await client.withMessages("a/#") { _ in
                #expect(client.server.filters == ["a/#"])
                throw Enough()
            }
        }
        #expect(client.server.filters.isEmpty)
    }

    @Test func `streams of one endpoint may wait and be acknowledged differently, as the documentation shows`() async throws {
        struct Siren { func sound(_ alarm: Alarm) async throws { if alarm == .water { throw ClientError.timedOut } } }
        let siren = Siren()
        let client = client
        let dial = client.messages(Home.temperature.matching(nil, nil), SubscriptionSettings(backlog: .latestPerTopic))
        let chart = client.messages(Home.temperature.matching(nil, nil), SubscriptionSettings(backlog: .dropOldest(1_000)))
        let audit = client.messages(Home.alarm.matching(nil), SubscriptionSettings(backlog: .spill))
        let drawn = Mutex(0)
        let task = Task { for try await _ in dial { drawn.withLock { $0 += 1 } } }
        try await client.withMessages(Home.alarm.matching(nil), SubscriptionSettings(backlog: .hold(64), acknowledging: .whenDone))
        { alarms in
            try await alarms.granted()
            for alarm in [Alarm.smoke, .water, .allClear] { try await client.publish(alarm, to: Home.alarm("kitchen")) }
            for try await alarm in alarms {
                do { try await siren.sound(alarm.payload); alarm.done() } catch { alarm.refuse(.implementationSpecificError) }
                if alarm.payload == .allClear { break }
            }
        }
        #expect(client.server.settlements.map(\.reason) == [.success, .implementationSpecificError, .success])
        try await client.publish(1, to: Home.temperature("kitchen", 1))
        while drawn.withLock({ $0 }) == 0 { await Task.yield() }
        task.cancel()
        try await task.value
        #expect(audit.waitingCount == 3 && chart.waitingCount == 1)
        #expect(chart.droppedCount == 0 && chart.undecodableCount == 0)
    }

    @Test func `cancelling the task that waits ends the subscription`() async throws {
        let readings = client.messages(Home.temperature.matching(nil, nil))
        let task = Task {
            for try await reading in readings where reading.payload > 100 { Issue.record("hot") }
        }
        #expect(client.server.filters == ["home/+/sensor/+/temperature"])
        task.cancel()
        try await task.value
        #expect(client.server.filters.isEmpty)
    }
}

@Suite struct ClearRetainedTests {
    @Test func `one topic's message is removed`() async throws {
        let client = StubClient()
        try await client.publish("x", to: "a/b", retain: true)
        try await client.clearRetained("a/b")
        #expect(client.server.retained.isEmpty)
    }

    @Test func `all messages below a topic are removed, live ones are not touched`() async throws {
        let client = StubClient()
        for number in 1...50 { try await client.publish("x", to: TopicName("a/\(number)") ?? "a", retain: true) }
        try await client.publish("x", to: "b", retain: true)
        let count = try await client.clearRetained(matching: "a/#", quiet: .milliseconds(1))
        #expect(count == 50)
        #expect(client.server.retained == ["b"])
        #expect(client.server.filters.isEmpty)
    }

    @Test func `a cancelled removal says so`() async throws {
        let client = StubClient()
        let task = Task { try await client.clearRetained(matching: "a/#", quiet: .seconds(3600)) }
        task.cancel()
        await #expect(throws: ClientError.cancelled) { try await task.value }
        #expect(client.server.filters.isEmpty)
    }
}
