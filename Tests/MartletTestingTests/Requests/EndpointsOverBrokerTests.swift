import MartletClient
import MartletClientJSON
import MartletTesting
import Testing

/// Endpoints and requests over connections to the real broker.
@Suite(.timeLimit(.minutes(10))) struct EndpointsOverBrokerTests {
    enum House: EndpointCatalogue {
        static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
            "home"; Parameter("room", String.self); "sensor"; Parameter("number", Int.self); "temperature"
        }
        static let setTarget = Call(SetTarget.self, sample: 1) {
            "home"; Parameter("room", String.self); "target"
        }
        static var all: [any EndpointDeclaration] { [temperature, setTarget] }
    }

    struct SetTarget: Request, Codable {
        enum Failure: String, Error, Codable { case tooHot }
        typealias Response = Double
        var celsius: Double
    }

    let broker: EmbeddedBroker

    init() throws { broker = try EmbeddedBroker() }

    private func client(_ name: String, _ change: (inout ClientSettings) -> Void = { _ in }) async throws -> Client {
        var settings = ClientSettings(server: .inProcess(broker), clientIdentifier: name)
        change(&settings)
        let client = try Client(settings)
        try await client.connect()
        return client
    }

    /// Answers until it is cancelled; returns when the broker knows it.
    private func startHeating(_ client: Client, sharedBy group: String? = nil) async throws -> Task<Void, any Error> {
        let heating = Task {
            try await client.respond(to: House.setTarget, sharedBy: group) { (request, context) throws(SetTarget.Failure) in
                guard request.celsius < 28 else { throw .tooHot }
                return context.parameters == "kitchen" ? request.celsius : 0
            }
        }
        while await broker.subscriptions(of: client.settings.clientIdentifier).isEmpty { await Task.yield() }
        return heating
    }

    @Test func `the catalogue is sound`() throws { try House.check() }

    @Test func `values come typed, live and retained, and retained ones are cleared`() async throws {
        let sender = try await client("sender")
        try await sender.publish(4, to: House.temperature("cellar", 2))
        let receiver = try await client("receiver")
        let readings = receiver.messages(House.temperature.matching(nil, nil))
        try await readings.granted()
        try await sender.publish(21.5, to: House.temperature("kitchen", 3))
        var iterator = readings.makeAsyncIterator()
        let kept = try #require(try await iterator.next())
        let (room, number) = kept.parameters
        #expect(room == "cellar" && number == 2 && kept.payload == 4 && kept.retain)
        let live = try #require(try await iterator.next())
        #expect(live.payload == 21.5 && !live.retain && live.topic == "home/kitchen/sensor/3/temperature")
        #expect(try await sender.clearRetained(matching: "home/#") == 2)
        #expect(await broker.retained.isEmpty)
        #expect(readings.undecodableCount == 0)
    }

    @Test func `a request is answered, refused, and without a responder ends at once`() async throws {
        let asking = try await client("asking")
        await #expect(throws: RequestError<SetTarget.Failure>.client(.noResponder)) {
            try await asking.send(SetTarget(celsius: 20), to: House.setTarget("kitchen"))
        }
        let heating = try await startHeating(try await client("heating"))
        #expect(try await asking.send(SetTarget(celsius: 20), to: House.setTarget("kitchen"), timeout: .seconds(60)) == 20)
        do {
            _ = try await asking.send(SetTarget(celsius: 30), to: House.setTarget("kitchen"))
            Issue.record("an answer")
        } catch .answered(.tooHot) {
        } catch {
            Issue.record(error)
        }
        #expect(await broker.subscriptions(of: "asking").count == 1)
        heating.cancel()
        try await heating.value
        #expect(asking.requests.count == 0 && asking.requests.lateAnswerCount == 0)
    }

    @Test func `many requests at once each get their own answer, from responders that share them`() async throws {
        let asking = try await client("asking")
        let responders = [
            try await startHeating(try await client("one"), sharedBy: "heating"),
            try await startHeating(try await client("two"), sharedBy: "heating"),
        ]
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let celsius = Double(number) / 10
                    return try await asking.send(SetTarget(celsius: celsius), to: House.setTarget("kitchen")) == celsius
                }
            }
            for try await isRight in group { #expect(isRight) }
        }
        for responder in responders {
            responder.cancel()
            try await responder.value
        }
        #expect(broker.published.filter { $0.topic == "home/kitchen/target" }.count == 200)
    }

    @Test func `MQTT 3_1_1 has no requests, and says so`() async throws {
        let old = try await client("old") { $0.version = .v311 }
        let error = ClientError.unsupported("requests need MQTT 5.0, which the server does not speak")
        await #expect(throws: RequestError<SetTarget.Failure>.client(error)) {
            try await old.send(SetTarget(celsius: 20), to: House.setTarget("kitchen"))
        }
        await #expect(throws: error) { try await old.respond(to: House.setTarget) { _, _ in 1 } }
        let readings = old.messages(House.temperature.matching("kitchen", nil))
        try await readings.granted()
        try await old.publish(3, to: House.temperature("kitchen", 1))
        for try await reading in readings {
            #expect(reading.payload == 3)
            break
        }
    }

    @Test func `a cancelled request ends, and an ended client ends its requests`() async throws {
        let asking = try await client("asking")
        let gate = try await client("silent")
        let requests = gate.messages("home/+/target")
        try await requests.granted()
        let search = Task { try await asking.send(SetTarget(celsius: 20), to: House.setTarget("kitchen")) }
        var iterator = requests.makeAsyncIterator()
        let request = try #require(try await iterator.next())
        // Less the time that it waited on its way.
        let expiry = try #require(request.properties.messageExpiryInterval)
        #expect((1...30).contains(expiry))
        search.cancel()
        await #expect(throws: RequestError<SetTarget.Failure>.client(.cancelled)) { try await search.value }
        let other = Task { try await asking.send(SetTarget(celsius: 20), to: House.setTarget("kitchen")) }
        _ = try await iterator.next()
        asking.cancelAllRequests()
        await #expect(throws: RequestError<SetTarget.Failure>.client(.cancelled)) { try await other.value }
    }

    @Test func `common properties are on every message, requests too`() async throws {
        let asking = try await client("asking") { $0.interceptors = [AddUserProperties(["app": "7"])] }
        let responder = try await client("responder")
        let heating = Task {
            try await responder.respond(to: House.setTarget) { _, context in
                context.properties.userProperties.contains(UserProperty(name: "app", value: "7")) ? 7 : 0
            }
        }
        while await broker.subscriptions(of: "responder").isEmpty { await Task.yield() }
        #expect(try await asking.send(SetTarget(celsius: 20), to: House.setTarget("kitchen")) == 7)
        heating.cancel()
        try await heating.value
    }

    @MainActor final class Panel {
        var degrees = 0.0
        var isOnline = false
    }

    @MainActor @Test func `values and states come into properties`() async throws {
        let client = try await client("panel")
        let panel = Panel()
        let bindings = [
            client.messages(House.temperature.matching("kitchen", 1)).map(\.payload).bind(to: panel, \.degrees),
            client.states.map(\.isOnline).bind(to: panel, \.isOnline),
        ]
        try await client.publish(21.5, to: House.temperature("kitchen", 1))
        while panel.degrees != 21.5 || !panel.isOnline { await Task.yield() }
        for binding in bindings { binding.cancel() }
        while await !broker.subscriptions(of: "panel").isEmpty { await Task.yield() }
    }
}
