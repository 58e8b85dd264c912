import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics

/// A broker with clients that last, on a store that commits late, fills up and forgets what it had not committed,
/// killed now and then.
///
/// One seed is one run. The clients keep their session state through the crashes, as real ones do; when the storm is
/// over everybody comes back, and `objections` says what the broker owes them.
struct CrashSimulation {
    /// A message that was published, and what the broker said to it.
    struct Sent {
        let text: String
        let topic: String
        let publisher: Int
        let qos: QoS
        /// Whether it was refused: then nobody is owed it.
        var isRefused = false
    }

    /// Counts of what a simulation did.
    struct Deeds {
        var crashes = 0
        /// Messages that were answered with success, and messages that a subscriber received.
        var acknowledged = 0
        var received = 0
        /// Rows that a broker found on the disk when it came back.
        var recoveredRows = 0
        /// Sessions that were there when their client came back.
        var resumedSessions = 0
        /// Messages that were purged from queues.
        var purged = 0
        /// Rows of messages that crashes found dispatched to members whose sessions had ended with their connections.
        var dispatchedToPassing = 0

        static func += (left: inout Deeds, right: Deeds) {
            left.crashes += right.crashes
            left.acknowledged += right.acknowledged
            left.received += right.received
            left.recoveredRows += right.recoveredRows
            left.resumedSessions += right.resumedSessions
            left.purged += right.purged
            left.dispatchedToPassing += right.dispatchedToPassing
        }
    }

    let seed: UInt64
    private(set) var broker: SimulatedBroker
    private(set) var publishers: [TestClient] = []
    private(set) var subscribers: [TestClient] = []
    /// Of one share group.
    private(set) var members: [TestClient] = []
    /// Of the same one, with sessions that end with their connections, and wills.
    private(set) var passing: [TestClient] = []
    private(set) var sent: [Sent] = []
    /// What stands in the way of being right, as far as it has shown by now.
    private(set) var objections: [String] = []
    private(set) var hadFullDisk = false
    /// What has happened, so that a simulation in which nothing does is noticed.
    private(set) var deeds = Deeds()
    private var log: [String] = []
    /// How many messages may be in flight, both ways.
    private let window: Int
    private var random: SeededGenerator
    private let store = SimulatedStore()
    /// Of each subscriber and extra filter: whether it is subscribed, nil while an answer is awaited.
    private(set) var extras: [[Bool?]] = []
    private var lastRetained: [String: String] = [:]

    private var clients: [TestClient] { publishers + subscribers + members + passing }

    static let topics = ["t/0", "t/1", "t/2"]
    static let retainedTopics = ["r/0", "r/1"]
    static let extraFilters = ["x/0", "x/1"]

