import MartletClient
import Platform

/// Clients that do all that clients do, behind a network that cuts them off. In each part residents, which live as long
/// as the process, work and are visited by clients that come and go; between the parts all rest, and stock is taken.
struct Soak: Sendable {
    private let server: ServerAddress
    private let folder: String
    private let time: Duration
    private let parts: Int
    private let residents: [Resident]

    init(_ server: ServerAddress, folder: String, seconds: Double, parts: Int) throws {
        (self.server, self.folder, time, self.parts) = (server, folder, .seconds(seconds / Double(max(1, parts))), parts)
        residents = try (0..<3).map { try Resident($0, server, folder) }
    }

    func run() async throws {
        for resident in residents { resident.begin() }
        var descriptors = 0
        for part in 0..<parts {
            let end = ContinuousClock.now + time
            await withTaskGroup(of: Void.self) { group in
                for resident in residents { resident.work(&group, until: end) }
                for number in 0..<4 {
                    group.addTask { await visit(number, until: end) }
                }
            }
            for resident in residents { try await resident.rest() }
            var stock = Stock.take()
            // Goodbyes take a moment.
            for _ in 0..<500 where part > 0 && stock.descriptors > descriptors {
                try await Task.sleep(for: .milliseconds(10))
                stock = Stock.take()
            }
            descriptors = stock.descriptors
            say(
                """
                stock \(stock.heap) \(stock.storeHeap) \(stock.resident) \(stock.descriptors) \
                \(residents.map { $0.tally.withLock(\.line) }.joined(separator: " "))
                """)
        }
        for resident in residents { await resident.client.disconnect() }
        say("rested")
    }

    /// Clients that come and go, with a goodbye and without.
    private func visit(_ number: Int, until end: ContinuousClock.Instant) async {
        var round = 0
        while ContinuousClock.now < end {
            round += 1
            do {
                var settings = settings(server, "visitor-\(number)")
                settings.session = round % 3 == 0 ? .kept(.seconds(1)) : .ended
                let client = try Client(settings)
                let topic = TopicName("visit/\(number)") ?? "visit"
                let messages = client.messages(TopicFilter("visit/\(number)") ?? "visit")
                let states = Task { for await state in client.states where state == .ended { return } }
                // A session that ends with its connection may lose the message.
                let patience = Task {
                    try await Task.sleep(for: .seconds(1))
                    messages.cancel()
                }
                defer {
                    states.cancel()
                    patience.cancel()
                }
                try await client.connect()
                _ = try await client.publish("x", to: topic, qos: .exactlyOnce)
                for try await _ in messages { break }
                if round.isMultiple(of: 2) { await client.disconnect() }
            } catch {
                // It was cut off.
                await Task.yield()
            }
        }
    }
}
