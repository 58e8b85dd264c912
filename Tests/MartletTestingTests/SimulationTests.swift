import MartletTesting
import TestBasics
import Testing

@testable import MartletClient

/// The simulation itself.
struct SimulationTests {
    @Test(arguments: 0..<20 as Range<UInt64>) func `a message survives a cut in the middle of its packet`(seed: UInt64) async throws
    {
        try await Simulation.run(seed: seed) { world in
            let broker = world.broker()
            let shop = try world.client("shop", of: broker) { $0.session = .kept(.seconds(3600)) }
            try await shop.connect()
            world.cut(shop, afterBytes: 19)
            try await shop.publish("3", to: "shop/a/order", qos: .exactlyOnce)
            #expect(broker.published("shop/a/order").count == 1)
            #expect(world.now >= .milliseconds(500), "it has waited before it connected again")
            #expect(broker.subscriptions(of: "shop").isEmpty)
        }
    }

    @Test func `one seed is one run, and another seed another one`() async throws {
        func trace(_ seed: UInt64) async throws -> [String] {
            let lines = Lines()
            try await Simulation.run(seed: seed) { world in
                world.faults = .rough
                let broker = world.broker(shards: 2)
                await withTaskGroup(of: Void.self) { group in
                    for number in 0..<5 {
                        group.addTask {
                            guard let client = try? world.client("c\(number)", of: broker) else { return }
                            client.start()
                            for message in 0..<5 {
                                _ = try? await client.publish(Payload("\(message)"), to: "t", qos: .atLeastOnce)
                                lines.append("\(world.now) \(number) \(message)")
                            }
                        }
                    }
                }
            }
            return lines.all
        }
        let first = try await trace(7)
        #expect(first.count == 25)
        #expect(try await trace(7) == first)
        #expect(try await trace(8) != first)
    }

    @Test func `tasks of all kinds run in the simulation, and its clock moves while they wait`() async throws {
        try await Simulation.run(seed: 1) { world in
            let lines = Lines()
            let task = Task {
                lines.append("begins")
                try? await world.clock.sleep(for: .seconds(3600))
                lines.append("ends at \(world.now)")
            }
            await world.advance(by: .seconds(10))
            lines.append("waited")
            await task.value
            #expect(lines.all == ["begins", "waited", "ends at 3600.0 seconds"])
            let sleeper = Task { try await world.clock.sleep(for: .seconds(1_000_000)) }
            await world.settle()
            sleeper.cancel()
            await #expect(throws: CancellationError.self) { try await sleeper.value }
            #expect(world.now == .seconds(3600))
        }
    }