    init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        var settings = SimulatedBroker.testSettings
        settings.queuedMessagesMax = 0
        window = Int.random(in: 1...20, using: &random)
        settings.inFlightMessagesMax = window
        // Half of the runs keep little in memory of a queue.
        if seed % 4 >= 2 {
            settings.residentMessagesMax = Int(seed / 4 % 5) + 1
            settings.residentBytesMax = seed % 3 == 0 ? 100 : 1 << 20
        }
        settings.wallClockOffsetMilliseconds = 1_600_000_000_000
        let shards = seed % 2 == 0 ? 1 : Int.random(in: 2...4, using: &random)
        broker = SimulatedBroker(shards: shards, settings: settings, seed: seed, store: store)
        for index in 0..<2 { publishers.append(makeClient("publisher \(index)", version: index == 0 ? .v5 : .v311)) }
        for index in 0..<3 {
            let subscriber = makeClient("subscriber \(index)", version: index == 1 ? .v311 : .v5)
            subscriber.subscribe("t/#", qos: index == 2 ? .atLeastOnce : .exactlyOnce)
            subscribers.append(subscriber)
            extras.append(Array(repeating: false, count: Self.extraFilters.count))
        }
        // A third of the runs have a share group too.
        for index in 0..<(seed % 3 == 0 ? 3 : 0) {
            let member = makeClient("member \(index)", version: index == 1 ? .v311 : .v5)
            member.subscribe("$share/group/t/#", qos: .exactlyOnce)
            members.append(member)
        }
        // With QoS 1: what was sent them with QoS 2 would be nobody else's when they are gone.
        for index in 0..<(members.isEmpty ? 0 : Int.random(in: 1...3, using: &random)) {
            let client = broker.client("passing \(index)", version: index == 0 ? .v5 : .v311)
            passing.append(client)
            connect(client)
        }
    }

    /// A command to purge a subscriber's queue.
    private struct Purge {
        let subscriber: Int
        /// Nil for all of them.
        let topic: String?
        /// Of the messages, those before it may be gone.
        let sentBefore: Int
    }

    private var purges: [Purge] = []
    /// How many commands each shard has not answered.
    private var unanswered: [Int: Int] = [:]

    /// Runs the storm, then the calm.
    mutating func run(actions: Int) {
        for _ in 0..<actions { act() }
        calm()
        judge()
        // Ten thousand runs of a night would fill the machine's memory.
        for client in clients { client.connectionIsGone() }
        broker.powerOff()
    }

    private func makeClient(_ name: String, version: ProtocolVersion) -> TestClient {
        let client = broker.client(EncodedString(name) ?? "client", version: version)
        client.resendsAtOnce = true
        client.connect(clean: false, expiry: version == .v5 ? .max : nil)
        return client
    }

    // MARK: The storm

    private mutating func act() {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<43: publish()
        case 43..<46: purge()
        case 46..<50: publishRetained()
        case 50..<70: for _ in 0..<Int.random(in: 1...8, using: &random) { broker.step() }
        case 70..<80: comeOrGo()
        case 80..<85: changeSubscription()
        case 85..<90: changeStore()
        case 90..<94: broker.advance(milliseconds: UInt64.random(in: 1...2000, using: &random))
        default: crash()
        }
    }

    private mutating func publish() {
        let publisher = Int.random(in: 0..<publishers.count, using: &random)
        let client = publishers[publisher]
        guard client.isConnected, client.unfinished.count < window, let topic = Self.topics.randomElement(using: &random) else {
            return
        }
        let qos: QoS = random.oneIn(2) ? .atLeastOnce : .exactlyOnce
        let text = "\(sent.count)"
        sent.append(Sent(text: text, topic: topic, publisher: publisher, qos: qos))
        // Some large ones, which several receivers share in the store.
        let filler = random.oneIn(4) ? String(repeating: "x", count: 300) : ""
        client.publish(EncodedString(topic) ?? "t", text + " " + filler, qos: qos, until: .sent)
        record(client, text)
    }

    private mutating func publishRetained() {
        let client = publishers[0]
        guard client.isConnected, client.unfinished.count < window, let topic = Self.retainedTopics.randomElement(using: &random)
        else {
            return
        }
        let text = "retained \(sent.count)"
        sent.append(Sent(text: text, topic: topic, publisher: 0, qos: .atLeastOnce))
        client.publish(EncodedString(topic) ?? "r", text, qos: .atLeastOnce, retain: true, until: .sent)
        record(client, text)
    }

    /// Remembers under which identifier a message went, so that its answer can be told.
    private mutating func record(_ client: TestClient, _ text: String) {
        guard let identifier = client.unfinished.last else { return }
        pending[Flow(publisher: sent[sent.count - 1].publisher, identifier: identifier)] = sent.count - 1
    }

    private struct Flow: Hashable {
        let publisher: Int
        let identifier: UInt16
    }

    private var pending: [Flow: Int] = [:]
    private var answersRead = [0, 0]

    /// Takes note of the answers that have come since the last time.
    private mutating func readAnswers() {
        for (publisher, client) in publishers.enumerated() {
            for case .acknowledgement(let answer) in client.packets[answersRead[publisher]...] {
                guard answer.type == .puback || answer.type == .pubrec else { continue }
                let flow = Flow(publisher: publisher, identifier: answer.packetIdentifier)
                guard let message = pending[flow] else { continue }
                if answer.reasonCode.isError { sent[message].isRefused = true } else { deeds.acknowledged += 1 }
            }
            answersRead[publisher] = client.packets.count
        }
    }

    private mutating func comeOrGo() {
        guard let client = clients.randomElement(using: &random) else { return }
        if client.isConnected {
            if random.oneIn(2) { client.lose() } else { client.disconnect() }
        } else {
            connect(client)
        }
        readAnswers()
    }

    private mutating func connect(_ client: TestClient) {
        guard !passing.contains(where: { $0 === client }) else { return connectPassing(client) }
        client.connect(clean: false, expiry: client.version == .v5 ? .max : nil)
        if let connack = client.connack, connack.isAccepted, !connack.sessionPresent {
            objections.append("\(client.identifier) was told that its session is not there")
        }
        if client.connack?.sessionPresent == true { deeds.resumedSessions += 1 }
    }

    private mutating func connectPassing(_ client: TestClient) {
        client.acknowledgement = random.oneIn(4) ? .automatic : .manual
        let will = Will(topic: "w/0", payload: [1], qos: .atLeastOnce, retain: random.oneIn(2))
        client.connect(clean: true, will: will)
        client.subscribe("$share/group/t/#", qos: .atLeastOnce)
    }

    private mutating func changeSubscription() {
        let subscriber = Int.random(in: 0..<subscribers.count, using: &random)
        let extra = Int.random(in: 0..<Self.extraFilters.count, using: &random)
        let client = subscribers[subscriber]
        guard client.isConnected, let filter = TopicFilter(Array(Self.extraFilters[extra].utf8)) else { return }
        let isWanted = extras[subscriber][extra] != true
        extras[subscriber][extra] = nil
        if isWanted {
            guard let answer = client.subscribe(filter, qos: .atLeastOnce) else { return }
            if answer.reasonCodes.first?.isError == false { extras[subscriber][extra] = true }
        } else if let answer = client.unsubscribe(filter) {
            if client.version != .v5 || answer.reasonCodes.first?.isError == false { extras[subscriber][extra] = false }
        }
        readAnswers()
    }

    /// Has the messages of a topic taken out of a subscriber's queue.
    private mutating func purge() {
        // Mostly of one that is away, for the others' queues are short.
        let away = subscribers.indices.filter { !subscribers[$0].isConnected || random.oneIn(4) }
        guard let subscriber = away.randomElement(using: &random) else { return }
        let topic = random.oneIn(3) ? nil : Self.topics.randomElement(using: &random)
        let identifier = subscribers[subscriber].identifier
        let shard = broker.shard(of: identifier)
        guard let filter = TopicFilter(Array((topic ?? "t/+").utf8)),
            broker.cores[shard].perform(ShardCommand(.purgeQueue(of: identifier, matching: filter), token: 1))
        else { return }
        unanswered[shard, default: 0] += 1
        purges.append(Purge(subscriber: subscriber, topic: topic, sentBefore: sent.count))
        for _ in 0..<Int.random(in: 0...8, using: &random) { broker.stepOnce() }
        readOutcomes()
    }

    private mutating func readOutcomes() {
        for shard in 0..<broker.shardCount {
            for outcome in broker.takeOutcomes(of: shard) {
                unanswered[shard, default: 0] -= 1
                switch outcome.result {
                case .removed(let count): deeds.purged += count
                case .removedInPart(let count, .unstored) where hadFullDisk: deeds.purged += count
                default: objections.append("a purge ended with \(outcome.result)")
                }
            }
        }
    }

    private mutating func changeStore() {
        store.mode = [.prompt, .prompt, .paused, .full].randomElement(using: &random) ?? .prompt
        if store.mode == .full { hadFullDisk = true }
        // One of the shards confirms nothing for a while.
        store.lateShard = random.oneIn(3) ? Int.random(in: 0..<broker.shardCount, using: &random) : nil
    }

    private mutating func crash() {
        // Another number of shards only after an orderly stop, as when an operator changes the configuration.
        var shards: Int?
        if seed % 2 == 1, random.oneIn(4) {
            store.mode = .prompt
            store.lateShard = nil
            broker.stop()
            let wanted = Int.random(in: 1...4, using: &random)
            // After a crash that left QoS 2 messages half done, other shards may get them twice.
            if store.hasEnded { shards = wanted }
        }
        readAnswers()
        readOutcomes()
        unanswered = [:]
        broker = broker.crashed(
            committing: Int.random(in: 0...store.waitingCount, using: &random),
            afterMilliseconds: UInt64.random(in: 0...5000, using: &random), shards: shards, seed: random.next())
        deeds.crashes += 1
        deeds.recoveredRows += store.rows.values.reduce(0) { $0 + $1.count }
        deeds.dispatchedToPassing += broker.recovered.dispatchedToGone
        for client in clients {
            client.broker = broker
            client.connectionIsGone()
        }
        for client in clients where random.oneIn(2) { connect(client) }
        for client in passing where !client.isConnected { connect(client) }
        readAnswers()
    }

    // MARK: The calm

    private mutating func calm() {
        store.mode = .prompt
        store.lateShard = nil
        broker.settle()
        letBatchesGo()
        readOutcomes()
        if unanswered.values.contains(where: { $0 != 0 }) { objections.append("purges have no end") }
        // Once more from the disk alone.
        crash()
        for client in passing where client.isConnected { client.lose() }
        for client in publishers + subscribers + members {
            if client.isConnected { client.disconnect() }
            connect(client)
        }
        letBatchesGo()
        readAnswers()
    }

    /// A batch whose messages are on their way to their receivers waits for them a while before it goes to the store.
    private func letBatchesGo() { broker.advance(milliseconds: 100) }

    private mutating func judge() {
        deeds.received = subscribers.reduce(0) { $0 + $1.messages.count }
        for publisher in publishers where !publisher.unfinished.isEmpty {
            objections.append("\(publisher.identifier) waits for an answer still: \(publisher.unfinished)")
        }
        judgeDelivery()
        judgeShares()
        judgeSubscriptions()
        judgeRetained()
        for table in [StoreTable.entry, .message, .flow, .received, .relayed] where store.rows[table]?.isEmpty == false {
            objections.append("\(store.rows[table]?.count ?? 0) rows of \(table.name) are left")
        }
        let lasting = publishers.count + subscribers.count + members.count
        if let rows = store.rows[.session]?.count, rows != lasting {
            objections.append("\(rows) sessions have rows, not \(lasting)")
        }
    }

    private mutating func judgeDelivery() {
        for (index, subscriber) in subscribers.enumerated() {
            let received = subscriber.messages.filter { $0.topic.hasPrefix("t/") }.map { $0.text.prefix { $0 != " " } }
            let counts = Dictionary(received.map { (String($0), 1) }, uniquingKeysWith: +)
            for message in sent where message.topic.hasPrefix("t/") && !message.isRefused {
                let count = counts[message.text] ?? 0
                if count == 0, !isPurged(message, of: index) { objections.append("subscriber \(index) lost \(message)") }
                if count > 1, message.qos == .exactlyOnce, index != 2 {
                    objections.append("subscriber \(index) got \(message) \(count) times")
                }
            }
            if !hadFullDisk { judgeOrder(subscriber, index) }
        }
    }

    private func isPurged(_ message: Sent, of subscriber: Int) -> Bool {
        guard let number = Int(message.text) else { return false }
        return purges.contains {
            $0.subscriber == subscriber && number < $0.sentBefore && ($0.topic ?? message.topic) == message.topic
        }
    }

    /// Each message comes to one member; those of QoS 1 may come again, as what a passing one had has come with QoS 1.
    private mutating func judgeShares() {
        guard !members.isEmpty else { return }
        func texts(_ clients: [TestClient]) -> [String] {
            clients.flatMap(\.messages).map { String($0.text.prefix { $0 != " " }) }
        }
        let passed = Set(texts(passing))
        let counts = Dictionary(texts(members).map { ($0, 1) }, uniquingKeysWith: +)
        for message in sent where message.topic.hasPrefix("t/") && !message.isRefused {
            let count = counts[message.text] ?? 0
            if count == 0, !passed.contains(message.text) { objections.append("the members lost \(message)") }
            if count > 1, message.qos == .exactlyOnce { objections.append("the members got \(message) \(count) times") }
        }
    }

    /// First arrivals of a publisher's messages of a topic and QoS come in the order in which they were published.
    private mutating func judgeOrder(_ subscriber: TestClient, _ index: Int) {
        var last: [String: Int] = [:]
        var seen: Set<Int> = []
        for message in subscriber.messages {
            guard let number = Int(message.text.prefix { $0 != " " }), seen.insert(number).inserted else { continue }
            // One that was purged before its publisher had an answer comes anew.
            guard !isPurged(sent[number], of: index) else { continue }
            let stream = "\(sent[number].topic) \(sent[number].publisher) \(sent[number].qos)"
            if let before = last[stream], before > number {
                objections.append("subscriber \(index) got \(number) after \(before) of \(stream)")
            }
            last[stream] = number
        }
    }

    private mutating func judgeSubscriptions() {
        let prober = broker.connected("prober")
        for (extra, topic) in Self.extraFilters.enumerated() {
            prober.publish(EncodedString(topic) ?? "x", "probe \(topic)", qos: .atLeastOnce)
            for (index, subscriber) in subscribers.enumerated() {
                guard let isWanted = extras[index][extra] else { continue }
                let isThere = subscriber.texts.contains("probe \(topic)")
                if isThere != isWanted { objections.append("subscriber \(index) has \(topic): \(isThere), not \(isWanted)") }
            }
        }
    }

    private mutating func judgeRetained() {
        let reader = broker.connected("reader")
        reader.subscribe("r/#")
        for topic in Self.retainedTopics {
            let expected = sent.last { $0.topic == topic && !$0.isRefused }?.text
            let found = reader.messages.last { $0.topic == topic }?.text
            if expected != found { objections.append("\(topic) holds \(found ?? "nothing"), not \(expected ?? "nothing")") }
        }
    }
}
