import MartletTesting
import Platform
import TestBasics
import Testing

/// Collections of real clients, kept in step with the real broker through cuts and crashes.
struct LiveCollectionSimulationTests {
    @Test(arguments: Seeds.parts(100, perPart: 25))
    func `after quiet a collection is what the broker retains, and its changes add up to it`(seeds: ClosedRange<UInt64>)
        async throws
    {
        for seed in seeds {
            try await Simulation.run(seed: seed) { world in
                let failure = try await CollectionRun(world).run()
                if let failure { Issue.record("\(failure): \(Seeds.replay(seed))") }
            }
        }
    }

    @Test func `nothing flickers on a reconnect`() async throws {
        try await Simulation.run(seed: 1) { world in
            let broker = world.broker()
            let other = try world.client("other", of: broker)
            try await other.connect()
            for number in 0..<50 {
                try await other.publish("\(number)", to: CollectionRun.topic(number), qos: .atLeastOnce, retain: true)
            }
            let panel = try world.client("panel", of: broker)
            let collection = try panel.collection(of: "t/+")
            try await panel.connect()
            try await collection.ready()
            #expect(world.now < .seconds(1), "the broker tells when it has sent everything")
            var changes = collection.changes.makeAsyncIterator()
            #expect(await changes.next()?.added.count == 50)
            world.cut(panel, afterReceiving: 0)
            try await other.clearRetained("t/7")
            try await other.publish("new", to: "t/8", qos: .atLeastOnce, retain: true)
            let change = try #require(await changes.next())
            #expect(change.removed.map(\.key) == ["t/7"] && change.changed.map(\.key) == ["t/8"] && change.added.isEmpty)
        }
    }

    @Test(arguments: [ProtocolVersion.v5, .v311])
    func `a write without a connection survives the process where there is a store`(version: ProtocolVersion) async throws {
        try await Simulation.run(seed: 3) { world in
            let broker = world.broker()
            let other = try world.client("other", of: broker)
            try await other.connect()
            try await other.publish("old", to: "t/2", qos: .atLeastOnce, retain: true)
            func panel() throws -> Client {
                try world.client("panel", of: broker) {
                    $0.store = world.disk("panel")
                    $0.version = version
                }
            }
            let first = try panel()
            let before = try first.collection(of: "t/+")
            try await before.set("1", at: "t/1")
            try await before.set("2", at: "t/1")
            try await before.remove(at: "t/2")
            world.crash(first)

            let second = try panel()
            let collection = try second.collection(of: "t/+")
            #expect(collection.entries.map { "\($0.key)=\($0.value) \($0.state)" } == ["t/1=2 pending"])
            var changes = collection.changes.makeAsyncIterator()
            #expect(await changes.next()?.added.map(\.state) == [.pending])
            try await second.connect()
            try await collection.ready()
            await world.advance(by: .seconds(60))
            #expect(broker.retained.filter { $0.topic == "t/1" || $0.topic == "t/2" }.map(\.payload) == ["2"])
            #expect(collection.entries.map { "\($0.key)=\($0.value) \($0.state)" } == ["t/1=2 confirmed"])
            #expect(try await second.outbox.open().isEmpty)
            // Not once more.
            world.crash(second)
            let third = try panel().collection(of: "t/+")
            #expect(third.entries.map(\.state) == [.stored])
            #expect(broker.published.filter { $0.topic == "t/1" }.map(\.payload) == ["1", "2"])
        }
    }

    @Test func `a stored write that the server refuses in a later run is taken back there`() async throws {
        try await Simulation.run(seed: 4) { world in
            let broker = world.broker()
            func panel() throws -> Client { try world.client("panel", of: broker) { $0.store = world.disk("panel") } }
            let first = try panel()
            // No server lets its own topics be written.
            try await first.collection(of: "$SYS/t/+").set("1", at: "$SYS/t/1")
            world.crash(first)
            let second = try panel()
            let collection = try second.collection(of: "$SYS/t/+")
            #expect(collection.entries.map(\.state) == [.pending])
            try await second.connect()
            await world.advance(by: .seconds(60))
            #expect(collection.entries.isEmpty)
        }
    }

    @Test func `changes of an entry that tasks make at the same time are all made, also by way of the store`() async throws {
        try await Simulation.run(seed: 6) { world in
            let broker = world.broker()
            let panel = try world.client("panel", of: broker) { $0.store = world.disk("panel") }
            let collection = try panel.collection(of: "t/+")
            try await collection.set("0", at: "t/1")
            try collection.setLocal("own", at: "t/2")
            try await withThrowingTaskGroup { group in
                for _ in 1...20 {
                    group.addTask { try await collection.update(at: "t/1") { $0 = "\((Int($0.text ?? "") ?? 0) + 1)" } }
                }
                try await group.waitForAll()
            }
            #expect(collection["t/1"]?.value == "20")
            try await panel.connect()
            await world.advance(by: .seconds(60))
            #expect(collection.entries.map { "\($0.key)=\($0.value) \($0.state)" } == ["t/1=20 confirmed", "t/2=own local"])
            #expect(broker.retained.filter { $0.topic == "t/1" || $0.topic == "t/2" }.map(\.payload) == ["20"])
            world.crash(panel)
            let next = try world.client("panel", of: broker) { $0.store = world.disk("panel") }.collection(of: "t/+")
            #expect(next.entries.map(\.state) == [.stored], "what is the program's own is not stored")
        }
    }

