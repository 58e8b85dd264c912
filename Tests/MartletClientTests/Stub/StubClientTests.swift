import FoundationEssentials
import MartletClient
import MartletClientJSON
import Platform
import Testing

/// What depends on the protocol only.
struct PlaceModel<Network: RequestClient> {
    let network: Network

    func titles(near word: String) async throws -> [String] {
        try await network.send(PlaceSearch(region: "Beijing", keyword: word)).map(\.title)
    }
}

@Suite(.timeLimit(.minutes(10))) struct StubClientTests {
    /// Stands, so that no request is too late on a machine that does much else.
    private let clock = ManualClock()

    @Test func `a request is answered with its sample`() async throws {
        #expect(try await PlaceModel(network: StubClient(PlaceSearch.self, clock: clock)).titles(near: "noodles") == ["Noodle bar"])
    }

    @Test func `calls of a catalogue are answered with their samples`() async throws {
        let answer = try await StubClient(Home.self, clock: clock).send(SetTarget(celsius: 30), to: Home.setTarget("kitchen"))
        #expect(answer == .accepted)
    }

    @Test func `a request without a sample has no responder`() async {
        await #expect(throws: RequestError<Never>.client(.noResponder)) {
            try await StubClient(Home.self, clock: clock).send(PlaceSearch(region: "r", keyword: "k"))
        }
    }

    @Test func `a responder goes before a sample`() async throws {
        let client = StubClient(PlaceSearch.self, clock: clock)
        let responder = Task { try await client.respond(to: PlaceSearch.self) { _, _ in [Place(title: "Live")] } }
        await until { !client.server.filters.isEmpty }
        #expect(try await client.send(PlaceSearch(region: "r", keyword: "k")) == [Place(title: "Live")])
        responder.cancel()
        try await responder.value
    }

    @Test func `samples come to subscribers, with the parameters that they ask for`() async throws {
        let client = StubClient(Home.self)
        for try await reading in client.messages(Home.temperature.matching("kitchen", nil)) {
            #expect(reading.payload == 21.5 && reading.retain)
            let (room, number) = reading.parameters
            #expect(room == "kitchen" && number == 1)
            break
        }
        for try await alarm in client.messages(Home.alarm.matching(nil)) {
            #expect(alarm.payload == .smoke && alarm.parameters == "room" && !alarm.retain)
            break
        }
        #expect(client.messages("home/#").waitingCount == 2)
        #expect(client.messages("home/+/+/7/#").waitingCount == 1)
        #expect(client.messages("home/+/+/x/#").waitingCount == 0)
        #expect(client.messages("garden/#").waitingCount == 0)
        #expect(client.messages("$share/g/home/#").waitingCount == 0)
    }

    @Test func `what was published goes before a sample`() async throws {
        let client = StubClient(Home.self)
        try await client.publish(4, to: Home.temperature("cellar", 2))
        let readings = client.messages(Home.temperature.matching("cellar", 2))
        #expect(readings.waitingCount == 1)
        for try await reading in readings {
            #expect(reading.payload == 4)
            break
        }
    }

    @Test func `samples come late on request`() async throws {
        let client = StubClient(Home.self, answering: .after(.seconds(1)), clock: clock)
        let alarms = client.messages(Home.alarm.matching(nil))
        #expect(alarms.waitingCount == 0)
        await clock.advance(by: .seconds(1))
        for try await alarm in alarms {
            #expect(alarm.payload == .smoke)
            break
        }
        let call = Task { try await client.send(SetTarget(celsius: 1), to: Home.setTarget("a"), timeout: .seconds(5)) }
        // The request's timeout and the stub's delay.
        await clock.advance(by: .seconds(1), whenSleeping: 2)
        #expect(try await call.value == .accepted)
        let late = Task { try await client.send(SetTarget(celsius: 1), to: Home.setTarget("a"), timeout: .milliseconds(500)) }
        await clock.advance(by: .milliseconds(500), whenSleeping: 2)
        await #expect(throws: RequestError<SetTarget.Failure>.client(.timedOut)) { try await late.value }
    }

    @Test func `all is refused on request`() async throws {
        let client = StubClient(Home.self, answering: .failing(.notAuthorized), clock: clock)
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await client.publish(1, to: Home.temperature("a", 1)) }
        await #expect(throws: ClientError.refused(.notAuthorized)) {
            try await client.messages(Home.alarm.matching(nil)).granted()
        }
        await #expect(throws: RequestError<SetTarget.Failure>.client(.refused(.notAuthorized))) {
            try await client.send(SetTarget(celsius: 1), to: Home.setTarget("a"))
        }
    }

    @Test func `files are samples by their topics`() async throws {
        let files = FileManager.default
        let folder = files.temporaryDirectory.appending(path: "martlet-samples-\(RandomBytes.seed())").path
        try files.createDirectory(atPath: "\(folder)/map/place", withIntermediateDirectories: true)
        defer { try? files.removeItem(atPath: folder) }
        try Data(#"[{"title":"From a file"}]"#.utf8).write(to: URL(filePath: "\(folder)/map/place/search.json"))
        try Data("21.5".utf8).write(to: URL(filePath: "\(folder)/map/temperature.txt"))
        let client = StubClient(.folder(folder), clock: clock)
        #expect(try await PlaceModel(network: client).titles(near: "x") == ["From a file"])
        for try await message in client.messages("map/temperature") {
            #expect(message.payload == "21.5" && message.retain)
            #expect(message.properties.contentType == "text/plain")
            break
        }
        for filter in ["map/place", "map/+", "map/../map/temperature", "map//temperature", "other/#", "map/temperature/x"]
            as [TopicFilter]
        {
            #expect(client.messages(filter).waitingCount == 0, "\(filter)")
        }
        await #expect(throws: RequestError<SetTarget.Failure>.client(.noResponder)) {
            try await client.send(SetTarget(celsius: 1), to: CallTopic("map/other"))
        }
    }

    @Test func `a sample that cannot be written is an error where it is asked for`() async {
        enum Broken: EndpointCatalogue {
            static let infinite = Endpoint(Double.self, coding: .json, sample: .infinity) { "a" }
            static var all: [any EndpointDeclaration] { [infinite] }
        }
        let client = StubClient(Broken.self)
        await #expect(throws: ClientError.self) { for try await _ in client.messages(Broken.infinite.matching()) {} }
    }
}