    @Test func `a body that waits for what never comes is told so`() async throws {
        await #expect(throws: SimulationError.self) {
            try await Simulation.run(seed: 1) { _ in
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            }
        }
    }

    @Test func `a crashed client leaves its will, and its successor the session`() async throws {
        try await Simulation.run(seed: 3) { world in
            let broker = world.broker()
            let watcher = try world.client("watcher", of: broker)
            let wills = watcher.messages("will")
            try await watcher.connect()
            try await wills.granted()
            let panel = try world.client("panel", of: broker) {
                $0.session = .kept(.seconds(3600))
                $0.will = Will(topic: "will", payload: [1])
            }
            let messages = panel.messages("a")
            try await panel.connect()
            try await messages.granted()
            world.crash(panel)
            for try await will in wills {
                #expect(will.payload == [1])
                break
            }
            #expect(broker.clients == ["watcher"])
            try await watcher.publish("1", to: "a", qos: .atLeastOnce)
            let again = try world.client("panel", of: broker) { $0.session = .kept(.seconds(3600)) }
            let rest = again.messages("a")
            try await again.connect()
            for try await message in rest {
                #expect(message.payload == "1")
                break
            }
        }
    }

    @Test func `a broker that crashes forgets what its store had not committed, and all without one`() async throws {
        try await Simulation.run(seed: 4) { world in
            let (kept, forgetful) = (world.broker(isPersistent: true), world.broker())
            for broker in [kept, forgetful] {
                let client = try world.client("c", of: broker)
                try await client.connect()
                try await client.publish("1", to: "a", qos: .atLeastOnce, retain: true)
                broker.crash(for: .seconds(5))
                #expect(broker.retained.count == (broker === kept ? 1 : 0))
                #expect(broker.clients.isEmpty)
                await world.advance(by: .seconds(60))
                #expect(broker.clients == ["c"])
            }
        }
    }

    @Test
    func `the CONNECT of an attempt that was given up takes the session over when it comes late, and the client connects again`()
        async throws
    {
        try await Simulation.run(seed: 6) { world in
            let broker = world.broker()
            let client = try world.client("c", of: broker)
            world.faults.delayMilliseconds = 15_000...15_000
            client.start()
            await world.advance(by: .seconds(9))
            world.faults.delayMilliseconds = 1...1
            await world.advance(by: .seconds(5))
            #expect(client.state.isOnline, "the second attempt")
            await world.advance(by: .seconds(30))
            guard case .online(let facts) = client.state else { return #expect(Bool(false), "\(client.state)") }
            #expect(facts.connectionNumber == 2)
            #expect(broker.clients == ["c"])
            // Another client is another matter.
            let other = try world.client("c", of: broker)
            try await other.connect()
            await world.advance(by: .seconds(300))
            #expect(other.state.isOnline)
            guard case .refused(.refused(.sessionTakenOver, _, _)) = client.state else {
                return #expect(Bool(false), "\(client.state)")
            }
        }
    }

    @Test func `a filter that is named twice is answered twice`() async throws {
        try await Simulation.run(seed: 6) { world in
            let client = try world.client("c", of: world.broker())
            let messages = client.messages(["a", "a", "b"], SubscriptionSettings())
            try await client.connect()
            #expect(try await messages.granted() == [.grantedQoS2, .grantedQoS2, .grantedQoS2])
        }
    }

    @Test func `calls of enqueue that wait for room are forgotten when they are cancelled`() async throws {
        try await Simulation.run(seed: 7) { world in
            let client = try world.client("c", of: world.broker()) {
                $0.store = world.disk("c")
                $0.outbox = ClientSettings.QueueLimits(messages: 1, whenFull: .wait)
            }
            _ = try await client.enqueue("first", to: "t")
            let tasks = (0..<100).map { number in Task { try await client.enqueue(Payload("\(number)"), to: "t") } }
            await world.settle()
            #expect(client.size.blockedEnqueues == 100)
            for task in tasks[..<99] { task.cancel() }
            await world.settle()
            #expect(client.size.blockedEnqueues <= 2)
            try await client.connect()
            try await tasks[99].value.arrival()
            #expect(client.size.blockedEnqueues == 0)
        }
    }

    @Test func `a server that answers no SUBSCRIBE is left after the time of the settings, and named`() async throws {
        try await Simulation.run(seed: 5) { world in
            let client = try world.client("c", of: world.broker()) {
                ($0.keepAlive, $0.subscribeTimeout) = (.zero, .seconds(5))
            }
            try await client.connect()
            world.stall(client)
            let messages = client.messages("t")
            await world.advance(by: .seconds(4))
            #expect(client.state.isOnline)
            for await state in client.states {
                guard case .waiting(_, let error) = state else { continue }
                #expect("\(error)" == "simulated broker: it answers no SUBSCRIBE or UNSUBSCRIBE within 5.0 seconds")
                break
            }
            #expect(world.now < .seconds(8))
            try await messages.granted()
        }
    }

    @Test(.timeLimit(.minutes(10))) func `what a body leaves behind ends with it, and nothing of its world stays in memory`()
        async throws
    {
        let ends = Lines()
        let left = Remains()
        try await Simulation.run(seed: 8) { world in
            world.faults = .rough
            world.faults.commitMilliseconds = 1000...1000
            let broker = world.broker(isPersistent: true)
            let client = try world.client("c", of: broker) { $0.store = world.disk("c") }
            let other = try world.client("d", of: broker) { $0.session = .kept(.seconds(1000)) }
            (left.world, left.client, left.broker) = (world, client, broker)
            other.start()
            let messages = other.messages("t")
            func leave(_ name: String, _ wait: @escaping @Sendable () async throws -> Void) {
                Task {
                    do { try await wait() } catch { ends.append("\(name): \(error)") }
                }
            }
            leave("sleep") { try await world.clock.sleep(for: .seconds(1_000_000)) }
            leave("publish") { try await other.publish("1", to: "t", qos: .exactlyOnce) }
            leave("messages") {
                for try await _ in messages {}
                throw ClientError.ended
            }
            await world.advance(by: .milliseconds(100))
            // Of a process that has crashed, and in the middle of a commit.
            leave("enqueue") { try await client.enqueue("1", to: "t").arrival() }
            leave("connect") { try await client.connect() }
            await world.settle()
            world.crash(client)
        }
        #expect(
            ends.all.sorted() == [
                "connect: the client was ended", "enqueue: the client was ended", "messages: the client was ended",
                "publish: the client was ended", "sleep: CancellationError()",
            ])
        // The simulation's thread has it for a moment longer.
        while left.world != nil || left.client != nil || left.broker != nil { await Task.yield() }
    }

    /// What a simulation has left, if it is there.
    final class Remains: @unchecked Sendable {
        // Unchecked: a simulation's tasks run on one thread.
        weak var world: Simulation?
        weak var client: Client?
        weak var broker: Simulation.Broker?
    }

    @Test func `a stalled connection is noticed by its keep alive`() async throws {
        try await Simulation.run(seed: 5) { world in
            let broker = world.broker()
            let client = try world.client("c", of: broker) { $0.keepAlive = .seconds(10) }
            try await client.connect()
            world.stall(client)
            await world.advance(by: .seconds(60))
            #expect(client.state.isOnline)
            guard case .online(let facts) = client.state else { return }
            #expect(facts.connectionNumber == 2)
        }
    }
}

/// What tasks have noted, in order.
final class Lines: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    private(set) var all: [String] = []

    func append(_ line: String) { all.append(line) }
}

@Suite struct NetworkFaultsTests {
    @Test func `delays are durations`() {
        var faults = NetworkFaults()
        #expect(faults.delay == .milliseconds(1) ... .milliseconds(1) && faults.commitDelay == .zero ... .zero)
        faults.delay = .zero ... .seconds(2)
        faults.commitDelay = .milliseconds(3) ... .seconds(1)
        #expect(faults.delayMilliseconds == 0...2000 && faults.commitMilliseconds == 3...1000)
        #expect(faults.delay == .zero ... .seconds(2))
    }
}
