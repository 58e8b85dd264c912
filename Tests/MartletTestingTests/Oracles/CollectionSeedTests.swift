import MQTTCodec
import MartletTesting
import TestBasics
import Testing

/// A collection follows what brokers retain, over a bad network.
@Suite(.serialized) struct CollectionSeedTests {
    @Test(arguments: Seeds.ofOracles) func `after quiet a collection is what the broker retains`(seeds: ClosedRange<UInt64>)
        async throws
    {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let seed = world.seed
        var random = SeededGenerator(seed: seed &+ 2000)
        let wire = WireOracle(world)
        let broker = world.broker(isPersistent: random.oneIn(2))
        let writer = try world.client("writer", of: broker)
        let keepsSession = random.oneIn(2)
        let panel = try world.client("panel", of: broker) { if keepsSession { $0.session = .kept(.seconds(1_000_000)) } }
        world.faults = .rough
        writer.start()
        let collection = try panel.collection(of: "r/#")
        panel.start()
        let folded = Folded()
        let folder = Task { for await change in collection.changes { folded.add(change) } }
        var numbers = random
        let writing = Task {
            for number in 0..<60 {
                guard let topic = TopicName("r/\(Int.random(in: 0..<12, using: &numbers))") else { continue }
                let payload = numbers.oneIn(4) ? Payload() : Payload("\(number)")
                _ = try await writer.publish(payload, to: topic, qos: .atLeastOnce, retain: true)
                await world.advance(by: .milliseconds(Int.random(in: 0...3000, using: &numbers)))
            }
        }
        await world.disturb({ [writer, panel] }, for: .seconds(Int.random(in: 30...200, using: &random)), &random)
        if random.oneIn(2) { broker.crash(for: .seconds(3)) }
        await world.advance(by: .seconds(20))
        world.heal()
        try await world.end(of: [writing])
        await world.advance(by: .seconds(600))
        let retained = broker.retained.filter { $0.topic.description.hasPrefix("r/") }.map { "\($0.topic) \($0.payload)" }
        #expect(collection.entries.map { "\($0.topic) \($0.value)" }.sorted() == retained.sorted(), "seed \(seed)")
        #expect(folded.all == retained.sorted(), "seed \(seed): the sum of changes")
        #expect(collection.isReady, "seed \(seed)")
        #expect(wire.problems == [], "seed \(seed)")
        folder.cancel()
        await folder.value
        return wire.fingerprint
    }

    @Test(arguments: Seeds.ofOracles) func `what was set is retained in the end, whatever crashes, where there is a store`(
        seeds: ClosedRange<UInt64>
    ) async throws {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.playStored($0) } }
    }

    private static func playStored(_ world: Simulation) async throws {
        let seed = world.seed
        var random = SeededGenerator(seed: seed &+ 2500)
        let broker = world.broker(isPersistent: true)
        let (keepsSession, isOld) = (random.oneIn(2), random.oneIn(3))
        func panel() throws -> Client {
            try world.client("panel", of: broker) {
                $0.store = world.disk("panel")
                if keepsSession { $0.session = .kept(.seconds(1_000_000)) }
                if isOld { $0.version = .v311 }
                $0.keepAlive = .seconds(10)
            }
        }
        let written = Written()
        var settings = CollectionSettings()
        // Longer than it takes to notice that a connection is dead.
        settings.echoPatience = .seconds(60)
        world.faults = .rough
        var client = try panel()
        var collection = try client.collection(of: "w/+", settings)
        for life in 0..<Int.random(in: 2...5, using: &random) {
            if life > 0 {
                client = try panel()
                collection = try client.collection(of: "w/+", settings)
                for problem in written.missing(in: collection.entries) { Issue.record("seed \(seed): \(problem)") }
            }
            if random.oneIn(2) { client.start() }
            let pauses = (0..<10).map { _ in Duration.milliseconds(random.below(1500)) }
            let numbers = (0..<10).map { _ in random.below(3) }
            // Waits for ever when its client crashes.
            Task { [collection] in
                for (number, pause) in zip(numbers, pauses) {
                    guard let topic = TopicName("w/\(number)") else { continue }
                    let value = written.begin(topic)
                    try await collection.set(Payload("\(value)"), at: topic)
                    written.end(topic, value)
                    await world.advance(by: pause)
                }
            }
            await world.disturb({ [client] in [client] }, for: .seconds(Int.random(in: 0...20, using: &random)), &random)
            if random.oneIn(3) { broker.crash(for: .seconds(2)) }
            world.crash(client)
        }
        client = try panel()
        collection = try client.collection(of: "w/+", settings)
        client.start()
        await world.advance(by: .seconds(20))
        world.heal()
        await world.advance(by: .seconds(600))
        let retained = broker.retained.filter { "\($0.topic)".hasPrefix("w/") }
        for problem in written.wrong(in: retained.map { ($0.topic, "\($0.payload)") }) { Issue.record("seed \(seed): \(problem)") }
        #expect(collection.entries.map { "\($0.value)" }.sorted() == retained.map { "\($0.payload)" }.sorted(), "seed \(seed)")
        #expect(collection.entries.allSatisfy { $0.state == .confirmed }, "seed \(seed)")
        #expect(try await client.outbox.open().isEmpty, "seed \(seed)")
        #expect(world.stored(in: "owner", on: "panel").isEmpty, "seed \(seed)")
    }
}

/// What was written to each topic: numbers that rise.
private final class Written: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private var begun: [TopicName: Int] = [:]
    private var ended: [TopicName: Int] = [:]
    private var last = 0

    func begin(_ topic: TopicName) -> Int {
        last += 1
        begun[topic] = last
        return last
    }

    func end(_ topic: TopicName, _ value: Int) { ended[topic] = value }

    /// The last that was set, or what was being set when its client crashed.
    func wrong(in values: [(topic: TopicName, value: String)]) -> [String] {
        let values = Dictionary(values.map { ($0.topic, $0.value) }) { $1 }
        return begun.keys.sorted { "\($0)" < "\($1)" }.compactMap { topic in
            let value = values[topic].flatMap { Int($0) }
            if let value, value >= ended[topic] ?? 0, value <= begun[topic] ?? 0 { return nil }
            if value == nil, ended[topic] == nil { return nil }
            return "\(topic): \(values[topic] ?? "nothing"), set were \(ended[topic] ?? 0) and perhaps \(begun[topic] ?? 0)"
        }
    }

    func missing(in entries: [LiveCollection<Payload, TopicName>.Entry]) -> [String] {
        wrong(in: entries.map { ($0.topic, "\($0.value)") })
    }
}

/// The sum of a collection's changes.
private final class Folded: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private var entries: [String: String] = [:]

    var all: [String] { entries.map { "\($0.key) \($0.value)" }.sorted() }

    func add(_ change: LiveCollection<Payload, TopicName>.Change) {
        for entry in change.added + change.changed { entries["\(entry.topic)"] = "\(entry.value)" }
        for entry in change.removed { entries["\(entry.topic)"] = nil }
    }
}
