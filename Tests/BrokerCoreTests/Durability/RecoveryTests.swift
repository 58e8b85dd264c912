import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What a broker that starts again knows of its life before.
@Suite struct RecoveryTests {
    /// How many shards there are before and after.
    static let shardCounts = [(1, 1), (4, 4), (4, 1), (1, 3), (3, 4)]

    @Test(arguments: shardCounts) func `queued messages come in order, with all that belongs to them`(before: Int, after: Int) {
        let broker = SimulatedBroker(shards: before, store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 1000)
        var options = SubscribePacket(
            packetIdentifier: 9,
            subscriptions: [Subscription(filter: "t/#", options: SubscriptionOptions(maximumQoS: .exactlyOnce))])
        options.properties.subscriptionIdentifiers = [77]
        subscriber.connection?.send(.subscribe(options))
        broker.settle()
        subscriber.disconnect()
        let publisher = broker.connected("publisher")
        var properties = Properties()
        properties.contentType = "text/plain"
        for number in 0..<20 {
            publisher.publish(
                "t/\(number)", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce, properties: properties)
        }
        #expect(publisher.unfinished.isEmpty)

        let next = broker.crashed(shards: after)
        #expect(next.recovered.sessions == 1)
        #expect(next.recovered.subscriptions == 1)
        #expect(next.recovered.messages == 20)
        #expect(subscriber.comeBack(to: next)?.sessionPresent == true)
        #expect(subscriber.texts == (0..<20).map { "\($0)" })
        #expect(subscriber.messages.allSatisfy { $0.properties.subscriptionIdentifiers == [77] })
        #expect(subscriber.messages.allSatisfy { $0.properties.contentType == "text/plain" })
        next.connected("publisher").publish("t/new", "new", qos: .atLeastOnce)
        #expect(subscriber.texts.last == "new", "the subscription is there")
        #expect(next.store?.rows[.entry]?.isEmpty == true)
    }

