import MartletTesting
import TestBasics
import Testing

/// One seed is one run: in every process, though the sets and dictionaries of each have their own order.
@Suite(.serialized) struct OneSeedTests {
    private static let plays: [(name: String, play: @Sendable (Simulation) async throws -> UInt64)] = [
        ("messages", MessageSeedTests.play), ("outbox", OutboxSeedTests.play), ("inbox", InboxSeedTests.play),
        ("spill", SpillSeedTests.play),
        ("requests", RequestSeedTests.play), ("collection", CollectionSeedTests.play), ("bounds", BoundsSeedTests.play),
        ("consumers", ConsumerSeedTests.play),
    ]

    @Test func `a seed of each oracle is the same run in another process`() async throws {
        let here = try await Self.fingerprints()
        let other = try #require(
            await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
                for line in try await Self.fingerprints() { print("fingerprint of \(line)") }
            })
        let there = String(decoding: other.standardOutputContent, as: UTF8.self).split(separator: "\n").compactMap { line in
            line.wholeMatch(of: /fingerprint of (.+)/).map { String($0.1) }
        }
        #expect(here.count == Self.plays.count)
        #expect(there == here)
    }

    @Test(.timeLimit(.minutes(10))) func `nothing of a seed's world stays in memory`() async throws {
        for (_, play) in Self.plays {
            let world = SimulationTests.Remains()
            try await Simulation.run(seed: 2) {
                world.world = $0
                _ = try await play($0)
            }
            // The simulation's thread has it for a moment longer.
            while world.world != nil { await Task.yield() }
        }
    }

    private static func fingerprints() async throws -> [String] {
        let lines = Lines()
        for (name, play) in plays {
            try await Simulation.run(seed: 1) { lines.append("\(name): \(try await play($0))") }
        }
        return lines.all
    }
}
