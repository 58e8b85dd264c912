import ClientCore
import MQTTCodec
import TestBasics
import Testing

/// A collection beside a server that is a dictionary: what is shown must always be the sum of the changes, and in the
/// end the server's.
@Suite struct CollectionSimulationTests {
    @Test(arguments: [ProtocolVersion.v5, .v311])
    func `after quiet the collection is what the server retains, whatever happened`(version: ProtocolVersion) {
        for seed in 0..<250 {
            var run = Run(seed: UInt64(seed), version)
            for _ in 0..<200 { run.step() }
            run.quiet()
            if let failure = run.failure {
                Issue.record("seed \(seed): \(failure)")
                return
            }
        }
    }

    private struct Run {
        private enum Delivery {
            case message(ReceivedMessage)
            case endMark(UInt32)
        }

        private struct Write {
            let number: UInt64
            let topic: TopicName
            let payload: Payload
            let correlation: [UInt8]
            /// Whether the server will refuse it.
            let isRefused: Bool
        }

        private let version: ProtocolVersion
        private var random: SeededGenerator
        private var collection = TopicCollection(entriesMax: 1000, bytesMax: 1 << 20, nonce: 99)
        /// The sum of all changes.
        private var folded: [TopicName: CollectionValue] = [:]
        // The server.
        private var retained: [TopicName: ReceivedMessage] = [:]
        private var identifier: UInt32 = 0
        private var isSubscribed = false
        /// On the way to the client, or queued in its session.
        private var deliveries: [Delivery] = []
        private var receipts: [(number: UInt64, isRefused: Bool)] = []
        // The client.
        private var isConnected = false
        private var subscribing = false
        private var outbox: [Write] = []
        private var unacknowledged: [Write] = []
        private var outcomes: [UInt64: Bool] = [:]
        private var expected: [UInt64: Bool] = [:]
        private var written: [UInt64: TopicName] = [:]
        /// The program's own.
        private var local: [TopicName: EntryContent] = [:]
        var failure: String?

        init(seed: UInt64, _ version: ProtocolVersion) {
            self.version = version
            random = SeededGenerator(seed: seed)
        }

        mutating func step() {
            switch random.below(21) {
            case 20: putLocally()
            case 0: connect()
            case 1: if random.oneIn(3) { cut() }
            case 2, 3: publishOther()
            case 4, 5: writeLocally()
            case 6, 7: serve()
            case 8: if subscribing { subscribe() }
            case 9: answer()
            default: deliver()
            }
            if random.oneIn(2) { commit() }
        }

        /// Everything that is under way arrives.
        mutating func quiet() {
            if !isConnected { connect() }
            while true {
                if subscribing {
                    subscribe()
                } else if !outbox.isEmpty {
                    serve()
                } else if !receipts.isEmpty {
                    answer()
                } else if !deliveries.isEmpty {
                    deliver()
                } else {
                    break
                }
                commit()
            }
            var told = local.mapValues { CollectionValue($0, .local) }
            for (topic, message) in retained { told[topic] = CollectionValue(EntryContent(message.payload), .confirmed) }
            if folded != told { failure = failure ?? "shows \(folded), the server has \(told)" }
            if outcomes != expected { failure = failure ?? "writes ended \(outcomes), not \(expected)" }
        }

        private mutating func connect() {
            guard !isConnected else { return }
            isConnected = true
            if random.oneIn(3) {
                isSubscribed = false
                deliveries = []
            }
            // Sent again: the server may take them twice.
            outbox = unacknowledged + outbox
            unacknowledged = []
            collection.begin(version)
            subscribing = true
        }

        private mutating func cut() {
            guard isConnected else { return }
            isConnected = false
            subscribing = false
            receipts = []
            // An end mark is the connection's own; the session's queue may lose its latest messages, where old ones can
            // be told from new ones.
            deliveries.removeAll { if case .endMark = $0 { true } else { false } }
            if version == .v5, random.oneIn(2) { deliveries.removeLast(random.below(deliveries.count + 1)) }
        }

