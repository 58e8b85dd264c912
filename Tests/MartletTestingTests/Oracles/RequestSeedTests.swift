import MartletTesting
import TestBasics
import Testing

@testable import MartletClient

/// Requests and answers over a bad network.
@Suite(.serialized) struct RequestSeedTests {
    struct Doubling: Request, LosslessStringConvertible {
        static let topic: TopicName = "requests/doubling"
        static var coding: MessageCoding<Doubling> { .text }
        static var responseCoding: MessageCoding<Int> { .text }
        typealias Response = Int
        var number: Int

        init(number: Int) { self.number = number }

        init?(_ text: String) {
            guard let number = Int(text) else { return nil }
            self.number = number
        }

        var description: String { "\(number)" }
    }

    @Test(arguments: Seeds.ofOracles) func `a request ends once, in time, and with its own answer`(seeds: ClosedRange<UInt64>)
        async throws
    {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let seed = world.seed
        var random = SeededGenerator(seed: seed &+ 3000)
        let wire = WireOracle(world)
        let broker = world.broker()
        let responder = try world.client("responder", of: broker) { $0.session = .kept(.seconds(1_000_000)) }
        let asker = try world.client("asker", of: broker) { $0.session = .kept(.seconds(1_000_000)) }
        try await responder.connect()
        try await asker.connect()
        let runs = Runs()
        let responding = Task {
            try await responder.respond(to: Doubling.self, concurrency: 3) { request, _ in
                runs.add(request.number)
                await world.advance(by: .milliseconds(request.number * 13 % 400))
                return request.number * 2
            }
        }
        await world.advance(by: .seconds(1))
        world.faults = .rough
        let outcomes = Runs()
        let asking = (0..<12).map { (number: Int) in
            Task { () async -> Void in
                await world.advance(by: .milliseconds(number * 900))
                let begin = world.now
                let timeout = Duration.seconds(number + 5)
                // A leap of the clock may come in between: then there is no answer.
                let answer = try? await asker.send(Doubling(number: number), timeout: timeout)
                #expect(answer == nil || answer == number * 2, "seed \(seed)")
                outcomes.add(number)
                #expect(world.now - begin <= timeout + .seconds(100), "seed \(seed): \(number) was not in time")
            }
        }
        await world.disturb({ [responder, asker] }, for: .seconds(Int.random(in: 10...60, using: &random)), &random)
        world.heal()
        for task in asking { await task.value }
        #expect(outcomes.counts.values.allSatisfy { $0 == 1 } && outcomes.counts.count == 12, "seed \(seed)")
        #expect(runs.counts.values.allSatisfy { $0 == 1 }, "seed \(seed): a request ran twice")
        await world.advance(by: .seconds(300))
        #expect(try await asker.send(Doubling(number: 21)) == 42, "seed \(seed): in the end all is well")
        #expect(asker.requests.size == .zero, "seed \(seed)")
        #expect(wire.problems == [], "seed \(seed)")
        responding.cancel()
        _ = await responding.result
        await world.advance(by: .seconds(60))
        #expect(broker.subscriptions(of: "responder") == [], "seed \(seed)")
        return wire.fingerprint
    }
}

/// How often something happened.
private final class Runs: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private(set) var counts: [Int: Int] = [:]

    func add(_ number: Int) { counts[number, default: 0] += 1 }
}
