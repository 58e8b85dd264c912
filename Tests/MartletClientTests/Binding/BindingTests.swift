import MartletClient
import MartletClientJSON
import Observation
import Testing

@MainActor @Observable final class Panel {
    var degrees = 0.0
    var isOnline = false
    var rooms: [LiveCollection<Double, Room, Int>.Entry] = []
    var text: Message?
    @ObservationIgnored var bindings: [PropertyBinding] = []
}

@MainActor
func show(_ client: Client, _ temperatures: LiveCollection<Double, Room, Int>, on panel: Panel) -> [PropertyBinding] {
    [
        client.messages(Home.temperature.matching("kitchen", 1)).map(\.payload)
            .bind(to: panel, \.degrees),
        client.states.map(\.isOnline).bind(to: panel, \.isOnline),
        temperatures.snapshots.bind(to: panel, \.rooms),
    ]
}

@MainActor
@Suite struct BindingTests {
    let client = StubClient()

    /// Waits until the main actor sees what is expected.
    private func until(_ condition: () -> Bool) async {
        while !condition() { await Task.yield() }
    }

    @Test func `values come into the property`() async throws {
        let panel = Panel()
        let binding = client.messages(Home.temperature.matching("kitchen", 1)).map(\.payload).bind(to: panel, \.degrees)
        try await client.publish(21.5, to: Home.temperature("kitchen", 1))
        await until { panel.degrees == 21.5 }
        try await client.publish(22, to: Home.temperature("kitchen", 1))
        await until { panel.degrees == 22 }
        #expect(!binding.isOver)
        binding.cancel()
        await until { binding.isOver }
        #expect(binding.failure == nil)
        #expect(client.server.filters.isEmpty)
    }

    @Test func `whoever observes the property is told`() async throws {
        let panel = Panel()
        let binding = client.messages(Home.temperature.matching(nil, nil)).map(\.payload).bind(to: panel, \.degrees)
        await confirmation { told in
            withObservationTracking {
                _ = panel.degrees
            } onChange: {
                told()
            }
            _ = try? await client.publish(3, to: Home.temperature("kitchen", 1))
            await until { panel.degrees == 3 }
        }
        binding.cancel()
    }

    @Test func `a binding does not keep its target, and ends with it`() async throws {
        var panel: Panel? = Panel()
        weak let weakPanel = panel
        let binding = try client.messages(Home.temperature.matching(nil, nil)).map(\.payload)
            .bind(to: #require(panel), \.degrees)
        panel?.bindings = []
        panel = nil
        #expect(weakPanel == nil)
        try await client.publish(3, to: Home.temperature("kitchen", 1))
        await until { binding.isOver }
        #expect(client.server.filters.isEmpty)
    }

    @Test func `a binding that its target holds ends with it at once`() async throws {
        var panel: Panel? = Panel()
        if let panel {
            panel.bindings = [client.messages(Home.temperature.matching(nil, nil)).map(\.payload).bind(to: panel, \.degrees)]
        }
        #expect(client.server.filters.count == 1)
        panel = nil
        await until { client.server.filters.isEmpty }
    }

    @Test func `two bindings of one target are apart`() async throws {
        let panel = Panel()
        var bindings = [
            client.messages(Home.temperature.matching("kitchen", nil)).map(\.payload).bind(to: panel, \.degrees),
            client.messages("other").map { $0 }.bind(to: panel, \.text),
        ]
        bindings.removeLast()
        await until { client.server.filters == ["home/kitchen/sensor/+/temperature"] }
        try await client.publish(7, to: Home.temperature("kitchen", 1))
        await until { panel.degrees == 7 }
        #expect(panel.text == nil)
        bindings = []
        await until { client.server.filters.isEmpty }
    }

    @Test func `a failure is told`() async throws {
        let panel = Panel()
        let binding = client.messages(Home.temperature.matching(nil, nil), undecodable: .fail).map(\.payload)
            .bind(to: panel, \.degrees)
        try await client.publish("warm", to: "home/kitchen/sensor/1/temperature")
        await until { binding.isOver }
        #expect(binding.failure as? ClientError == .undecodable("“warm” is no Double"))
    }
}
