import MQTTCodec
import MartletTesting
import Testing

/// Messages that get too old while they wait in a client, against the real broker on a simulated clock.
struct ExpirySimulationTests {
    private func message(_ payload: Payload, seconds: UInt32, qos: QoS = .atLeastOnce, to topic: TopicName = "t") -> Publication {
        var properties = Properties()
        properties.messageExpiryInterval = seconds
        return Publication(topic, payload, qos: qos, properties: properties)
    }

    @Test(arguments: 0..<5 as Range<UInt64>) func `a call that waits for a connection hears when its message is too old`(
        seed: UInt64
    )
        async throws
    {
        try await Simulation.run(seed: seed) { world in
            let broker = world.broker()
            let hearer = try world.client("h", of: broker)
            let heard = hearer.messages("t")
            try await hearer.connect()
            try await heard.granted()
            // One for the session, the others blocked; and those of QoS 0.
            let client = try world.client("c", of: broker) {
                $0.queue = ClientSettings.QueueLimits(messages: 1)
                $0.offlineAtMostOnce = .queue
            }
            let begin = world.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for qos in [QoS.atLeastOnce, .exactlyOnce, .atLeastOnce, .atMostOnce] {
                    group.addTask {
                        await #expect(throws: ClientError.expired) {
                            try await client.publish(message("old", seconds: 5, qos: qos))
                        }
                        #expect(world.now - begin >= .seconds(5) && world.now - begin < .seconds(6))
                    }
                    if qos > .atMostOnce {
                        group.addTask { _ = try await client.publish(message("new", seconds: 60, qos: qos)) }
                    }
                }
                await world.advance(by: .seconds(20))
                client.start()
                try await group.waitForAll()
            }
            #expect(broker.published("t").map(\.payload) == Array(repeating: "new", count: 3))
            var iterator = heard.makeAsyncIterator()
            for _ in 1...3 {
                let interval = try await iterator.next()?.properties.messageExpiryInterval ?? 0
                #expect((37...40).contains(interval))
            }
        }
    }

    @Test(arguments: 0..<5 as Range<UInt64>) func `the outbox goes by the time of day, over a crash as well`(seed: UInt64)
        async throws
    {
        try await Simulation.run(seed: seed) { world in
            let broker = world.broker()
            let hearer = try world.client("h", of: broker)
            let heard = hearer.messages("t")
            try await hearer.connect()
            try await heard.granted()
            let first = try world.client("c", of: broker) { $0.store = world.disk("c") }
            let old = try await first.enqueue(message("old", seconds: 5))
            _ = try await first.enqueue(message("older than its client", seconds: 30))
            _ = try await first.enqueue(message("new", seconds: 600))
            await world.advance(by: .seconds(10))
            #expect(old.status == .expired)
            await #expect(throws: ClientError.expired) { try await old.arrival() }
            world.crash(first)
            await world.advance(by: .seconds(50))
            let second = try world.client("c", of: broker) { $0.store = world.disk("c") }
            second.start()
            for delivery in try await second.outbox.open() {
                do throws(ClientError) { try await delivery.arrival() } catch { #expect(error == .expired) }
            }
            #expect(broker.published("t").map(\.payload) == ["new"])
            var iterator = heard.makeAsyncIterator()
            let interval = try await iterator.next()?.properties.messageExpiryInterval ?? 0
            #expect((535...540).contains(interval))
        }
    }

    @Test func `of a long outbox also what only the disk has gets too old in its time`() async throws {
        try await Simulation.run(seed: 1) { world in
            let client = try world.client("c", of: world.broker()) { $0.store = world.disk("c") }
            for _ in 0..<1100 { _ = try await client.enqueue("x", to: "t") }
            let (old, newer) = (
                try await client.enqueue(message("old", seconds: 60)),
                try await client.enqueue(message("newer", seconds: 120))
            )
            await world.advance(by: .seconds(50))
            #expect(old.status == .queued(ahead: 1100))
            await #expect(throws: ClientError.expired) { try await old.arrival() }
            #expect(world.now < .seconds(90))
            #expect(try await client.outbox.measure().messages == 1101)
            #expect(newer.status.isFinal == false)
            await #expect(throws: ClientError.expired) { try await newer.arrival() }
            #expect(world.now < .seconds(150))
            await world.advance(by: .seconds(1))
            #expect(world.stored(in: "outbox", on: "c").count == 1100)
        }
    }

    @Test(arguments: [SubscriptionSettings.Backlog.hold(10), .dropOldest(10), .latestPerTopic(10), .spill])
    func `what waits for its consumer and gets too old is not delivered`(backlog: SubscriptionSettings.Backlog) async throws {
        try await Simulation.run(seed: 1) { world in
            let broker = world.broker()
            let listener = try world.client("l", of: broker) { $0.store = world.disk("l") }
            let messages = listener.messages("+", SubscriptionSettings(backlog: backlog))
            try await listener.connect()
            try await messages.granted()
            let speaker = try world.client("s", of: broker)
            try await speaker.connect()
            try await speaker.publish(message("old", seconds: 5, to: "a"))
            try await speaker.publish(message("old", seconds: 5, qos: .exactlyOnce, to: "b"))
            try await speaker.publish(message("new", seconds: 60, to: "c"))
            await world.advance(by: .seconds(10))
            var iterator = messages.makeAsyncIterator()
            #expect(try await iterator.next()?.payload == "new")
            #expect(messages.expiredCount == 2)
            #expect(messages.droppedCount == 0)
            // Also in the hands of a consumer that is slow.
            for payload in ["first", "second", "third"] as [Payload] {
                try await speaker.publish(
                    message(payload, seconds: payload == "second" ? 5 : 60, to: TopicName("\(payload)") ?? "x"))
            }
            await world.settle()
            #expect(try await iterator.next()?.payload == "first")
            await world.advance(by: .seconds(10))
            #expect(try await iterator.next()?.payload == "third")
            #expect(messages.expiredCount == 3)
        }
    }

    @Test func `what is in the store goes by the time of day`() async throws {
        try await Simulation.run(seed: 2) { world in
            let broker = world.broker()
            let change: @Sendable (inout ClientSettings) -> Void = {
                ($0.store, $0.session) = (world.disk("l"), .kept(.seconds(3600)))
            }
            let first = try world.client("l", of: broker, change)
            let messages = first.messages("t", SubscriptionSettings(backlog: .spill))
            try await first.connect()
            try await messages.granted()
            let speaker = try world.client("s", of: broker)
            try await speaker.connect()
            try await speaker.publish(message("old", seconds: 30))
            try await speaker.publish(message("new", seconds: 600))
            await world.advance(by: .seconds(5))
            world.crash(first)
            await world.advance(by: .seconds(60))
            let second = try world.client("l", of: broker, change)
            let rest = second.messages("t", SubscriptionSettings(backlog: .spill))
            second.start()
            var iterator = rest.makeAsyncIterator()
            #expect(try await iterator.next()?.payload == "new")
            #expect(rest.expiredCount == 1)
        }
    }
}