    @Test(arguments: shardCounts, [300, 1000])
    func `a large message of many receivers is stored once and lost by none`(shards: (before: Int, after: Int), size: Int) {
        let (before, after) = shards
        let broker = SimulatedBroker(shards: before, store: SimulatedStore())
        let subscribers = (0..<8).map { broker.client("subscriber \($0)") }
        for subscriber in subscribers {
            subscriber.connect(expiry: 1000)
            subscriber.subscribe("t", qos: .atLeastOnce)
            subscriber.disconnect()
        }
        let text = String(repeating: "x", count: size)
        broker.connected("publisher").publish("t", text, qos: .atLeastOnce)
        if before == 1 { #expect(broker.store?.rows[.message]?.count == 1) }
        var next = broker.crashed(shards: after)
        next.settle()
        next = next.crashed()
        for subscriber in subscribers {
            subscriber.comeBack(to: next)
            #expect(subscriber.texts == [text])
        }
        next = next.crashed()
        next.settle()
        #expect(next.store?.rows[.entry]?.isEmpty == true)
        #expect(next.store?.rows[.message]?.isEmpty ?? true, "the row goes with the last entry")
    }

    @Test(arguments: shardCounts, [true, false])
    func `a large message stays as long as flows of it are open`(shards: (before: Int, after: Int), isLost: Bool) {
        let broker = SimulatedBroker(shards: shards.before, store: SimulatedStore())
        let subscribers = (0..<8).map { broker.client("subscriber \($0)") }
        for subscriber in subscribers {
            subscriber.acknowledgement = .withoutPubcomp
            subscriber.connect(expiry: 1000)
            subscriber.subscribe("t", qos: .exactlyOnce)
            if isLost { subscriber.disconnect() }
        }
        broker.connected("publisher").publish("t", String(repeating: "x", count: 1000), qos: .exactlyOnce)
        if isLost { for subscriber in subscribers { subscriber.connect(clean: false, expiry: 1000) } }
        #expect(broker.store?.rows[.flow]?.count == 8)
        var next = broker.crashed(shards: shards.after)
        next.settle()
        next = next.crashed()
        #expect(next.recovered.messages == 8)
        for subscriber in subscribers {
            subscriber.acknowledgement = .automatic
            subscriber.comeBack(to: next)
            #expect(subscriber.messages.count == 1)
        }
        for table in [StoreTable.entry, .message, .flow] { #expect(next.store?.rows[table]?.isEmpty ?? true) }
    }

    @Test(.statement("MQTT-3.3.1-1", .v5), .statement("MQTT-3.3.1-1", .v311), arguments: [true, false])
    func `what may have been sent before a crash is sent again as a duplicate, and nothing else`(wasConnected: Bool) {
        let broker = SimulatedBroker(store: SimulatedStore())
        let subscriber = broker.client("subscriber")
        subscriber.acknowledgement = .manual
        subscriber.connect(expiry: 1000)
        subscriber.subscribe("t", qos: .exactlyOnce)
        if !wasConnected { subscriber.disconnect() }
        let publisher = broker.connected("publisher")
        for number in 1...30 {
            publisher.publish("t", "\(number)", qos: .atLeastOnce)
            broker.advance(milliseconds: 50)
        }
        let sent = wasConnected ? 20 : 0
        #expect(subscriber.publishes.count == sent, "the window of mosquitto's default")
        let next = broker.crashed()
        subscriber.acknowledgement = .automatic
        subscriber.comeBack(to: next)
        let again = subscriber.publishesOfConnection
        #expect(again.map { String(decoding: $0.payload, as: UTF8.self) } == (1...30).map(String.init))
        #expect(again.map(\.duplicate) == (1...30).map { $0 <= sent })
    }

    /// Of each loop's batches a crash may leave any number: here the first, which ends the session.
    @Test func `what a share group's member leaves to another comes there, whatever of it is on the disk`() throws {
        let store = SimulatedStore()
        let broker = SimulatedBroker(shards: 2, store: store)
        let names = (0..<20).map { EncodedString("member \($0)") }
        let leaving = try #require(names.first { broker.shard(of: $0) == 0 })
        let successor = try #require(names.first { broker.shard(of: $0) == 1 })
        let members = [leaving, successor].map { broker.client($0) }
        for member in members {
            member.connect(expiry: 1000)
            member.subscribe("$share/g/t", qos: .exactlyOnce)
            member.disconnect()
        }
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("t", "\(number)", qos: number < 5 ? .atLeastOnce : .exactlyOnce) }
        #expect(publisher.unfinished.isEmpty)
        store.mode = .paused
        members[0].connect(clean: true)
        #expect(store.waitingCount > 0)

        for committing in 0...store.waitingCount {
            let copy = store.copy()
            copy.crash(committing: committing)
            let next = SimulatedBroker(shards: 2, store: copy)
            let (left, other) = (next.client(leaving), next.client(successor))
            left.connect(clean: false, expiry: 1000)
            other.connect(clean: false, expiry: 1000)
            next.settle()
            let came = left.texts + other.texts
            #expect(Set(came) == Set((0..<10).map { "\($0)" }), "\(committing) batches")
            // One of QoS 2 comes once, also where both shards have it on the disk.
            #expect(came.count { (Int($0) ?? 0) >= 5 } == 5, "\(committing) batches: \(came)")
        }
        // When both have told each other, nobody remembers any of it.
        store.mode = .prompt
        broker.settle()
        members[1].connect(clean: false, expiry: 1000)
        broker.advance(milliseconds: 100)
        #expect(store.rows[.relayed]?.isEmpty ?? true && store.rows[.entry]?.isEmpty ?? true)
    }

    @Test(arguments: shardCounts) func `retained messages are there, and those that were removed are not`(before: Int, after: Int) {
        let broker = SimulatedBroker(shards: before, store: SimulatedStore())
        let publisher = broker.connected("publisher")
        for number in 0..<30 { publisher.publish("r/\(number)", "old", qos: .atLeastOnce, retain: true) }
        for number in 0..<20 { publisher.publish("r/\(number)", "new \(number)", qos: .exactlyOnce, retain: true) }
        for number in 0..<10 { publisher.publish("r/\(number)", "", qos: .atLeastOnce, retain: true) }
        let next = broker.crashed(shards: after)
        #expect(next.recovered.retained == 20)
        let subscriber = next.connected("subscriber")
        subscriber.subscribe("r/#")
        #expect(Set(subscriber.texts) == Set((10..<20).map { "new \($0)" } + ["old"]))
        #expect(subscriber.messages.count == 20)
    }

    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: [(1, 1), (4, 4), (1, 2), (1, 3), (1, 4)], [0, 1])
    func `a QoS 2 message whose PUBREC was lost is taken once`(shards: (before: Int, after: Int), committing: Int) {
        let broker = SimulatedBroker(shards: shards.before, store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 1000)
        subscriber.subscribe("t", qos: .exactlyOnce)
        subscriber.disconnect()
        let publisher = broker.connected("publisher", expiry: 1000)
        broker.store?.mode = .paused
        publisher.publish("t", "once", qos: .exactlyOnce)
        let next = broker.crashed(committing: committing * 4, shards: shards.after)
        next.store?.mode = .prompt
        publisher.broker = next
        publisher.resendsAtOnce = true
        publisher.connect(clean: false, expiry: 1000)
        publisher.resend()
        #expect(publisher.unfinished.isEmpty)
        subscriber.comeBack(to: next)
        #expect(subscriber.texts == ["once"])
    }

