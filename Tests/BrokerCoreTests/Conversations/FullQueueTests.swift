import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// `martlet_queue_drop refuse`: what is answered with success is lost nowhere, on whichever shards publishers and
/// receivers are.
@Suite struct FullQueueTests {
    private static let queueMax = 10

    private func broker(_ shards: Int, store: SimulatedStore? = nil, _ change: (inout BrokerSettings) -> Void = { _ in })
        -> SimulatedBroker
    {
        let settings = SimulatedBroker.testSettings {
            $0.queueOverflow = .refusesPublisher
            $0.queuedMessagesMax = Self.queueMax
            change(&$0)
        }
        return SimulatedBroker(shards: shards, settings: settings, store: store)
    }

    /// Clients with a name and a number, the first ones on each shard in turn.
    private func identifiers(_ name: String, _ broker: SimulatedBroker, count: Int) -> [EncodedString] {
        (0..<count).map { number in
            let names = (0...).lazy.map { "\(name) \(number) \($0)" as EncodedString }
            return names.first { broker.shard(of: $0) == number % broker.shardCount } ?? ""
        }
    }

    private func absent(_ name: String, _ broker: SimulatedBroker, count: Int = 1, _ filters: TopicFilter...) -> [TestClient] {
        identifiers(name, broker, count: count).map { identifier in
            let client = broker.client(identifier)
            client.connect(expiry: 1000)
            for filter in filters { client.subscribe(filter) }
            client.lose()
            return client
        }
    }

    private func publishers(_ broker: SimulatedBroker, version: ProtocolVersion = .v5) -> [TestClient] {
        identifiers("publisher", broker, count: 4).map { identifier in
            let client = broker.client(identifier, version: version)
            client.connect(clean: version == .v5)
            return client
        }
    }

    private func isTaken(_ answer: AcknowledgementPacket?) -> Bool { answer.map { !$0.reasonCode.isError } ?? false }

