import MartletTesting
import TestBasics
import Testing

/// A client with an inbox on a disk crashes again and again, and so do who writes to it and the broker.
@Suite(.serialized) struct InboxSeedTests {
    @Test(arguments: Seeds.ofOracles) func `an inbox has what was sent once, in order, and counts what nobody has read`(
        seeds: ClosedRange<UInt64>
    ) async throws {
        for seed in seeds {
            try await Simulation.run(seed: seed) { try await Self.play($0) }
        }
    }

    /// Returns the fingerprint of the run.
    @discardableResult
    static func play(_ world: Simulation) async throws -> UInt64 {
        let run = try InboxRun(world)
        let problems = try await run.run()
        #expect(problems == [], "seed \(world.seed)")
        return run.wire.fingerprint
    }
}

/// One run. On the simulation's thread.
private final class InboxRun: @unchecked Sendable {
    private let world: Simulation
    private let broker: Simulation.Broker
    private var random: SeededGenerator
    let wire: WireOracle
    private let crashesBroker: Bool
    private let crashesShop: Bool
    private var shop: Client
    private let plain: Client
    private let reader = InboxOracle()
    private let (sent, enqueued) = (Sent(), Sent())

    init(_ world: Simulation) throws {
        self.world = world
        wire = WireOracle(world)
        random = SeededGenerator(seed: world.seed &+ 4000)
        wire.mayAnswer = { [unowned world] client, message in
            client != "reader"
                || world.isStored(message, in: "inbox", on: "reader") && world.isReceiptStored(message, on: "reader")
        }
        broker = world.broker(isPersistent: true, receiveMaximum: UInt16.random(in: 1...20, using: &random))
        (crashesBroker, crashesShop) = (random.oneIn(3), random.oneIn(2))
        shop = try Self.shop(world, broker)
        plain = try world.client("plain", of: broker) { $0.session = .kept(.seconds(1_000_000)) }
    }

    private static func shop(_ world: Simulation, _ broker: Simulation.Broker) throws -> Client {
        let shop = try world.client("shop", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.store = world.disk("shop")
            $0.inFlight = 5
        }
        shop.start()
        return shop
    }

    func run() async throws -> [String] {
        var life = try InboxLife(world, broker, reader, random.next())
        try await life.begin()
        try await life.inbox.granted()
        world.faults = .rough
        plain.start()
        let publishing = Task { try await publish() }
        let lives = Int.random(in: 2...5, using: &random)
        for number in 1...lives {
            enqueue(life: number)
            await world.disturb(
                { [shop, plain, life.client] }, for: .seconds(Int.random(in: 0...40, using: &random)), &random)
            if crashesBroker, random.oneIn(2) { broker.crash(for: .milliseconds(Int.random(in: 0...5000, using: &random))) }
            if crashesShop, number < lives {
                world.crash(shop)
                shop = try Self.shop(world, broker)
            }
            life.end()
            world.crash(life.client)
            life = try InboxLife(world, broker, reader, random.next())
            try await life.begin()
        }
        await world.advance(by: .seconds(30))
        world.heal()
        try await world.end(of: [publishing])
        await world.advance(by: .seconds(600))
        try await life.checkAtRest()
        check()
        // More than there was could not be read.
        try await plain.publish("1", to: "in/room 0/more", qos: .exactlyOnce)
        await world.advance(by: .seconds(10))
        if life.inbox.unread != 1 { reader.add("one more message came, and \(life.inbox.unread) are unread") }
        life.end()
        return reader.problems + wire.problems + wire.unanswered
    }

    /// What is stored before it is sent.
    private func enqueue(life: Int) {
        let client = shop
        // It waits for ever when its client crashes.
        Task {
            for number in 0..<8 {
                let qos: QoS = number.isMultiple(of: 3) ? .exactlyOnce : .atLeastOnce
                guard let topic = TopicName("in/room \(number % 2)/enqueued/\(qos.rawValue)") else { continue }
                _ = try await client.enqueue(Payload("\(life)-\(number)"), to: topic, qos: qos)
                enqueued.all.append((topic.description, "\(life)-\(number)", qos))
                await world.advance(by: .milliseconds(300 * number))
            }
        }
    }