    @Test(.statement("MQTT-4.4.0-1", .v5), arguments: [1, 4])
    func `an outgoing QoS 2 flow goes on where it was`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 1000)
        subscriber.subscribe("t", qos: .exactlyOnce)
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("publisher")
        publisher.publish("t", "1", qos: .exactlyOnce)
        publisher.publish("t", "2", qos: .exactlyOnce)
        #expect(subscriber.texts == ["1", "2"])
        let identifiers = subscriber.messages.compactMap(\.packetIdentifier)
        subscriber.connection?.send(
            .acknowledgement(AcknowledgementPacket(type: .pubrec, packetIdentifier: identifiers[0])))
        broker.settle()
        let next = broker.crashed()
        subscriber.acknowledgement = .automatic
        subscriber.comeBack(to: next)
        #expect(subscriber.texts == ["1", "2"], "a repeated QoS 2 message is known by its identifier")
        let again = subscriber.packetsOfConnection.compactMap { packet -> UInt16? in
            if case .publish(let publish) = packet { publish.packetIdentifier } else { nil }
        }
        #expect(again == [identifiers[1]], "the first one is past being sent")
        let releases = subscriber.packetsOfConnection.contains {
            if case .acknowledgement(let packet) = $0 {
                packet.type == .pubrel && packet.packetIdentifier == identifiers[0]
            } else {
                false
            }
        }
        #expect(releases)
        #expect(next.store?.rows[.flow]?.isEmpty == true)
        #expect(next.store?.rows[.entry]?.isEmpty == true)
    }

    @Test(arguments: [1, 4]) func `a long queue comes whole and in order`(shards: Int) {
        var settings = SimulatedBroker.testSettings
        settings.queuedMessagesMax = 0
        let broker = SimulatedBroker(shards: shards, settings: settings, store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 1000)
        subscriber.subscribe("t", qos: .atLeastOnce)
        subscriber.disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<600 { publisher.publish("t", "\(number)", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        #expect(publisher.unfinished.isEmpty)
        #expect(broker.statistics().storedMessages < 400, "long queues are left to the store")
        subscriber.connect(clean: false, expiry: 1000)
        #expect(subscriber.texts == (0..<600).map { "\($0)" })
        subscriber.disconnect()
        for number in 600..<1200 { publisher.publish("t", "\(number)", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        let next = broker.crashed()
        #expect(next.statistics().storedMessages == 0, "nothing is in memory before it is wanted")
        subscriber.comeBack(to: next)
        #expect(subscriber.texts == (0..<1200).map { "\($0)" })
    }

    @Test func `the session's clock runs on while the broker is down`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        let client = broker.connected("client", expiry: 100)
        client.disconnect()
        broker.advance(seconds: 50)
        let early = broker.crashed(afterMilliseconds: 40_000)
        #expect(early.recovered.sessions == 1)
        early.advance(seconds: 5)
        #expect(early.statistics().clientsTotal == 1)
        early.advance(seconds: 10)
        #expect(early.statistics().clientsTotal == 0)
        #expect(early.store?.rows[.session]?.isEmpty == true)
    }

    @Test(.statement("MQTT-3.1.2-23", .v5), arguments: [1, 4])
    func `what became due while the broker was down is done before the client comes back at once`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let watcher = broker.connected("watcher", expiry: 1000)
        watcher.subscribe("will", qos: .atLeastOnce)
        watcher.disconnect()
        var clients: [TestClient] = []
        for (name, delay, expiry) in [("over", UInt32(100), UInt32(10)), ("there", 10, 1000), ("early", 50, 1000)] {
            var will = Will(topic: "will", payload: Array(name.utf8), qos: .atLeastOnce)
            will.properties.willDelayInterval = delay
            let client = broker.client(EncodedString(name) ?? "")
            client.connect(expiry: expiry, will: will)
            client.lose()
            clients.append(client)
        }
        let next = broker.crashed(afterMilliseconds: 20_000)
        for client in clients { client.broker = next }
        #expect(clients.map { $0.connect(clean: false, expiry: 1000)?.sessionPresent } == [false, true, true])
        watcher.comeBack(to: next)
        #expect(watcher.texts.sorted() == ["over", "there"])
        let after = next.crashed()
        #expect(after.recovered.sessions == 4)
    }

    @Test(arguments: [1, 4]) func `the will of a client that the crash has cut off is published after its delay`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let watcher = broker.connected("watcher", expiry: 1000)
        watcher.subscribe("will", qos: .atLeastOnce)
        var will = Will(topic: "will", payload: Array("gone".utf8), qos: .atLeastOnce)
        will.properties.willDelayInterval = 30
        broker.client("client").connect(expiry: 1000, will: will)
        let next = broker.crashed()
        watcher.comeBack(to: next)
        #expect(watcher.texts.isEmpty)
        next.advance(seconds: 31)
        #expect(watcher.texts == ["gone"])
        #expect(next.crashed().recovered.messages == 0)
    }

    @Test func `a message's expiry is a time of day`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 1000)
        subscriber.subscribe("t", qos: .atLeastOnce)
        subscriber.disconnect()
        let publisher = broker.connected("publisher")
        for seconds in [UInt32(10), 100] {
            var properties = Properties()
            properties.messageExpiryInterval = seconds
            publisher.publish("t", "\(seconds)", qos: .atLeastOnce, properties: properties)
        }
        let next = broker.crashed(afterMilliseconds: 40_000)
        subscriber.comeBack(to: next)
        #expect(subscriber.texts == ["100"])
        #expect(subscriber.messages.first?.properties.messageExpiryInterval == 60)
    }

    @Test(arguments: shardCounts) func `share groups and what they gave their members come back`(before: Int, after: Int) {
        let broker = SimulatedBroker(shards: before, store: SimulatedStore())
        let members = ["a", "b"].map { broker.client($0) }
        for member in members {
            member.connect(expiry: 1000)
            member.subscribe("$share/g/t", qos: .atLeastOnce)
        }
        for member in members { member.disconnect() }
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        let next = broker.crashed(shards: after)
        #expect(next.recovered.messages == 10)
        for member in members { member.broker = next }
        members[0].connect(clean: false, expiry: 1000)
        members[1].connect(clean: true)
        let texts = members[0].texts
        #expect(Set(texts) == Set((0..<10).map { "\($0)" }), "what the other had is given on when its session ends")
    }

    @Test(arguments: [1, 4]) func `a session that ends leaves nothing behind`(shards: Int) {
        var settings = SimulatedBroker.testSettings
        settings.queuedMessagesMax = 0
        let broker = SimulatedBroker(shards: shards, settings: settings, store: SimulatedStore())
        let client = broker.connected("client", expiry: 1000)
        client.subscribe("t", qos: .atLeastOnce)
        client.subscribe("$share/g/u", qos: .atLeastOnce)
        client.publish("x", "1", qos: .exactlyOnce, until: .answered)
        client.disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<4200 { publisher.publish("t", "\(number)", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        client.connect(clean: true)
        broker.settle()
        for table in StoreTable.allCases where table != .broker {
            #expect(broker.store?.rows[table]?.isEmpty ?? true, "\(table.name)")
        }
    }
}
