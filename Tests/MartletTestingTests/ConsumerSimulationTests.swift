import MartletTesting
import TestBasics
import Testing

/// Consumers that publish, ask and stop reading: nothing that a client waits for stands behind what waits for them.
@Suite(.serialized) struct ConsumerSimulationTests {
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

    @Test(arguments: [SubscriptionSettings.Backlog.hold, .hold(50)])
    func `a relay passes on all that its backlog holds, and counts the rest`(
        backlog: SubscriptionSettings.Backlog
    ) async throws {
        try await Simulation.run(seed: 1) { world in
            let broker = world.broker()
            let relay = try world.client("relay", of: broker)
            let messages = relay.messages("in/#", SubscriptionSettings(backlog: backlog))
            try await relay.connect()
            try await messages.granted()
            let relaying = Task {
                for try await message in messages { try await relay.publish(message.payload, to: "out", qos: .atLeastOnce) }
            }
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for number in 1...3000 { try await sender.publish(Payload("\(number)"), to: "in/a") }
            await world.advance(by: .seconds(60))
            let passed = broker.published("out").count
            #expect(passed + messages.droppedCount == 3000)
            #expect(relay.dropped == DroppedMessages.Counts(backlogFull: messages.droppedCount))
            #expect(backlog == .hold ? passed == 3000 : passed >= 50)
            relaying.cancel()
            _ = await relaying.result
        }
    }

    @Test func `a client with a full subscription says which, hears its other subscriptions, and connects anew`() async throws {
        try await Simulation.run(seed: 2) { world in
            let broker = world.broker()
            let panel = try world.client("panel", of: broker) { $0.keepAlive = .seconds(2) }
            let idle = panel.messages("farm/idle/#", SubscriptionSettings(backlog: .hold(10)))
            let other = panel.messages("farm/other")
            try await panel.connect()
            try await idle.granted()
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for number in 1...600 { try await sender.publish(Payload("\(number)"), to: "farm/idle/1") }
            await world.advance(by: .seconds(7))
            #expect(panel.state.isOnline && panel.state.heldBy == ["farm/idle/#"])
            #expect("\(panel.state)".hasSuffix("as panel, held by farm/idle/#)"))
            #expect(idle.waitingCount == 10 && idle.droppedCount == 590)
            try await sender.publish("1", to: "farm/other")
            var iterator = other.makeAsyncIterator()
            #expect(try await iterator.next()?.payload == "1")
            #expect(try await panel.messages("farm/new").granted() == [.grantedQoS2])

            broker.crash(for: .seconds(3))
            await world.advance(by: .seconds(20))
            #expect(panel.state.isOnline && panel.state.heldBy == ["farm/idle/#"])
            // A server that does not answer any more is noticed by the Keep Alive: two seconds of silence, two without
            // an answer, two for goodbye.
            let number = panel.connection?.connectionNumber
            world.stall(panel)
            await world.advance(by: .seconds(7))
            #expect(panel.connection?.connectionNumber != number)
            await world.advance(by: .seconds(20))
            var taken = idle.makeAsyncIterator()
            #expect(try await taken.next()?.payload == "1")
            await world.advance(by: .seconds(1))
            #expect(panel.state.isOnline && panel.state.heldBy == [])
        }
    }

    @Test func `a client that only reads lets the server wait, and still asks whether it is there`() async throws {
        try await Simulation.run(seed: 8) { world in
            let broker = world.broker(queuedMessagesMax: 10_000)
            let reader = try world.client("reader", of: broker) { $0.keepAlive = .seconds(20) }
            let messages = reader.messages("a")
            try await reader.connect()
            try await messages.granted()
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            let large = Payload([UInt8](repeating: 1, count: 1000))
            for _ in 1...2000 { try await sender.publish(large, to: "a") }
            await world.advance(by: .seconds(10))
            // As much as one read brings.
            #expect(messages.waitingCount >= 256 && messages.waitingCount < 600)
            await world.advance(by: .seconds(100))
            #expect(reader.state.isOnline && reader.connection?.connectionNumber == 1)
            var count = 0
            for try await _ in messages {
                count += 1
                if count == 2000 { break }
            }
            #expect(messages.droppedCount == 0)
        }
    }

    @Test func `messages of QoS 1 that wait hold the client, and are not lost`() async throws {
        try await Simulation.run(seed: 3) { world in
            let broker = world.broker(receiveMaximum: 20)
            let panel = try world.client("panel", of: broker)
            let jobs = panel.messages("jobs/#", SubscriptionSettings(backlog: .hold(5)))
            try await panel.connect()
            try await jobs.granted()
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for number in 1...200 { try await sender.publish(Payload("\(number)"), to: "jobs/1", qos: .atLeastOnce) }
            await world.advance(by: .seconds(10))
            #expect(panel.state.heldBy == ["jobs/#"])
            #expect((5...20).contains(jobs.waitingCount))
            var count = 0
            for try await message in jobs {
                count += 1
                #expect(message.payload == Payload("\(count)"))
                if count == 200 { break }
            }
            #expect(jobs.droppedCount == 0)
        }
    }

