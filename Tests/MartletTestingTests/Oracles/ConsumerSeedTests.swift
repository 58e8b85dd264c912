import MartletTesting
import TestBasics
import Testing

@testable import MartletClient

/// Consumers that publish, ask another service and stop reading, all of one client, over a bad network: nothing that it
/// waits for stands behind what waits for them, and what waits keeps its bounds.
@Suite(.serialized) struct ConsumerSeedTests {
    @Test(arguments: Seeds.ofOracles) func `consumers that publish, ask and stop reading get all, and hold up nobody`(
        seeds: ClosedRange<UInt64>
    ) async throws {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let run = try ConsumerRun(world)
        let problems = try await run.run()
        #expect(problems == [], "\(Seeds.replay(world.seed))")
        return run.wire.fingerprint
    }
}

/// One run. On the simulation's thread.
private final class ConsumerRun: @unchecked Sendable {
    private typealias Doubling = ConsumerSimulationTests.Doubling

    private let world: Simulation
    let wire: WireOracle
    private var random: SeededGenerator
    private var problems: [String] = []
    private let broker: Simulation.Broker
    private let worker: Client
    private let service: Client
    private let sender: Client
    /// What the consumers get, in this order: one that publishes, one that asks, one that stops.
    private let subscriptions: [Subscription]
    private let (sent, got) = (Sent(), Got())
    private var isStopped = true

    private struct Subscription {
        let messages: Messages
        let most: Int
    }

    init(_ world: Simulation) throws {
        self.world = world
        wire = WireOracle(world)
        var seeded = SeededGenerator(seed: world.seed &+ 9000)
        let broker = world.broker(isPersistent: seeded.oneIn(2), receiveMaximum: UInt16.random(in: 1...30, using: &seeded))
        func client(_ name: String) throws -> Client {
            try world.client(name, of: broker) {
                $0.session = .kept(.seconds(1_000_000))
                $0.offlineAtMostOnce = .drop
                $0.keepAlive = .seconds([2, 60].randomElement(using: &seeded) ?? 60)
                $0.receiveMaximum = UInt16.random(in: 1...30, using: &seeded)
            }
        }
        let worker = try client("worker")
        (self.broker, self.worker, service, sender) = (broker, worker, try client("service"), try client("sender"))
        var subscriptions: [Subscription] = []
        for filter: TopicFilter in ["publish/#", "ask/#", "stop/#"] {
            let most = Int.random(in: 1...20, using: &seeded)
            let settings = SubscriptionSettings(backlog: .hold(most), acknowledging: seeded.oneIn(2) ? .whenTaken : .whenDone)
            subscriptions.append(Subscription(messages: worker.messages(filter, settings), most: most))
        }
        self.subscriptions = subscriptions
        random = seeded
    }

    func run() async throws -> [String] {
        for client in [worker, service, sender] { client.start() }
        for subscription in subscriptions { try await subscription.messages.granted() }
        let responding = Task { try await service.respond(to: Doubling.self) { request, _ in request.number * 2 } }
        await world.advance(by: .seconds(1))
        world.watcher = { [unowned self] in look() }
        world.faults = .rough
        let consumers = [Task { try await publish() }, Task { try await ask() }, Task { try await stop() }]
        let senders = (0..<3).map { number in
            Task { try await send(number, SeededGenerator(seed: world.seed &* 3 &+ UInt64(number))) }
        }
        await world.disturb({ [worker, service, sender] }, for: .seconds(Int.random(in: 20...120, using: &random)), &random)
        world.heal()
        await world.advance(by: .seconds(120))
        try await checkWhileStopped()
        isStopped = false
        try await world.end(of: senders)
        await world.advance(by: .seconds(600))
        checkAtRest()
        world.watcher = nil
        for consumer in consumers + [responding] {
            consumer.cancel()
            _ = await consumer.result
        }
        return problems + wire.problems
    }

    // MARK: Consumers

    /// Publishes each message that it gets.
    private func publish() async throws {
        for try await message in subscriptions[0].messages {
            got.all.append(("\(message.topic)", "\(message.payload)"))
            try await worker.publish(message.payload, to: "published", qos: message.qos)
            message.done()
        }
    }

    /// Asks for each message that it gets. On a bad network there may be no answer, but an end.
    private func ask() async throws {
        for try await message in subscriptions[1].messages {
            got.all.append(("\(message.topic)", "\(message.payload)"))
            let answer = try? await worker.send(Doubling(number: 21), timeout: .seconds(10))
            if let answer, answer != 42 { add("answered \(answer)") }
            message.done()
        }
    }

    /// Reads nothing, but now and then one, until it is told.
    private func stop() async throws {
        for try await message in subscriptions[2].messages {
            got.all.append(("\(message.topic)", "\(message.payload)"))
            while isStopped, world.now < .seconds(100_000) { await world.advance(by: .seconds(5)) }
            message.done()
        }
    }

    private func send(_ number: Int, _ seeded: SeededGenerator) async throws {
        var random = seeded
        let names = ["publish", "ask", "stop"]
        for message in 0..<40 {
            // Those who stop get only what nothing keeps back, or the others would wait for them, by the standard's own
            // rule.
            let kind = random.below(3)
            let qos: QoS = kind == 2 ? .atMostOnce : [.atMostOnce, .atLeastOnce, .exactlyOnce][random.below(3)]
            guard let topic = TopicName("\(names[kind])/\(number)/\(qos.rawValue)") else { continue }
            try await sender.publish(Payload("\(message)"), to: topic, qos: qos)
            if qos > .atMostOnce { sent.all.append(("\(topic)", "\(message)", qos)) }
            if random.oneIn(4) { await world.advance(by: .milliseconds(random.below(4000))) }
        }
    }

    // MARK: What must be so

    /// After each step.
    private func look() {
        for subscription in subscriptions {
            let waiting = subscription.messages.waitingCount
            if waiting > subscription.most + Int(worker.settings.receiveMaximum) {
                add("\(waiting) messages wait, where \(subscription.most) may")
            }
        }
    }

    /// One consumer stands still, and the network is well: everything else goes on.
    private func checkWhileStopped() async throws {
        let begin = world.now
        if !worker.state.isOnline { add("\(worker.state), long after the faults") }
        try await worker.messages("new/#").granted()
        try await worker.publish("1", to: "new/1", qos: .exactlyOnce)
        let answer = try? await worker.send(Doubling(number: 4), timeout: .seconds(10))
        if answer != 8 { add("the answer is \(answer.map { "\($0)" } ?? "none") while a consumer stands still") }
        if world.now - begin > .seconds(10) { add("that took \(world.now - begin)") }
    }

    private func checkAtRest() {
        problems += ArrivalOracle(expected: sent.all).problems(in: got.all, others: true)
        let published = Set(broker.published("published").map { "\($0.payload)" })
        for message in sent.all where message.topic.hasPrefix("publish") && !published.contains(message.payload) {
            add("\(message) was not passed on")
        }
        for subscription in subscriptions where subscription.messages.waitingCount > 0 {
            add("\(subscription.messages.waitingCount) messages wait at rest")
        }
        let dropped = subscriptions.reduce(0) { $0 + $1.messages.droppedCount }
        if worker.dropped != DroppedMessages.Counts(backlogFull: dropped) { add("\(worker.dropped), by subscriptions \(dropped)") }
        if !worker.state.heldBy.isEmpty { add("\(worker.state) at rest") }
        if worker.requests.count > 0 { add("\(worker.requests.count) requests have not ended") }
    }

    private func add(_ problem: String) {
        if problems.count < 5 { problems.append("\(world.now): \(problem)") }
    }
}