    @Test(arguments: [false, true])
    func `a change between which another one comes is made once more, to what is shown then`(isStored: Bool) async throws {
        try await Simulation.run(seed: 7) { world in
            let broker = world.broker()
            let panel = try world.client("panel", of: broker) {
                if isStored { $0.store = world.disk("panel") }
            }
            let collection = try panel.collection(of: "t/+")
            try collection.setLocal("1", at: "t/1")
            var times = 0
            try await collection.update(at: "t/1") { value in
                times += 1
                value = "\((Int(value.text ?? "") ?? 0) + 1)"
                if times == 1 { try? collection.setLocal("10", at: "t/1") }
            }
            #expect(times == 2)
            #expect(collection["t/1"]?.value == "11")
        }
    }

    @Test func `a client that ends before it has sent a write says so, and the write is still to be sent`() async throws {
        try await Simulation.run(seed: 5) { world in
            let broker = world.broker()
            func write() async throws -> CollectionWrite {
                let panel = try world.client("panel", of: broker) { $0.store = world.disk("panel") }
                return try await panel.collection(of: "t/+").set("1", at: "t/1")
            }
            let write = try await write()
            await #expect(throws: ClientError.ended) { try await write.confirmed() }
            #expect(world.stored(in: "outbox", on: "panel").count == 1)
        }
    }
}

/// One run: two clients that write, a collection that follows, and what breaks meanwhile. On the simulation's thread.
private final class CollectionRun: @unchecked Sendable {
    private let world: Simulation
    private let broker: Simulation.Broker
    private let other: Client
    private let panel: Client
    private let collection: LiveCollection<Payload, TopicName>
    private var random: SeededGenerator
    private var folded: [TopicName: String] = [:]
    private var undecided = 0
    private var failure: String?
    private let isPersistent: Bool

    static func topic(_ number: Int) -> TopicName { TopicName("t/\(number)") ?? "t" }

    init(_ world: Simulation) throws {
        self.world = world
        random = SeededGenerator(seed: world.seed)
        isPersistent = random.oneIn(2)
        broker = world.broker(shards: 1 + random.below(3), isPersistent: isPersistent)
        let (isKept, isEarly) = (random.oneIn(2), random.oneIn(2))
        func settings(_ settings: inout ClientSettings) {
            if isKept { settings.session = .kept(.seconds(3600)) }
            settings.keepAlive = .seconds(10)
        }
        other = try world.client("other", of: broker) { $0.session = .kept(.seconds(3600)) }
        panel = try world.client("panel", of: broker, settings)
        var terms = CollectionSettings()
        // Longer than it takes to notice that a connection is dead.
        terms.echoPatience = .seconds(60)
        if random.oneIn(2) { terms.resynchronize = .whenSessionLost }
        if !isEarly { panel.start() }
        collection = try panel.collection(of: "t/+", terms)
        panel.start()
        other.start()
        if random.oneIn(2) { world.faults = .rough }
    }

    func run() async throws -> String? {
        let following = Task { await follow() }
        for _ in 0..<30 {
            step()
            if random.oneIn(2) { await world.advance(by: .milliseconds(random.below(400))) }
        }
        world.heal()
        await world.advance(by: .seconds(600))
        await world.settle()
        check()
        following.cancel()
        await following.value
        return failure
    }

    private func step() {
        let topic = Self.topic(random.below(8))
        let payload: Payload = random.oneIn(4) ? "" : "\(random.below(100))"
        switch random.below(9) {
        case 0: world.cut(panel, afterBytes: random.below(200))
        case 1: world.cut(panel, afterReceiving: random.below(400))
        case 2: if random.oneIn(3) { world.cut(other, afterBytes: random.below(100)) }
        case 3: if isPersistent, random.oneIn(4) { broker.crash(for: .milliseconds(random.below(3000))) }
        case 4, 5: write(topic, payload)
        case 6: publish(Publication(topic, "passing", qos: .atLeastOnce))
        default: publish(Publication(topic, payload, qos: random.oneIn(2) ? .atLeastOnce : .exactlyOnce, retain: true))
        }
    }

    private func publish(_ publication: Publication) {
        undecided += 1
        Task {
            _ = try? await other.publish(publication)
            undecided -= 1
        }
    }

    private func write(_ topic: TopicName, _ payload: Payload) {
        undecided += 1
        Task {
            let write = try await (payload.isEmpty ? collection.remove(at: topic) : collection.set(payload, at: topic))
            do throws(ClientError) { try await write.confirmed() } catch {
                failure = failure ?? "a write to \(topic): \(error)"
            }
            undecided -= 1
        }
    }

    private func follow() async {
        for await change in collection.changes {
            for entry in change.added {
                if folded.updateValue("\(entry.value)", forKey: entry.key) != nil {
                    failure = failure ?? "\(entry.key) added twice"
                }
            }
            for entry in change.changed {
                let old = folded.updateValue("\(entry.value)", forKey: entry.key)
                if old != entry.old.map({ "\($0)" }) { failure = failure ?? "\(entry.key) was \(old ?? "nothing")" }
            }
            for entry in change.removed where folded.removeValue(forKey: entry.key) == nil {
                failure = failure ?? "\(entry.key) removed twice"
            }
        }
    }

    private func check() {
        let retained = Dictionary(
            uniqueKeysWithValues: broker.retained.filter { "\($0.topic)".hasPrefix("t/") }.map { ($0.topic, "\($0.payload)") })
        let entries = collection.entries
        if undecided > 0 { failure = failure ?? "\(undecided) messages are undecided" }
        if Dictionary(uniqueKeysWithValues: entries.map { ($0.key, "\($0.value)") }) != retained {
            failure = failure ?? "shows \(entries.map { "\($0.key)=\($0.value)" }), the broker has \(retained)"
        }
        if !entries.allSatisfy({ $0.state == .confirmed }) { failure = failure ?? "something is not confirmed" }
        if folded != retained { failure = failure ?? "the changes add up to \(folded), the broker has \(retained)" }
    }
}
