import MartletTesting
import TestBasics
import Testing

@testable import MartletClient

/// Whatever waits in a client waits within its bounds, at every step: who publishes much gets small queues, who
/// receives much is slow.
@Suite(.serialized) struct BoundsSeedTests {
    @Test(arguments: Seeds.parts(15, perPart: 5)) func `bounds in messages and bytes are kept at every step`(
        seeds: ClosedRange<UInt64>
    )
        async throws
    {
        for seed in seeds { try await Simulation.run(seed: seed) { try await Self.play($0) } }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let run = try BoundsRun(world)
        let problems = try await run.run()
        #expect(problems == [], "\(Seeds.replay(world.seed))")
        return run.wire.fingerprint
    }
}

/// One run. On the simulation's thread.
private final class BoundsRun: @unchecked Sendable {
    private let world: Simulation
    let wire: WireOracle
    private var random: SeededGenerator
    private var problems: [String] = []
    private let publisher: Client
    private let keeper: Client
    private let receivers: [Client]
    private var subscriptions: [Waiting] = []
    private let (taken, arrived) = (Sent(), Got())
    private var enqueued: [Delivery] = []

    /// The messages of a subscription that wait for its consumer.
    private struct Waiting {
        let name: String
        let messages: Messages
        /// How much may wait.
        let most: ClientSize.Part
        let kind: Kind
        var last = ClientSize.Part.zero

        /// What of it may go beyond the bounds.
        enum Kind {
            /// One message alone.
            case drops
            /// Messages of QoS 1 and 2, as many as the server may send before they are acknowledged.
            case holds(receiveMaximum: Int)
            /// One message more, by its bytes.
            case spills
        }

        /// Whether so much may wait now.
        func mayBe(_ size: ClientSize.Part) -> Bool {
            switch kind {
            case .drops: size.messages <= most.messages && (size.bytes <= most.bytes || size.messages == 1)
            case .holds(let receiveMaximum): size.messages <= most.messages + receiveMaximum
            case .spills: size.messages <= most.messages && size.bytes < most.bytes + BoundsRun.floodBytesMax
            }
        }
    }

    init(_ world: Simulation) throws {
        self.world = world
        wire = WireOracle(world)
        var random = SeededGenerator(seed: world.seed &+ 5000)
        // Room for a whole flood at the broker, which drops nothing then.
        let broker = world.broker(
            isPersistent: random.oneIn(2), receiveMaximum: UInt16.random(in: 1...20, using: &random),
            queuedMessagesMax: 2 * Limits.inboxWindowMax)
        let inFlight = Int.random(in: 1...12, using: &random)
        wire.inFlightMax = { $0 == "publisher" || $0 == "keeper" ? inFlight : nil }
        func limits() -> ClientSettings.QueueLimits {
            ClientSettings.QueueLimits(
                messages: Int.random(in: 1...8, using: &random), bytes: Int.random(in: 60...400, using: &random),
                whenFull: [.wait, .refuse, .dropOldest][random.below(3)])
        }
        publisher = try world.client("publisher", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            ($0.inFlight, $0.queue, $0.offlineAtMostOnce) = (inFlight, limits(), .queue)
        }
        keeper = try world.client("keeper", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            ($0.inFlight, $0.outbox, $0.store) = (inFlight, limits(), world.disk("keeper"))
        }
        receivers = try ["holder", "latest", "spiller"].map { name in
            try world.client(name, of: broker) {
                $0.session = .kept(.seconds(1_000_000))
                $0.receiveMaximum = UInt16.random(in: 1...30, using: &random)
                if name == "spiller" { $0.store = world.disk(name) }
            }
        }
        (floodCount, floodBytes) =
            switch world.seed % 8 {
            case 1: (Limits.spillWindowMax + 60, 0)
            case 3: (Limits.spillWindowMax, Self.floodBytesMax - 100)
            case 5: (Limits.inboxWindowMax + 100, 0)
            default: (0, 0)
            }
        inbox = try receivers[2].inbox("box", of: "flood") { _ in "flood" }
        self.random = random
        subscribe()
    }