    @Test(arguments: [(1, false), (4, false), (4, true)], [QoS.atLeastOnce, .exactlyOnce])
    func `every receiver gets what was answered with success, and nothing of what was not`(
        shards: (count: Int, areStored: Bool), qos: QoS
    ) {
        let broker = broker(shards.count, store: shards.areStored ? SimulatedStore() : nil)
        let receivers = absent("receiver", broker, count: 4, "t/#")
        let publishers = publishers(broker)
        var taken: [String] = []
        var refused = 0
        for number in 0..<80 {
            let answer = publishers[number % 4].publish("t/\(number % 7)", "\(number)", qos: qos)
            if isTaken(answer) { taken.append("\(number)") } else { refused += 1 }
            if let answer, answer.reasonCode.isError { #expect(answer.reasonCode == .quotaExceeded) }
        }
        #expect(taken.count == Self.queueMax && refused == 80 - Self.queueMax)
        for receiver in receivers {
            receiver.connect(clean: false, expiry: 1000)
            #expect(receiver.texts == taken)
        }
        #expect(broker.statistics().drops[.queueFull] == 0)
        #expect(isTaken(publishers[3].publish("t/1", "again", qos: qos)))
        #expect(receivers.allSatisfy { $0.texts.last == "again" })
    }

    @Test(arguments: [1, 4], [1, 2, 3] as [UInt64])
    func `what was on its way when a queue became full is queued all the same`(shards: Int, seed: UInt64) {
        let settings = SimulatedBroker.testSettings {
            $0.queueOverflow = .refusesPublisher
            $0.queuedMessagesMax = Self.queueMax
        }
        let broker = SimulatedBroker(shards: shards, settings: settings, seed: seed)
        let receivers = absent("receiver", broker, count: 4, "t/#") + absent("shared", broker, count: 1, "$share/group/t/#")
        let publishers = publishers(broker)
        for number in 0..<80 { publishers[number % 4].publish("t", "\(number)", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        var taken = 0
        for publisher in publishers {
            let answers = publisher.acknowledgements(.puback)
            #expect(answers.count == 20)
            taken += answers.count { !$0.reasonCode.isError }
        }
        #expect(taken >= Self.queueMax)
        for receiver in receivers {
            receiver.connect(clean: false, expiry: 1000)
            #expect(receiver.messages.count == taken)
        }
    }

    @Test(arguments: [1, 4]) func `a queue takes messages again when half of it is gone, or it ends, or looks elsewhere`(
        shards: Int
    ) {
        for way in 0..<4 {
            let broker = broker(shards)
            let receiver = absent("receiver", broker, "t", "other")[0]
            let publishers = publishers(broker)
            for _ in 0..<Self.queueMax { publishers[0].publish("t", "x", qos: .atLeastOnce) }
            #expect(publishers.allSatisfy { !isTaken($0.publish("t", qos: .atLeastOnce)) })
            #expect(publishers.allSatisfy { !isTaken($0.publish("other", qos: .exactlyOnce)) })
            #expect(publishers.allSatisfy { isTaken($0.publish("elsewhere", qos: .exactlyOnce)) })
            receiver.acknowledgement = .manual
            switch way {
            case 0:
                var properties = Properties()
                properties.receiveMaximum = 1
                receiver.connect(clean: false, expiry: 1000, properties: properties)
                for _ in 0..<5 { receiver.acknowledge(.puback, receiver.publishes.last?.packetIdentifier ?? 0, .unspecifiedError) }
            case 1: receiver.connect(clean: true)
            case 2: broker.advance(seconds: 1001)
            default:
                receiver.connect(clean: false, expiry: 1000) { $0.isReading = false }
                receiver.unsubscribe("t", "other")
            }
            #expect(isTaken(publishers[0].publish("t", qos: .atLeastOnce)), "\(way)")
            #expect(publishers.allSatisfy { isTaken($0.publish("other", qos: .atLeastOnce)) }, "\(way)")
        }
    }

    @Test(arguments: [1, 4]) func `a subscription that a session with a full queue adds or changes counts`(shards: Int) {
        let broker = broker(shards)
        let receiver = absent("receiver", broker, "t")[0]
        let publishers = publishers(broker)
        for _ in 0..<2 * Self.queueMax { publishers[0].publish("t", "x", qos: .atLeastOnce) }
        receiver.acknowledgement = .manual
        var properties = Properties()
        properties.receiveMaximum = 1
        receiver.connect(clean: false, expiry: 1000, properties: properties)
        receiver.subscribe("new", qos: .atLeastOnce)
        #expect(publishers.dropFirst().allSatisfy { !isTaken($0.publish("new", qos: .atLeastOnce)) || shards == 1 })
        receiver.subscribe("new", qos: .atMostOnce)
        #expect(publishers.allSatisfy { isTaken($0.publish("new", qos: .atLeastOnce)) }, "QoS 0 does not wait")
        receiver.subscribe("new", qos: .exactlyOnce)
        receiver.unsubscribe("new")
        #expect(publishers.allSatisfy { isTaken($0.publish("new", qos: .atLeastOnce)) })
        receiver.disconnect(expiry: 0)
        #expect(publishers.allSatisfy { isTaken($0.publish("t", qos: .atLeastOnce)) })
    }

    @Test(arguments: [1, 4]) func `a share group refuses only when all its members are full`(shards: Int) {
        let broker = broker(shards)
        let members = absent("member", broker, count: 3, "$share/group/t")
        let publishers = publishers(broker)
        let answers = (0..<50).map { publishers[$0 % 4].publish("t", "\($0)", qos: .atLeastOnce) }
        #expect(answers.count { isTaken($0) } == 3 * Self.queueMax)
        for member in members {
            member.connect(clean: false, expiry: 1000)
            #expect(member.messages.count >= Self.queueMax)
        }
        let total = members.reduce(0) { $0 + $1.messages.count }
        #expect(total == 3 * Self.queueMax)
        #expect(publishers.allSatisfy { isTaken($0.publish("t", qos: .atLeastOnce)) })
    }

    @Test(arguments: [1, 4]) func `who may not read a topic holds up none of its publishers, and helps no share group`(shards: Int)
    {
        func rule(_ permission: AccessPermission, _ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        let rules = AccessControl(
            anonymous: [], users: ["low": [rule(.read, "low")].compactMap { $0 }, "high": [rule(.read, "#")].compactMap { $0 }],
            patterns: [rule(.write, "#")].compactMap { $0 })
        let broker = broker(shards) { $0.listeners[0].accessControl = rules }
        func absent(_ name: String, _ filter: TopicFilter) -> [TestClient] {
            identifiers(name, broker, count: 4).map { identifier in
                let client = broker.client(identifier)
                client.connect(expiry: 1000, userName: name == "low" ? "low" : "high")
                client.subscribe(filter)
                client.lose()
                return client
            }
        }
        let low = absent("low", "#")
        let members = absent("high", "$share/group/shared")
        for client in low {
            client.connect(clean: false, expiry: 1000, userName: "low")
            client.subscribe("$share/group/shared")
            client.lose()
        }
        let publishers = publishers(broker)
        for number in 0..<40 { publishers[number % 4].publish("low", qos: .atLeastOnce) }
        #expect(publishers.allSatisfy { !isTaken($0.publish("low", qos: .atLeastOnce)) })
        #expect(publishers.allSatisfy { isTaken($0.publish("high", qos: .atLeastOnce)) })
        let answers = (0..<80).map { publishers[$0 % 4].publish("shared", qos: .atLeastOnce) }
        #expect(answers.count { isTaken($0) } == members.count * Self.queueMax)
    }

    @Test(arguments: [1, 4]) func `wills and retained messages, of which nobody is told, do not make a full queue longer`(
        shards: Int
    ) {
        let broker = broker(shards)
        let receiver = absent("receiver", broker, "t")[0]
        let publishers = publishers(broker)
        for number in 0..<30 {
            let client = broker.client("will \(number)")
            client.connect(will: Will(topic: "t", payload: [1], qos: .atLeastOnce))
            client.lose()
        }
        publishers[0].publish("retained", "x", qos: .atLeastOnce, retain: true)
        receiver.acknowledgement = .manual
        receiver.connect(clean: false, expiry: 1000)
        for _ in 0..<30 { receiver.subscribe("retained") }
        receiver.lose()
        receiver.acknowledgement = .automatic
        receiver.forgetSession()
        let before = receiver.messages.count
        receiver.connect(clean: false, expiry: 1000)
        #expect(receiver.messages.count - before <= 20 + Self.queueMax)
        #expect(broker.statistics().drops[.queueFull] > 0)
    }

    @Test(arguments: [(1, 4), (4, 1), (4, 4)]) func `a queue that was full is full after a start`(before: Int, after: Int) {
        let broker = broker(before, store: SimulatedStore())
        let receiver = absent("receiver", broker, "t")[0]
        let first = publishers(broker)
        for number in 0..<40 { first[number % 4].publish("t", qos: .atLeastOnce) }
        let next = broker.crashed(shards: after)
        next.settle()
        let second = publishers(next)
        #expect(second.allSatisfy { !isTaken($0.publish("t", qos: .atLeastOnce)) })
        receiver.comeBack(to: next)
        #expect(receiver.messages.count == Self.queueMax)
        #expect(second.allSatisfy { isTaken($0.publish("t", qos: .atLeastOnce)) })
    }

    @Test(arguments: [1, 4]) func `a reload begins and ends it`(shards: Int) {
        let broker = broker(shards)
        _ = absent("receiver", broker, "t")
        let publishers = publishers(broker)
        for number in 0..<40 { publishers[number % 4].publish("t", qos: .atLeastOnce) }
        for (overflow, isTaken) in [(QueueOverflow.dropsNewest, true), (.refusesPublisher, false), (.dropsOldest, true)] {
            for core in broker.cores {
                var settings = core.settings
                settings.queueOverflow = overflow
                core.apply(settings)
            }
            broker.advance(milliseconds: 1)
            #expect(publishers.allSatisfy { self.isTaken($0.publish("t", qos: .atLeastOnce)) == isTaken })
        }
    }

    @Test(arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `a client of 3_1_1 gets no answer, and sends again when there is room, in order`(shards: Int, qos: QoS) {
        let broker = broker(shards)
        let receiver = absent("receiver", broker, "t/#")[0]
        let publishers = publishers(broker, version: .v311)
        for number in 0..<Self.queueMax { publishers[0].publish("t/1", "\(number)", qos: qos) }
        var unanswered: [[String]] = []
        for (place, publisher) in publishers.enumerated() {
            #expect(publisher.publish("t/1", "\(place) first", qos: qos) == nil)
            #expect(publisher.publish("elsewhere", "x", qos: qos) == nil, "nothing overtakes it")
            #expect(publisher.publish("t/2", "\(place) second", qos: qos) == nil)
            #expect(publisher.isConnected)
            unanswered.append(["\(place) first", "\(place) second"])
        }
        receiver.connect(clean: false, expiry: 1000)
        broker.settle()
        #expect(publishers.allSatisfy { $0.connection?.isClosed == true })
        for publisher in publishers {
            publisher.resendsAtOnce = true
            publisher.connect(clean: false)
            #expect(publisher.unfinished.isEmpty)
        }
        #expect(receiver.texts == (0..<Self.queueMax).map(String.init) + unanswered.flatMap { $0 })
    }

    @Test(arguments: [1, 4]) func `a client of 3_1_1 gets no answer either when memory is short`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 4000 })
        let publisher = broker.connected("publisher", version: .v311)
        // On the publisher's own shard.
        let receiver = broker.client(
            (0...).lazy.map { "r \($0)" }.first { broker.shard(of: $0) == broker.shard(of: "publisher") } ?? "")
        receiver.connect(expiry: 1000)
        receiver.subscribe("t")
        receiver.lose()
        var count = 0
        while count < 10, publisher.publish("t", bytes: Array(repeating: 1, count: 1000), qos: .atLeastOnce) != nil { count += 1 }
        #expect(count < 10 && publisher.isConnected)
        receiver.connect(clean: false, expiry: 1000)
        broker.advance(milliseconds: 1)
        #expect(publisher.connection?.isClosed == true)
        #expect(receiver.messages.count == count)
    }
}
