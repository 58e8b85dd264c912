import MartletTesting
import TestBasics
import Testing

/// A client whose messages wait on a disk crashes again and again.
@Suite(.serialized) struct SpillSeedTests {
    @Test(arguments: Seeds.ofOracles) func `what was acknowledged to the server and not taken comes after a crash, in order`(
        seeds: ClosedRange<UInt64>
    ) async throws {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let seed = world.seed
        var random = SeededGenerator(seed: seed &+ 6000)
        let wire = WireOracle(world)
        let broker = world.broker(isPersistent: random.oneIn(2), receiveMaximum: UInt16.random(in: 1...20, using: &random))
        let publisher = try world.client("publisher", of: broker) { $0.session = .kept(.seconds(1_000_000)) }
        var life = try SpillLife(world, broker)
        try await life.messages.granted()
        world.faults = .rough
        publisher.start()
        let sent = Sent()
        let publishing = Task {
            for number in 0..<30 {
                let qos: QoS = number.isMultiple(of: 2) ? .atLeastOnce : .exactlyOnce
                guard let topic = TopicName("t/\(qos.rawValue)") else { continue }
                try await publisher.publish(Payload("\(number)"), to: topic, qos: qos)
                sent.all.append((topic.description, "\(number)", .atLeastOnce))
                await world.advance(by: .milliseconds(number * 70 % 900))
            }
        }
        var got: [(topic: String, payload: String)] = []
        wire.mayAnswer = { [unowned world] client, message in
            guard client == "receiver" else { return true }
            let payload = String(decoding: message.payload, as: UTF8.self)
            return world.isReceiptStored(message, on: "receiver")
                && (world.isStored(message, in: "spill", on: "receiver") || (got + life.got).contains { $0.payload == payload })
        }
        for _ in 0..<Int.random(in: 2...4, using: &random) {
            life.consume(pause: .milliseconds(random.below(1500)))
            await world.disturb(
                { [life] in [publisher, life.client] }, for: .seconds(Int.random(in: 0...20, using: &random)), &random)
            got += life.crash()
            // Its messages may come before anybody has said who wants them.
            life = try SpillLife(world, broker, wait: random.oneIn(2) ? .milliseconds(random.below(3000)) : nil)
        }
        life.consume(pause: .zero)
        await world.advance(by: .seconds(30))
        world.heal()
        try await world.end(of: [publishing])
        await world.advance(by: .seconds(300))
        #expect(life.messages.waitingCount == 0, "seed \(seed)")
        got += life.crash()
        #expect(sent.all.count == 30, "seed \(seed)")
        #expect(ArrivalOracle(expected: sent.all).problems(in: got) == [], "seed \(seed)")
        #expect(wire.problems == [], "seed \(seed)")
        #expect(wire.unanswered == [], "seed \(seed)")
        let last = try SpillLife(world, broker)
        last.consume(pause: .zero)
        await world.advance(by: .seconds(60))
        #expect(last.crash().isEmpty, "seed \(seed): what was taken came again")
        return wire.fingerprint
    }
}

/// One life of the client. On the simulation's thread.
private final class SpillLife: @unchecked Sendable {
    let client: Client
    private(set) lazy var messages = client.messages("t/#", SubscriptionSettings(backlog: .spill, acknowledging: .whenDone))
    private let world: Simulation
    private(set) var got: [(topic: String, payload: String)] = []
    private var task: Task<Void, any Error>?
    private var wait: Duration?

    /// - Parameter wait: how long it is connected before it subscribes; nil if it subscribes before.
    init(_ world: Simulation, _ broker: Simulation.Broker, wait: Duration? = nil) throws {
        (self.world, self.wait) = (world, wait)
        client = try world.client("receiver", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.store = world.disk("receiver")
        }
        if wait == nil { _ = messages }
        client.start()
    }

    func consume(pause: Duration) {
        task = Task {
            if let wait { await world.advance(by: wait) }
            for try await message in messages {
                await world.advance(by: pause)
                if Task.isCancelled { return }
                got.append((message.topic.description, "\(message.payload)"))
                message.done()
            }
        }
    }

    /// Returns what it has done with.
    func crash() -> [(topic: String, payload: String)] {
        // First the crash: who leaves in order takes what waits with it.
        world.crash(client)
        task?.cancel()
        return got
    }
}
