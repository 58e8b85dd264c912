import MartletTesting
import Testing

/// The broker in the process, with the machine's clock.
struct EmbeddedBrokerTests {
    private func client(_ name: String, _ broker: EmbeddedBroker) throws -> Client {
        var settings = ClientSettings(server: .inProcess(broker), clientIdentifier: name)
        settings.reconnect = .never
        return try Client(settings)
    }

    @Test func `clients reach it, and it tells what has happened`() async throws {
        let broker = try EmbeddedBroker()
        let (publisher, subscriber) = (try client("publisher", broker), try client("subscriber", broker))
        let messages = subscriber.messages("home/#")
        try await publisher.connect()
        try await subscriber.connect()
        try await messages.granted()
        for number in 0..<100 {
            try await publisher.publish(Payload("\(number)"), to: "home/kitchen", qos: .exactlyOnce, retain: number == 99)
        }
        var seen: [String] = []
        for try await message in messages {
            seen.append("\(message.payload)")
            if seen.count == 100 { break }
        }
        #expect(seen == (0..<100).map(String.init))
        #expect(broker.published("home/kitchen").count == 100)
        #expect(broker.published.map(\.qos).allSatisfy { $0 == .exactlyOnce })
        #expect(await broker.subscriptions(of: "subscriber") == ["home/#"])
        #expect(await broker.subscriptions(of: "publisher") == [])
        #expect(await broker.retained.map { "\($0.topic) \($0.payload)" } == ["home/kitchen 99"])
        #expect(await broker.clients == ["publisher", "subscriber"])
    }

    @Test func `a message larger than a socket's room arrives whole`() async throws {
        let broker = try EmbeddedBroker()
        let client = try client("c", broker)
        let messages = client.messages("large")
        try await client.connect()
        try await messages.granted()
        let payload = Payload((0..<1_900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        try await client.publish(payload, to: "large", qos: .atLeastOnce)
        for try await message in messages {
            #expect(message.payload == payload)
            break
        }
    }

    @Test func `stopping it ends its clients' connections, and it lets nobody in any more`() async throws {
        let broker = try EmbeddedBroker()
        let client = try client("c", broker)
        try await client.connect()
        await broker.stop()
        for await state in client.states {
            if case .refused = state { break }
            if case .offline = state { break }
        }
        await #expect(throws: ClientError.self) { try await client.connect() }
        await broker.stop()
        #expect(await broker.clients == [])
    }
}
