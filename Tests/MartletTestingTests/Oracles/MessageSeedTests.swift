import MartletTesting
import TestBasics
import Testing

/// Clients publish and receive over a bad network: first with faults, then without, and then all must be there.
@Suite(.serialized) struct MessageSeedTests {
    @Test(arguments: Seeds.ofOracles) func `what is published arrives, once at QoS 2, in order`(seeds: ClosedRange<UInt64>)
        async throws
    {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let seed = world.seed
        var random = SeededGenerator(seed: seed)
        let wire = WireOracle(world)
        world.faults = .rough
        let broker = world.broker(isPersistent: random.oneIn(2), receiveMaximum: UInt16.random(in: 1...4, using: &random))
        let window = UInt16.random(in: 1...20, using: &random)
        let receiver = try world.client("receiver", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.receiveMaximum = window
        }
        let settings = SubscriptionSettings(
            backlog: .hold(Int.random(in: 1...10, using: &random)), acknowledging: random.oneIn(2) ? .whenTaken : .whenDone)
        let messages = receiver.messages("t/#", settings)
        receiver.start()
        try await messages.granted()

        let (got, settled) = (Lines(), Lines())
        wire.mayAnswer = { client, message in
            client != "receiver" || settled.all.contains("\(message.topic) \(String(decoding: message.payload, as: UTF8.self))")
        }
        let collector = Task {
            for try await message in messages {
                got.append("\(message.topic) \(message.payload)")
                guard settings.acknowledging == .whenDone else {
                    settled.append("\(message.topic) \(message.payload)")
                    continue
                }
                // Later ones may be done with earlier.
                let pause = Duration.milliseconds((got.all.count * 37) % 200)
                Task {
                    await world.advance(by: pause)
                    settled.append("\(message.topic) \(message.payload)")
                    message.done()
                }
            }
        }
        let (leaver, leaving) = try leave(world, broker, random.next())
        let publishers = try (0..<2).map { number in
            try world.client("p\(number)", of: broker) {
                $0.session = .kept(.seconds(1_000_000))
                $0.inFlight = number == 0 ? 1 : 10
            }
        }
        let sent = Sent()
        let senders = publishers.enumerated().flatMap { number, client in
            client.start()
            return (0..<3).map { topic in
                Task {
                    for message in 0..<6 {
                        let qos: QoS = (message + topic).isMultiple(of: 2) ? .atLeastOnce : .exactlyOnce
                        guard let name = TopicName("t/\(number)/\(topic)/\(qos.rawValue)") else { continue }
                        try await client.publish(Payload("\(message)"), to: name, qos: qos)
                        sent.all.append((name.description, "\(message)", qos))
                    }
                }
            }
        }
        await world.disturb({ publishers + [receiver] }, for: .seconds(Int.random(in: 30...300, using: &random)), &random)
        world.heal()
        try await world.end(of: senders + [leaving])
        await world.advance(by: .seconds(600))

        #expect(sent.all.count == 36, "seed \(seed)")
        let oracle = ArrivalOracle(expected: sent.all)
        let published = broker.published.map { ($0.topic.description, "\($0.payload)") }
        #expect(oracle.problems(in: published) == [], "seed \(seed): what the broker took")
        #expect(oracle.problems(in: got.all.map(Self.split)) == [], "seed \(seed): what the receiver got")
        #expect(wire.problems == [], "seed \(seed)")
        #expect(wire.unanswered == [], "seed \(seed)")
        // Until here: it would say goodbye in the middle of its last answers.
        withExtendedLifetime(leaver) {}
        #expect(messages.waitingCount == 0, "seed \(seed)")
        collector.cancel()
        _ = await collector.result
        await world.advance(by: .seconds(10))
        #expect(broker.subscriptions(of: "receiver") == [], "seed \(seed)")
        return wire.fingerprint
    }

    /// Consumers that take some messages, are not done with them, and leave: their messages are taken then, and others
    /// may come.
    private static func leave(_ world: Simulation, _ broker: Simulation.Broker, _ seed: UInt64) throws -> (
        Client, Task<Void, any Error>
    ) {
        var random = SeededGenerator(seed: seed)
        let window = UInt16.random(in: 1...4, using: &random)
        let client = try world.client("leaver", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.receiveMaximum = window
        }
        client.start()
        let counts = (0..<8).map { _ in random.below(4) }
        let task: Task<Void, any Error> = Task {
            for count in counts {
                let messages = client.messages("t/#", SubscriptionSettings(backlog: .hold(5), acknowledging: .whenDone))
                let consumer = Task {
                    var rest = count
                    for try await _ in messages {
                        rest -= 1
                        if rest < 0 { break }
                    }
                }
                await world.advance(by: .seconds(10))
                consumer.cancel()
                _ = await consumer.result
                messages.cancel()
            }
        }
        return (client, task)
    }

    private static func split(_ line: String) -> (topic: String, payload: String) {
        let parts = line.split(separator: " ")
        return (String(parts[0]), String(parts[1]))
    }
}

/// What was sent, in order.
final class Sent: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    var all: [(topic: String, payload: String, qos: QoS)] = []
}