    /// More than may wait in memory, by messages or by bytes: the rest waits on the disk.
    private let (floodCount, floodBytes): (Int, Int)
    fileprivate static let floodBytesMax = 6000
    /// Gets the flood as well.
    private let inbox: Inbox<Payload>

    private func subscribe() {
        let (most, bytes) = (Int.random(in: 1...6, using: &random), Int.random(in: 60...400, using: &random))
        let window = ClientSize.Part(messages: Limits.spillWindowMax, bytes: Limits.spillWindowBytesMax)
        let part = ClientSize.Part(messages: most, bytes: bytes)
        let backlogs: [(client: Int, backlog: SubscriptionSettings.Backlog, most: ClientSize.Part, kind: Waiting.Kind)] = [
            (0, .hold(most, bytes: bytes), part, .holds(receiveMaximum: Int(receivers[0].settings.receiveMaximum))),
            (1, .dropOldest(most, bytes: bytes), part, .drops),
            (1, .latestPerTopic(2, bytes: bytes), ClientSize.Part(messages: 2, bytes: bytes), .drops), (2, .spill, window, .spills),
        ]
        for (client, backlog, most, kind) in backlogs {
            let messages = receivers[client].messages("b/#", SubscriptionSettings(backlog: backlog))
            subscriptions.append(Waiting(name: "\(backlog)", messages: messages, most: most, kind: kind))
        }
        let flood = receivers[2].messages("flood", SubscriptionSettings(backlog: .spill))
        subscriptions.append(Waiting(name: "flood", messages: flood, most: window, kind: .spills))
    }

    func run() async throws -> [String] {
        for client in receivers { client.start() }
        for subscription in subscriptions { try await subscription.messages.granted() }
        world.watcher = { [unowned self] in look() }
        world.faults = .rough
        publisher.start()
        keeper.start()
        let tasks = (0..<8).map { number in Task { try await publish(number, SeededGenerator(seed: world.seed &+ UInt64(number))) }
        }
        if floodCount > 0 { Task { await publishFlood() } }
        let consumers = subscriptions.map { subscription in
            let pause = subscription.name == "flood" ? 0 : random.below(900)
            return Task {
                if subscription.name == "flood" { await world.advance(by: .seconds(60)) }
                for try await message in subscription.messages {
                    arrived.all.append((subscription.name, "\(message.payload)"))
                    await world.advance(by: .milliseconds(pause))
                }
            }
        }
        let follower = Task {
            await world.advance(by: .seconds(60))
            for try await _ in inbox.arrivals { await world.advance(by: .milliseconds(100)) }
        }
        await world.disturb(
            { receivers + [publisher, keeper] }, for: .seconds(Int.random(in: 20...90, using: &random)), &random)
        world.heal()
        try await world.end(of: tasks)
        await world.advance(by: .seconds(600))
        checkAtRest()
        world.watcher = nil
        for consumer in consumers + [follower] { consumer.cancel() }
        return problems + wire.problems + wire.unanswered
    }

    /// Some messages of all sizes, also such as have room only alone.
    private func publish(_ number: Int, _ seeded: SeededGenerator) async throws {
        var random = seeded
        for message in 0..<8 {
            let name = "\(number)-\(message)"
            let topic: TopicName = ["b/1", "b/2", "b/3"][random.below(3)]
            let words = name + " " + String(repeating: "x", count: random.below(random.oneIn(4) ? 600 : 60))
            let qos: QoS = [.atMostOnce, .atLeastOnce, .exactlyOnce][random.below(3)]
            if number.isMultiple(of: 2) {
                let task = Task { [publisher] in try await publisher.publish(Payload(words), to: topic, qos: qos) }
                if random.oneIn(6) { task.cancel() }
                // Full, offline or cancelled.
                if case .success = await task.result, qos > .atMostOnce { taken.all.append(("b", words, qos)) }
            } else if let delivery = try? await keeper.enqueue(Payload(words), to: topic, qos: max(qos, .atLeastOnce)) {
                enqueued.append(delivery)
            }
            await world.advance(by: .milliseconds(random.below(random.oneIn(5) ? 4000 : 200)))
        }
    }