        private mutating func publishOther() {
            let topic = randomTopic()
            let isRetained = version == .v311 || !random.oneIn(4)
            let payload: Payload = random.oneIn(4) ? "" : Payload("\(random.below(5))")
            publish(
                ReceivedMessage(topic: topic, payload: payload, qos: .atLeastOnce, retain: isRetained, duplicate: false, token: nil)
            )
        }

        private mutating func putLocally() {
            commit()
            let topic = randomTopic()
            local[topic] = random.oneIn(4) ? nil : EntryContent(Payload("own \(random.below(5))"))
            collection.setLocal(topic, local[topic])
        }

        private mutating func writeLocally() {
            let topic = randomTopic()
            let payload: Payload? = random.oneIn(5) ? nil : Payload("\(random.below(5))")
            let (number, correlation) = collection.write(topic, payload.map { EntryContent($0) })
            let isRefused = version == .v5 && random.oneIn(4)
            expected[number] = !isRefused
            written[number] = topic
            outbox.append(
                Write(number: number, topic: topic, payload: payload ?? "", correlation: correlation, isRefused: isRefused))
        }

        /// The server takes in what the client has published.
        private mutating func serve() {
            guard isConnected, !outbox.isEmpty else { return }
            let write = outbox.removeFirst()
            unacknowledged.append(write)
            receipts.append((write.number, write.isRefused))
            if write.isRefused { return }
            var message = ReceivedMessage(
                topic: write.topic, payload: write.payload, qos: .atLeastOnce, retain: true, duplicate: false, token: nil)
            if version == .v5 { message.properties.correlationData = write.correlation }
            publish(message)
        }

        private mutating func publish(_ message: ReceivedMessage) {
            if message.retain { retained[message.topic] = message.payload.isEmpty ? nil : message }
            guard isSubscribed, isConnected || random.oneIn(2) || version == .v311 else { return }
            deliveries.append(.message(marked(message)))
        }

        private func marked(_ message: ReceivedMessage) -> ReceivedMessage {
            var message = message
            if version == .v5 { message.properties.subscriptionIdentifiers = [identifier] }
            return message
        }

        private mutating func subscribe() {
            subscribing = false
            isSubscribed = true
            identifier += 1
            for topic in retained.keys.sorted(by: { $0.description < $1.description }) {
                if let message = retained[topic] { deliveries.append(.message(marked(message))) }
            }
            deliveries.append(.endMark(version == .v5 ? identifier : 0))
        }

        private mutating func answer() {
            guard isConnected, !receipts.isEmpty else { return }
            let (number, isRefused) = receipts.removeFirst()
            unacknowledged.removeAll { $0.number == number }
            if isRefused {
                collection.refused(number)
                outcomes[number] = false
            } else {
                collection.acknowledged(number)
            }
        }

        private mutating func deliver() {
            guard isConnected, !deliveries.isEmpty else { return }
            switch deliveries.removeFirst() {
            case .message(let message): collection.received(message)
            case .endMark(let mark):
                collection.ended(identifier: mark)
            }
        }

        private mutating func commit() {
            let commit = collection.commit()
            for number in commit.confirmed {
                if let topic = written[number] { local[topic] = nil }
                if outcomes.updateValue(true, forKey: number) != nil { failure = failure ?? "write \(number) ended twice" }
            }
            for step in commit.steps {
                if folded[step.topic] != step.old { failure = failure ?? "\(step) does not follow on \(folded)" }
                if step.old == step.new { failure = failure ?? "\(step) changes nothing" }
                folded[step.topic] = step.new
            }
            let shown = Dictionary(uniqueKeysWithValues: collection.topics.map { ($0, collection[$0]) })
            if shown != folded.mapValues(Optional.some) { failure = failure ?? "shows \(shown), the changes say \(folded)" }
        }

        private mutating func randomTopic() -> TopicName { ["a", "b", "c/d", "c/e", "f", "g"][random.below(6)] }
    }
}
