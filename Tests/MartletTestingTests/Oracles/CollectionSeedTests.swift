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
}

/// The sum of a collection's changes.
private final class Folded: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private var entries: [String: String] = [:]

    var all: [String] { entries.map { "\($0.key) \($0.value)" }.sorted() }

    func add(_ change: Change<Payload, TopicName>) {
        for entry in change.added + change.changed { entries["\(entry.topic)"] = "\(entry.value)" }
        for entry in change.removed { entries["\(entry.topic)"] = nil }
    }
}
