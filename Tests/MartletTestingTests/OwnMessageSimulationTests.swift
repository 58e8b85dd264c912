import MartletTesting
import TestBasics
import Testing

/// One's own messages in an inbox, with the real broker.
@Suite(.timeLimit(.minutes(10))) struct OwnMessageSimulationTests {
    private func client(
        _ world: Simulation, _ broker: Simulation.Broker, _ version: ProtocolVersion, _ name: String = "anna"
    ) throws -> Client {
        try world.client(name, of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.store = world.disk(name)
            $0.version = version
        }
    }

    private func inbox(_ client: Client, keeping limits: InboxLimits = InboxLimits()) throws -> Inbox<Payload> {
        try client.inbox("chat", of: "rooms/+", keeping: limits)
    }

    @Test(arguments: [ProtocolVersion.v5, .v311])
    func `one's own message is in its conversation at once, not unread, and once, with its delivery, also after a crash`(
        version: ProtocolVersion
    ) async throws {
        try await Simulation.run(seed: 7) { world in
            let broker = world.broker()
            let first = try client(world, broker, version)
            let before = try inbox(first)
            let item = try await before.send("hi", to: "rooms/lobby")
            #expect(item.number == 1 && item.conversation == "rooms/lobby" && item.isOwn)
            #expect(item.delivery?.status == .queued(ahead: 0) && item.sentAt == item.arrivedAt)
            #expect(try await before.conversations(limit: 9).map(\.last.payload) == ["hi"])
            #expect(before.unread == 0)
            world.crash(first)

            let second = try client(world, broker, version)
            let box = try inbox(second)
            let waiting = try await box.messages(in: "rooms/lobby", limit: 9)
            #expect(waiting.map(\.payload) == ["hi"])
            let delivery = try #require(waiting.first?.delivery)
            #expect(delivery.id == item.delivery?.id && !delivery.status.isFinal)
            try await second.connect()
            try await delivery.arrival()
            // It comes back, and is known.
            await world.advance(by: .seconds(30))
            let other = try world.client("ben", of: broker)
            try await other.connect()
            try await other.publish("hi", to: "rooms/lobby", qos: .atLeastOnce)
            await world.advance(by: .seconds(30))
            let all = try await box.messages(in: "rooms/lobby", limit: 9)
            #expect(all.map(\.isOwn) == [false, true], "the same words of another's are another message")
            #expect(all.last?.delivery?.status == .acknowledged)
            #expect(box.unread == 1)
            world.crash(second)

            let last = try client(world, broker, version)
            let third = try inbox(last)
            #expect(try await third.messages(in: "rooms/lobby", limit: 9).map { $0.delivery?.status } == [nil, .acknowledged])
            #expect(third.unread == 1)
            withExtendedLifetime(last) {}
            #expect(broker.published.filter { $0.topic == "rooms/lobby" }.count == 2)
        }
    }

    @Test func `whoever gets a message learns when it was sent`() async throws {
        try await Simulation.run(seed: 8) { world in
            let broker = world.broker()
            let (anna, ben) = (try client(world, broker, .v5), try client(world, broker, .v5, "ben"))
            let (from, to) = (try inbox(anna), try inbox(ben))
            try await ben.connect()
            try await to.granted()
            let sent = try await from.send("hi", to: "rooms/lobby")
            await world.advance(by: .seconds(100))
            try await anna.connect()
            await world.advance(by: .seconds(30))
            let got = try #require(try await to.messages(in: "rooms/lobby", limit: 9).first)
            #expect(got.sentAt == sent.arrivedAt && got.arrivedAt >= sent.arrivedAt + .seconds(100) && !got.isOwn)
        }
    }

    @Test func `a refused message says so in its conversation, also in a later run`() async throws {
        try await Simulation.run(seed: 9) { world in
            let broker = world.broker()
            let first = try client(world, broker, .v5)
            let before = try first.inbox("chat", of: "$SYS/chat/+")
            let item = try await before.send("hi", to: "$SYS/chat/1")
            try await first.connect()
            await world.advance(by: .seconds(30))
            guard case .failed(.refused) = item.delivery?.status else {
                Issue.record("it is \(String(describing: item.delivery?.status))")
                return
            }
            await first.disconnect()
            world.crash(first)
            let second = try client(world, broker, .v5)
            let again = try second.inbox("chat", of: "$SYS/chat/+")
            #expect(try await again.messages(in: "$SYS/chat/1", limit: 9).map { $0.delivery?.status } == [item.delivery?.status])
            withExtendedLifetime(second) {}
        }
    }

    @Test func `messages and conversations are removed, and what is too old or too much goes by itself`() async throws {
        try await Simulation.run(seed: 10) { world in
            let broker = world.broker()
            let anna = try client(world, broker, .v5)
            let box = try inbox(anna, keeping: InboxLimits(messages: 5, age: .seconds(1000)))
            for number in 1...3 { try await box.send(Payload("\(number)"), to: "rooms/a") }
            try await box.send("4", to: "rooms/b")
            try await box.remove("rooms/a", 3...3)
            #expect(try await box.conversations(limit: 9).map(\.last.payload) == ["4", "2"])
            try await box.remove("rooms/b")
            #expect(try await box.conversations(limit: 9).map(\.key) == ["rooms/a"])
            #expect(try await anna.outbox.open().count == 4, "they are sent all the same")
            for number in 5...8 { try await box.send(Payload("\(number)"), to: "rooms/c") }
            await world.advance(by: .seconds(10))
            #expect(try await box.messages(in: "rooms/a", limit: 9).map(\.payload) == ["2"])
            await world.advance(by: .seconds(1000))
            #expect(try await box.conversations(limit: 9).isEmpty)
            for table in ["inbox", "own", "recent", "conversation"] {
                #expect(world.stored(in: table, on: "anna").isEmpty, "\(table)")
            }
        }
    }

    @Test(arguments: Seeds.parts(20, perPart: 5))
    func `two who write to one another have each message once, whatever crashes`(seeds: ClosedRange<UInt64>) async throws {
        for seed in seeds { try await Simulation.run(seed: seed) { try await play($0) } }
    }

    private func play(_ world: Simulation) async throws {
        var random = SeededGenerator(seed: world.seed &+ 6000)
        let broker = world.broker(isPersistent: true)
        let version = random.oneIn(3) ? ProtocolVersion.v311 : .v5
        // The server knows both before the first message.
        for name in ["anna", "ben"] {
            let client = try client(world, broker, version, name)
            let box = try inbox(client)
            try await client.connect()
            try await box.granted()
            world.crash(client)
        }
        world.faults = .rough
        let sent = Texts()
        for life in 0..<Int.random(in: 2...4, using: &random) {
            let clients = try ["anna", "ben"].map { ($0, try client(world, broker, version, $0)) }
            for (name, client) in clients {
                let box = try inbox(client)
                client.start()
                let pauses = (0..<6).map { _ in Duration.milliseconds(random.below(1500)) }
                // Waits for ever when its client crashes.
                Task {
                    for (number, pause) in pauses.enumerated() {
                        let text = "\(name) \(life) \(number)"
                        try await box.send(Payload(text), to: number % 2 == 0 ? "rooms/a" : "rooms/b", qos: .exactlyOnce)
                        sent.all.insert(text)
                        await world.advance(by: pause)
                    }
                }
            }
            await world.disturb({ clients.map(\.1) }, for: .seconds(Int.random(in: 0...20, using: &random)), &random)
            for (_, client) in clients { world.crash(client) }
        }
        var boxes: [(String, Client, Inbox<Payload>)] = []
        for name in ["anna", "ben"] {
            let client = try client(world, broker, version, name)
            boxes.append((name, client, try inbox(client)))
            client.start()
        }
        await world.advance(by: .seconds(20))
        world.heal()
        await world.advance(by: .seconds(600))
        for (name, _, box) in boxes {
            var texts: [String] = []
            for room in try await box.conversations(limit: 9) {
                let items = try await box.messages(in: room.key, limit: 1000)
                texts += items.map { "\($0.payload)" }
                if room.last.number != items.first?.number { Issue.record("\(Seeds.replay(world.seed)): the last of \(room.key)") }
                for item in items where item.isOwn != "\(item.payload)".hasPrefix(name) {
                    Issue.record("\(Seeds.replay(world.seed)): \(item.payload) is \(item.isOwn ? "" : "not ")own of \(name)")
                }
                for item in items where item.isOwn && item.delivery?.status != .acknowledged {
                    Issue.record("\(Seeds.replay(world.seed)): \(item.payload) is \(String(describing: item.delivery?.status))")
                }
                if room.unread > items.filter({ !$0.isOwn }).count {
                    Issue.record("\(Seeds.replay(world.seed)): \(room.unread) unread")
                }
            }
            if Set(texts).count != texts.count {
                Issue.record("\(Seeds.replay(world.seed)): \(name) has some twice: \(texts.sorted())")
            }
            let missing = sent.all.subtracting(texts)
            if !missing.isEmpty { Issue.record("\(Seeds.replay(world.seed)): \(name) has not \(missing.sorted())") }
            let others = texts.filter { !$0.hasPrefix(name) }.count
            if box.unread != others { Issue.record("\(Seeds.replay(world.seed)): \(box.unread) unread of \(others)") }
        }
    }
}

/// What was sent, as a task was told.
private final class Texts: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    var all: Set<String> = []
}