    /// What has no identifier of its own, some of it with the same words.
    private func publish() async throws {
        for number in 0..<24 {
            let qos: QoS = number.isMultiple(of: 2) ? .exactlyOnce : .atLeastOnce
            guard let topic = TopicName("in/room \(number % 3)/published/\(qos.rawValue)") else { continue }
            let words = number % 4 < 2 ? "again" : "\(number)"
            try await plain.publish(Payload(words), to: topic, qos: qos)
            sent.all.append((topic.description, words, qos))
            await world.advance(by: .milliseconds(number * 70 % 900))
        }
    }

    private func check() {
        let got = reader.history.flatMap { $0.value }
        if sent.all.count != 24 { reader.add("only \(sent.all.count) messages were published") }
        let ofShop = got.filter { $0.topic.contains("/enqueued/") }
        for problem in ArrivalOracle(expected: enqueued.all).problems(in: ofShop.map { ($0.topic, $0.payload) }, others: true) {
            reader.add(problem)
        }
        // Each is known by its identifier, also where the server had it several times.
        let repeats = Dictionary(grouping: ofShop.map(\.payload)) { $0 }.filter { $0.value.count > 1 }
        if !repeats.isEmpty { reader.add("twice: \(repeats.keys.sorted())") }
        for topic in Set(sent.all.map(\.topic)).sorted() {
            let came = got.filter { $0.topic == topic }.map(\.payload)
            let wanted = sent.all.filter { $0.topic == topic }
            // At QoS 1 the server may have a message several times; the inbox has what the server has.
            let exactly =
                if wanted[0].qos == .exactlyOnce { wanted.map(\.payload) } else {
                    broker.published.filter { $0.topic.description == topic }.map { "\($0.payload)" }
                }
            if wanted[0].qos == .exactlyOnce || !crashesBroker {
                if came != exactly { reader.add("\(topic): \(came), and not \(exactly)") }
            } else {
                let unique = wanted.filter { $0.payload != "again" }
                for problem in ArrivalOracle(expected: unique).problems(in: came.map { (topic, $0) }, others: true) {
                    reader.add(problem)
                }
            }
        }
    }
}

/// What an inbox has told over all lives of its client, and what must be so of it.
private final class InboxOracle: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    struct Item: Equatable {
        var number: UInt64
        var topic: String
        var payload: String
    }

    private(set) var problems: [String] = []
    /// All that it has, by conversation, as it was read last.
    private(set) var history: [String: [Item]] = [:]
    /// All that was told as arrived.
    private(set) var told: [String: [Item]] = [:]
    /// Up to where conversations were read: so far surely, and so far perhaps, if a crash came between.
    private var read: [String: (least: UInt64, most: UInt64)] = [:]

    func add(_ problem: String) { problems.append(problem) }

    /// Within one life of the client, each follows the one before.
    func tell(_ item: InboxItem<Payload>, after last: UInt64) {
        if item.number != last + 1 { add("\(item.conversation) \(item.number) is told after \(last)") }
        told[item.conversation, default: []].append(
            Item(number: item.number, topic: "\(item.topic)", payload: "\(item.payload)"))
    }

    func beginReading(_ conversation: String, _ number: UInt64) {
        let (least, most) = read[conversation] ?? (0, 0)
        read[conversation] = (least, max(most, number))
    }

    func hasRead(_ conversation: String, _ number: UInt64) {
        let (least, most) = read[conversation] ?? (0, 0)
        read[conversation] = (max(least, number), most)
    }

    /// Looks through all that the inbox has.
    func look(_ inbox: Inbox<Payload>) async throws {
        let unread = inbox.unread
        let conversations = try await inbox.conversations(limit: 100)
        var sum = 0
        for conversation in conversations {
            let items = try await Self.items(of: conversation.key, in: inbox)
            history[conversation.key] = items
            let numbers = items.map(\.number)
            if numbers != Array(1...UInt64(max(1, items.count))) { add("\(conversation.key) has the numbers \(numbers)") }
            if conversation.last.number != items.last?.number || "\(conversation.last.payload)" != items.last?.payload {
                add("the last of \(conversation.key) is not \(conversation.last)")
            }
            for item in told[conversation.key] ?? [] where !items.contains(item) { add("\(item) was told and is not stored") }
            let bounds = read[conversation.key] ?? (0, 0)
            let readThrough = UInt64(items.count) - UInt64(conversation.unread)
            if readThrough < bounds.least || readThrough > bounds.most {
                add("\(conversation.key): \(conversation.unread) unread of \(items.count), read through \(bounds)")
            }
            // Decided by now.
            read[conversation.key] = (readThrough, readThrough)
            sum += conversation.unread
        }
        for key in told.keys where history[key] == nil { add("\(key) is not there any more") }
        let times = conversations.map(\.last.arrivedAt)
        if times != times.sorted(by: >) { add("conversations are not the newest first: \(times)") }
        if unread != sum { add("\(unread) unread in all, \(sum) in the conversations") }
    }

    /// In pages, the oldest first.
    private static func items(of conversation: String, in inbox: Inbox<Payload>) async throws -> [Item] {
        var items: [Item] = []
        var before: UInt64?
        while true {
            let page = try await inbox.messages(in: conversation, before: before, limit: 7)
            guard let last = page.last else { return items.reversed() }
            items += page.map { Item(number: $0.number, topic: "\($0.topic)", payload: "\($0.payload)") }
            before = last.number
        }
    }
}