    private func publishFlood() async {
        let rest = String(repeating: "x", count: floodBytes)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<floodCount {
                group.addTask { [latest = receivers[1]] in
                    _ = try? await latest.publish(Payload("\(number) \(rest)"), to: "flood", qos: .atLeastOnce)
                }
            }
        }
    }

    /// After each step.
    private func look() {
        let (size, limits) = (publisher.size, publisher.settings.queue)
        check(size.publishing, limits, "publisher")
        check(size.offline, limits, "publisher, offline")
        if size.unacknowledged != size.publishing.messages { add("\(size): somebody's message is lost or kept") }
        let kept = keeper.size
        check(kept.outbox, keeper.settings.outbox, "outbox")
        if kept.unacknowledged != kept.outboxInFlight { add("\(kept): a message of the outbox is lost or kept") }
        for index in subscriptions.indices {
            let (subscription, size) = (subscriptions[index], subscriptions[index].messages.waitingSize)
            if !subscription.mayBe(size) { add("\(size) waits in \(subscription.name), after \(subscription.last)") }
            subscriptions[index].last = size
        }
        for client in receivers + [publisher, keeper] { lookInside(client) }
    }

    /// What has one bound for all clients.
    private func lookInside(_ client: Client) {
        let size = client.size
        check(
            size.unmatched, ClientSettings.QueueLimits(messages: Limits.unmatchedMessagesMax, bytes: Limits.unmatchedBytesMax),
            "nobody's messages"
        )
        check(
            size.unstored, ClientSettings.QueueLimits(messages: Limits.storeChangesMax, bytes: Limits.storeBytesMax),
            "what is not durable")
        if size.outboxInMemory.messages > size.outbox.messages { add("\(size): more is in memory than there is") }
        // When it is full, the messages that are on their way to the disk still come.
        let inFlight = Int(client.settings.receiveMaximum)
        let arrivals = ClientSettings.QueueLimits(
            messages: Limits.inboxWindowMax + inFlight, bytes: Limits.inboxWindowBytesMax + inFlight * Self.floodBytesMax)
        for part in size.inboxes { check(part, arrivals, "arrivals") }
    }

    /// One message alone may have any size.
    private func check(_ part: ClientSize.Part, _ limits: ClientSettings.QueueLimits, _ name: String) {
        if part.messages > limits.messages || (part.bytes > limits.bytes && part.messages > 1) {
            add("\(name): \(part) waits, with \(limits.messages) messages and \(limits.bytes) bytes")
        }
    }

    /// All has come, and what was dropped is counted.
    private func checkAtRest() {
        for client in receivers + [publisher, keeper] {
            let size = client.size
            let parts = [size.publishing, size.offline, size.outbox, size.outboxInMemory, size.unmatched, size.unstored]
            if parts + size.inboxes != Array(repeating: .zero, count: parts.count + size.inboxes.count) || size.blockedEnqueues > 0
            {
                add("\(size) at rest")
            }
        }
        if inbox.unread < floodCount { add("\(inbox.unread) messages of the flood are in the inbox") }
        let sure = taken.all.map(\.payload)
        if Set(arrived.all.filter { $0.topic == "flood" }.map(\.payload)).count != floodCount { add("the flood has not come") }
        for (index, subscription) in subscriptions.enumerated()
        where (index == 0 || subscription.messages.droppedCount == 0) && subscription.name != "flood" {
            let came = Set(arrived.all.filter { $0.topic == subscription.name }.map(\.payload))
            for words in sure where !came.contains(words) { add("\(words.prefix(5)) is lost in \(subscription.name)") }
        }
        if subscriptions[3].messages.droppedCount > 0 { add("who drops nothing dropped") }
        for delivery in enqueued where !delivery.status.isFinal { add("\(delivery.id): \(delivery.status)") }
    }

    private func add(_ problem: String) {
        if problems.count < 5 { problems.append("\(world.now): \(problem)") }
    }
}