    @Test(arguments: [UInt16(1), 5, 1000]) func `a request from within a handler is answered, however many messages wait`(
        window: UInt16
    ) async throws {
        try await Simulation.run(seed: 4) { world in
            let broker = world.broker(receiveMaximum: 20)
            let service = try world.client("service", of: broker)
            try await service.connect()
            let responding = Task { try await service.respond(to: Doubling.self) { request, _ in request.number * 2 } }
            let worker = try world.client("worker", of: broker) { $0.receiveMaximum = window }
            let jobs = worker.messages("jobs/#", SubscriptionSettings(qos: .atLeastOnce))
            try await worker.connect()
            try await jobs.granted()
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for number in 1...500 { try await sender.publish(Payload("\(number)"), to: "jobs/1", qos: .atLeastOnce) }
            await world.advance(by: .seconds(5))
            var count = 0
            for try await _ in jobs {
                count += 1
                #expect(try await worker.send(Doubling(number: count), timeout: .seconds(5)) == 2 * count)
                if count == 60 { break }
            }
            responding.cancel()
            _ = await responding.result
        }
    }

    @Test func `a responder that asks another service is answered, however many requests wait`() async throws {
        struct Asking: Request, LosslessStringConvertible {
            static let topic: TopicName = "requests/asking"
            static var coding: MessageCoding<Asking> { .text }
            static var responseCoding: MessageCoding<Int> { .text }
            typealias Response = Int
            var description: String { "" }

            init?(_ text: String) {}
            init() {}
        }
        try await Simulation.run(seed: 5) { world in
            let broker = world.broker(receiveMaximum: 20)
            let service = try world.client("service", of: broker)
            let middle = try world.client("middle", of: broker)
            try await service.connect()
            try await middle.connect()
            let responding = [
                Task { try await service.respond(to: Doubling.self) { request, _ in request.number * 2 } },
                Task {
                    try await middle.respond(to: Asking.self, concurrency: 1) { _, _ in
                        try await middle.send(Doubling(number: 4), timeout: .seconds(5))
                    }
                },
            ]
            await world.advance(by: .seconds(1))
            let asker = try world.client("asker", of: broker)
            try await asker.connect()
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<100 { group.addTask { try await asker.send(Asking(), timeout: .seconds(600)) } }
                for try await answer in group { #expect(answer == 8) }
            }
            for task in responding {
                task.cancel()
                _ = await task.result
            }
        }
    }

    @Test func `what a kept session brings for nobody waits, and is counted and told when its time is over`() async throws {
        try await Simulation.run(seed: 6) { world in
            let broker = world.broker()
            let noted = Noted()
            func settings(_ settings: inout ClientSettings) {
                settings.session = .kept(.seconds(3600))
                settings.interceptors = [noted]
            }
            let first = try world.client("panel", of: broker, settings)
            let messages = first.messages("jobs/#")
            try await first.connect()
            try await messages.granted()
            world.crash(first)
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for topic: TopicName in ["jobs/1", "jobs/2", "jobs/3", "jobs/4", "jobs/5"] {
                try await sender.publish("1", to: topic, qos: .atLeastOnce)
            }

            let second = try world.client("panel", of: broker, settings)
            try await second.connect()
            await world.advance(by: .seconds(29))
            var early: Messages? = second.messages("jobs/1")
            var iterator = early?.makeAsyncIterator()
            #expect(try await iterator?.next()?.payload == "1")
            #expect(second.dropped == DroppedMessages.Counts())
            await world.advance(by: .seconds(2))
            #expect(second.dropped == DroppedMessages.Counts(noSubscription: 4))
            #expect(noted.all == [DroppedMessages(.noSubscription, count: 4, topic: "jobs/2")])
            #expect("\(noted.all[0])" == "4 messages, such as at “jobs/2”, are dropped: no subscription was declared in time")
            (early, iterator) = (nil, nil)
        }
    }

    @Test func `who follows an inbox and publishes gets all that came, each conversation in order`() async throws {
        try await Simulation.run(seed: 7) { world in
            let broker = world.broker(queuedMessagesMax: 10_000)
            let reader = try world.client("reader", of: broker) {
                $0.session = .kept(.seconds(3600))
                $0.store = world.disk("reader")
            }
            let inbox = try reader.inbox("box", of: "in/#") { "\($0.topic)" }
            try await reader.connect()
            try await inbox.granted()
            let got = Lines()
            let following = Task {
                for try await batch in inbox.arrivals {
                    for item in batch { got.append("\(item.topic) \(item.payload)") }
                    await world.advance(by: .seconds(20))
                    try await reader.publish("\(batch.count)", to: "out", qos: .atLeastOnce)
                }
            }
            let sender = try world.client("sender", of: broker)
            try await sender.connect()
            for number in 1...1500 {
                for topic: TopicName in ["in/a", "in/b"] {
                    let qos: QoS = number.isMultiple(of: 2) ? .atMostOnce : .atLeastOnce
                    try await sender.publish(Payload("\(number)"), to: topic, qos: qos)
                }
            }
            await world.advance(by: .seconds(3000))
            for topic in ["in/a", "in/b"] {
                let came = got.all.filter { $0.hasPrefix(topic) }
                #expect(came.count == 1500)
                // Of each QoS in order.
                for isEven in [true, false] {
                    let numbers = came.compactMap { Int($0.dropFirst(5)) }.filter { $0.isMultiple(of: 2) == isEven }
                    #expect(numbers == numbers.sorted())
                }
            }
            #expect(inbox.unread == 3000 && reader.dropped == DroppedMessages.Counts())
            following.cancel()
            _ = await following.result
        }
    }
}

/// What an interceptor was told.
private final class Noted: Interceptor, @unchecked Sendable {
    // Unchecked: a simulation's tasks and loops run on one thread.
    private(set) var all: [DroppedMessages] = []

    func didDrop(_ messages: DroppedMessages) { all.append(messages) }
}