/// One life of the client that has the inbox.
private final class InboxLife: @unchecked Sendable {
    // Unchecked: a simulation's tasks run on one thread.
    let client: Client
    let inbox: Inbox<Payload>
    private let world: Simulation
    private let oracle: InboxOracle
    private var random: SeededGenerator
    private var tasks: [Task<Void, Never>] = []
    /// The last message that the inbox had before this life, or that was told in it, by conversation.
    private var last: [String: UInt64] = [:]
    private var count: UnreadCount?

    init(_ world: Simulation, _ broker: Simulation.Broker, _ oracle: InboxOracle, _ seed: UInt64) throws {
        (self.world, self.oracle, random) = (world, oracle, SeededGenerator(seed: seed))
        let window = UInt16.random(in: 1...20, using: &random)
        client = try world.client("reader", of: broker) {
            $0.session = .kept(.seconds(1_000_000))
            $0.store = world.disk("reader")
            $0.receiveMaximum = window
        }
        inbox = try client.inbox("box", of: "in/#") { "\($0.topic.description.split(separator: "/")[1])" }
    }

    /// Looks at what earlier lives have left, and connects.
    func begin() async throws {
        try await oracle.look(inbox)
        last = oracle.history.mapValues { UInt64($0.count) }
        let isShared = random.oneIn(2)
        let other = isShared ? client.messages("in/#", SubscriptionSettings(backlog: .hold(3), acknowledging: .whenDone)) : nil
        let pause = Duration.milliseconds(random.below(2000))
        client.start()
        tasks.append(
            Task {
                do {
                    for try await batch in inbox.arrivals {
                        for item in batch {
                            oracle.tell(item, after: last[item.conversation] ?? 0)
                            last[item.conversation] = item.number
                        }
                    }
                } catch { oracle.add("arrivals: \(error)") }
            })
        tasks.append(Task { for await count in inbox.unreadCounts { self.count = count } })
        tasks.append(Task { await read() })
        guard let other else { return }
        // Another subscription has the same messages, and is slow: until it is done with one, the server is told
        // nothing.
        tasks.append(
            Task {
                do {
                    for try await message in other {
                        await world.advance(by: pause)
                        message.done()
                    }
                } catch { oracle.add("messages: \(error)") }
            })
    }

    /// Somebody reads now and then what has come.
    private func read() async {
        while !Task.isCancelled {
            await world.advance(by: .milliseconds(random.below(8000)))
            guard let (key, number) = last.sorted(by: { $0.key < $1.key }).randomElement(using: &random) else { continue }
            let through = UInt64.random(in: 1...number, using: &random)
            oracle.beginReading(key, through)
            do { try await inbox.markRead(key, through: through) } catch { continue }
            oracle.hasRead(key, through)
        }
    }

    /// All has come: looks whether it is as it must be.
    func checkAtRest() async throws {
        tasks[2].cancel()
        await tasks[2].value
        try await oracle.look(inbox)
        for (key, items) in oracle.history where last[key] != UInt64(items.count) {
            oracle.add("\(key): \(last[key] ?? 0) of \(items.count) were told")
        }
        if count?.total ?? 0 != inbox.unread { oracle.add("\(inbox.unread) are unread, \(count?.total ?? 0) was told") }
        for (key, items) in oracle.history.sorted(by: { $0.key < $1.key }) {
            try await inbox.markRead(key, through: UInt64(items.count) + 5)
        }
        if inbox.unread != 0 { oracle.add("\(inbox.unread) are unread after all was read") }
        if inbox.undecodableCount > 0 { oracle.add("\(inbox.undecodableCount) could not be decoded") }
    }

    func end() { for task in tasks { task.cancel() } }
}
