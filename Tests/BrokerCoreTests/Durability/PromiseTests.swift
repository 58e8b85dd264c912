import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What is acknowledged when: not before it would survive a power cut, and no later than that.
@Suite struct PromiseTests {
    private func brokerWithAwaySubscriber(shards: Int, qos: QoS = .exactlyOnce) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        _ = awaySubscriber(of: broker, qos: qos)
        return broker
    }

    /// A client whose session has subscribed to `t`, and that has gone.
    private func awaySubscriber(of broker: SimulatedBroker, qos: QoS = .atLeastOnce) -> TestClient {
        let subscriber = broker.connected("subscriber", expiry: .max)
        subscriber.subscribe("t", qos: qos)
        subscriber.disconnect()
        return subscriber
    }

    @Test(.statement("MQTT-4.3.2-4", .v5), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `PUBACK waits until the message is on the disk`(shards: Int, version: ProtocolVersion) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let publisher = broker.connected("publisher", version: version)
        broker.store?.mode = .paused
        #expect(publisher.publish("t", "1", qos: .atLeastOnce) == nil)
        #expect(publisher.unfinished.count == 1)
        broker.commit()
        #expect(publisher.unfinished.isEmpty)
    }

    @Test(arguments: [1, 4]) func `PUBREC and PUBCOMP wait for the disk`(shards: Int) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let publisher = broker.connected("publisher", expiry: 100)
        broker.store?.mode = .paused
        #expect(publisher.publish("t", "1", qos: .exactlyOnce) == nil)
        broker.commit()
        // PUBREC came, PUBREL went, and the end of the flow waits for the disk again.
        #expect(publisher.unfinished.count == 1)
        broker.commit()
        #expect(publisher.unfinished.isEmpty)
    }

    @Test(arguments: [1, 4]) func `SUBACK and UNSUBACK wait for the disk`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let client = broker.connected("client", expiry: 100)
        broker.store?.mode = .paused
        #expect(client.subscribe("t") == nil)
        broker.commit()
        #expect(client.packets.contains { if case .suback = $0 { true } else { false } })
        #expect(client.unsubscribe("t") == nil)
        broker.commit()
        #expect(client.packets.contains { if case .unsuback = $0 { true } else { false } })
    }

    @Test func `CONNACK of a session that lasts waits for the disk, and all behind it`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        broker.store?.mode = .paused
        let client = broker.client("client")
        #expect(client.connect(expiry: 100) == nil)
        #expect(broker.client("passing").connect() != nil, "a session that ends with its connection waits for nothing")
        broker.commit()
        #expect(client.isConnected)
    }

    @Test(arguments: [1, 4]) func `what nobody is to keep is acknowledged at once`(shards: Int) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let passing = broker.connected("passing")
        passing.subscribe("other")
        let publisher = broker.connected("publisher")
        broker.store?.mode = .paused
        #expect(publisher.publish("other", "1", qos: .atLeastOnce)?.reasonCode == .success)
        #expect(publisher.publish("other", "2", qos: .exactlyOnce)?.reasonCode == .success)
        #expect(publisher.publish("nobody", "3", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
        #expect(passing.texts == ["1", "2"])
    }

    @Test func `acknowledgements keep their order whether they wait or not`() {
        let broker = brokerWithAwaySubscriber(shards: 1)
        let publisher = broker.connected("publisher")
        broker.store?.mode = .paused
        publisher.publish("t", "1", qos: .atLeastOnce)
        publisher.publish("nobody", "2", qos: .atLeastOnce)
        #expect(publisher.unfinished.count == 2)
        broker.commit()
        let answers = publisher.packets.compactMap {
            if case .acknowledgement(let answer) = $0 { answer.packetIdentifier } else { nil }
        }
        #expect(answers == [1, 2])
    }

    @Test func `a message that all have acknowledged before its commit never reaches the disk`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 100)
        subscriber.subscribe("t", qos: .atLeastOnce)
        let away = broker.connected("away", expiry: 100)
        away.subscribe("away", qos: .atLeastOnce)
        away.disconnect()
        let publisher = broker.connected("publisher")
        broker.store?.mode = .paused
        // The store is busy with this one …
        publisher.publish("away", "kept", qos: .atLeastOnce)
        // … while this one comes and goes.
        publisher.publish("t", "passing", qos: .atLeastOnce)
        #expect(subscriber.texts == ["passing"])
        let before = broker.store?.commitCount
        broker.commit()
        #expect(publisher.unfinished.isEmpty)
        #expect(broker.store?.commitCount == before.map { $0 + 1 })
        #expect(broker.store?.waitingCount == 0)
        #expect(broker.store?.rows[.entry]?.count == 1)
    }

    @Test(arguments: [1, 4]) func `a QoS 2 message goes out only when its packet identifier is on the disk`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let subscriber = broker.connected("subscriber", expiry: 100)
        subscriber.subscribe("t", qos: .exactlyOnce)
        let publisher = broker.connected("publisher")
        broker.store?.mode = .paused
        publisher.publish("t", "1", qos: .exactlyOnce)
        #expect(subscriber.texts.isEmpty)
        broker.commit()
        #expect(subscriber.texts == ["1"])
        broker.store?.mode = .prompt
        broker.settle()
        #expect(publisher.unfinished.isEmpty)
        #expect(broker.store?.rows[.entry]?.isEmpty == true)
        #expect(broker.store?.rows[.flow]?.isEmpty ?? true)
    }

    @Test func `no PUBREL overtakes one that waits for the disk`() {
        let broker = brokerWithAwaySubscriber(shards: 1)
        let client = broker.connected("client")
        client.acknowledgement = .manual
        client.subscribe("u", qos: .exactlyOnce)
        let publisher = broker.connected("publisher")
        for number in 0..<2 { publisher.publish("u", "\(number)", qos: .exactlyOnce) }
        broker.store?.mode = .paused
        publisher.publish("t", "kept", qos: .exactlyOnce)
        // The first with its reason written out: it goes the long way.
        client.connection?.send([0x50, 0x03, 0x00, 0x01, 0x00])
        client.connection?.send([0x50, 0x02, 0x00, 0x02])
        broker.settle()
        let before = client.acknowledgements(.pubrel).map { $0.packetIdentifier }
        broker.commit()
        #expect(before.isEmpty || before.first == 1)
        #expect(client.acknowledgements(.pubrel).map { $0.packetIdentifier } == [1, 2])
    }

    @Test(arguments: [1, 4]) func `QoS 0 goes on while the disk is awaited`(shards: Int) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let listener = broker.connected("listener")
        listener.subscribe("t")
        let publisher = broker.connected("publisher")
        broker.store?.mode = .paused
        publisher.publish("t", "1", qos: .atLeastOnce)
        publisher.publish("t", "2")
        #expect(listener.texts == ["1", "2"])
    }

    @Test(arguments: [1, 4]) func `a full disk refuses what must be kept and nothing else`(shards: Int) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let listener = broker.connected("listener")
        listener.subscribe("#")
        let modern = broker.connected("modern")
        let early = broker.connected("early", version: .v311)
        broker.store?.mode = .full
        // The first one finds out; it stays without an answer.
        #expect(modern.publish("t", "1", qos: .atLeastOnce) == nil)
        let second = broker.connected("second")
        #expect(second.publish("t", "2", qos: .atLeastOnce)?.reasonCode == .quotaExceeded)
        #expect(second.publish("r", "2", retain: true) == nil)
        #expect(early.publish("t", "3", qos: .atLeastOnce) == nil)
        #expect(second.publish("free", "4", qos: .exactlyOnce)?.reasonCode == (shards == 1 ? .success : .quotaExceeded))
        second.publish("t", "5")
        #expect(listener.texts.contains("5"))
        #expect(broker.client("lasting").connect(expiry: 100)?.reasonCode == .quotaExceeded)
        #expect(broker.client("passing").connect()?.isAccepted == true)
        broker.store?.mode = .prompt
        broker.settle()
        #expect(modern.unfinished.isEmpty, "there is room again")
        #expect(second.publish("t", "6", qos: .atLeastOnce)?.reasonCode == .success)
        let next = broker.crashed()
        let subscriber = next.client("subscriber")
        #expect(subscriber.connect(clean: false, expiry: .max)?.sessionPresent == true)
        #expect(subscriber.texts == ["1", "6"])
    }

    @Test(arguments: [1, 4]) func `who lasts is told of a full disk too, and waits for no room`(shards: Int) {
        let broker = brokerWithAwaySubscriber(shards: shards)
        let lasting = broker.connected("lasting", expiry: 100)
        let modern = broker.connected("modern")
        broker.store?.mode = .full
        #expect(modern.publish("t", "1", qos: .atLeastOnce) == nil)
        #expect(lasting.publish("t", "2", qos: .atLeastOnce)?.reasonCode == .quotaExceeded)
    }

    @Test(arguments: [1, 4]) func `the broker tells of the store, and of its state at once`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.systemIntervalSeconds = 10 }
        let broker = SimulatedBroker(shards: shards, settings: settings, store: SimulatedStore())
        broker.settle()
        let owner = broker.connected("keeper", expiry: .max)
        owner.subscribe("kept", qos: .atLeastOnce)
        owner.disconnect()
        let watcher = broker.connected("watcher")
        watcher.subscribe("$SYS/broker/store/+")
        #expect(watcher.texts == ["ok"])
        let publisher = broker.connected("publisher")
        for (mode, word) in [(SimulatedStore.Mode.full, "full"), (.prompt, "ok"), (.failed, "failed")] {
            broker.store?.mode = mode
            publisher.publish("kept", word, qos: .atLeastOnce)
            broker.settle()
            #expect(watcher.texts.last == word)
        }
        #expect(watcher.texts.count == 4, "once each")
        broker.cores[0].recordStore(StoreFigures(bytes: 4096, rows: 3, commits: 2))
        broker.advance(seconds: 10)
        let figures = watcher.messages.suffix(3).map { "\($0.topic.dropFirst("$SYS/broker/store/".count)) \($0.text)" }
        #expect(figures.sorted() == ["bytes 4096", "commits 2", "rows 3"])
        let late = broker.connected("late")
        late.subscribe("$SYS/broker/store/state")
        #expect(late.texts == ["failed"])
    }

    @Test func `a store that has failed acknowledges nothing more`() {
        let broker = brokerWithAwaySubscriber(shards: 1)
        let publisher = broker.connected("publisher")
        broker.store?.mode = .failed
        #expect(publisher.publish("t", "1", qos: .atLeastOnce) == nil)
        broker.store?.mode = .prompt
        broker.settle()
        #expect(publisher.unfinished.count == 1)
        let second = broker.connected("second")
        #expect(second.publish("t", "2", qos: .atLeastOnce)?.reasonCode == .quotaExceeded)
        #expect(second.publish("free", "3", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
    }

    @Test func `a full store lets in who takes messages from it`() throws {
        let store = SimulatedStore()
        let broker = SimulatedBroker(store: store)
        let subscriber = awaySubscriber(of: broker)
        let publisher = broker.connected("publisher")
        publisher.publish("t", "kept", qos: .atLeastOnce)
        store.mode = .full
        publisher.publish("t", "under way", qos: .atLeastOnce)
        publisher.publish("t", "too much", qos: .atLeastOnce)
        #expect(subscriber.connect(clean: false, expiry: 1000)?.sessionPresent == true)
        #expect(subscriber.texts == ["kept", "under way"])
        let newcomer = broker.client("newcomer")
        #expect(newcomer.connect(expiry: 1000)?.reasonCode == .quotaExceeded)
    }

    @Test(arguments: [ProtocolVersion.v311, .v5])
    func `who was left without an answer by a full store is made to send again when it has room`(version: ProtocolVersion) {
        let store = SimulatedStore()
        let broker = SimulatedBroker(store: store)
        let subscriber = awaySubscriber(of: broker)
        let publisher = broker.client("publisher", version: version)
        publisher.resendsAtOnce = true
        publisher.connect(clean: false, expiry: version == .v5 ? 1000 : nil)
        store.mode = .full
        publisher.publish("t", "1", qos: .atLeastOnce, until: .sent)
        broker.settle()
        publisher.publish("t", "2", qos: .atLeastOnce, until: .sent)
        broker.settle()
        #expect(publisher.isConnected)
        store.mode = .prompt
        broker.settle()
        #expect(publisher.isConnected == (version == .v5))
        publisher.connect(clean: false, expiry: version == .v5 ? 1000 : nil)
        #expect(publisher.unfinished.isEmpty)
        subscriber.connect(clean: false, expiry: 1000)
        #expect(Set(subscriber.texts) == (version == .v5 ? ["1"] : ["1", "2"]), "5.0 was told 0x97 for the second")
    }
}
