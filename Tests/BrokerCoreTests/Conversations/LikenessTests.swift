import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Where the standards leave a choice, the broker does as mosquitto, which its users come from.
@Suite struct LikenessTests {
    @Test(arguments: [PacketType.puback, .pubrec])
    func `who says that nobody subscribes at its end has taken the message`(type: PacketType) {
        let broker = SimulatedBroker()
        let bridge = broker.client("bridge")
        bridge.acknowledgement = .manual
        bridge.connect(clean: false, expiry: 100)
        bridge.subscribe("t", qos: type == .puback ? .atLeastOnce : .exactlyOnce)
        broker.connected("publisher").publish("t", "m", qos: .exactlyOnce)
        bridge.acknowledge(type, 1, .noMatchingSubscribers)
        broker.settle()
        #expect(bridge.connection?.isClosed == false)
        if type == .pubrec { bridge.acknowledge(.pubcomp, 1) }
        bridge.lose()
        bridge.connect(clean: false, expiry: 100)
        #expect(bridge.publishesOfConnection.isEmpty)
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `a topic of 201 levels passes, and one of 202 ends the connection`(shards: Int, version: ProtocolVersion) throws {
        let broker = SimulatedBroker(shards: shards)
        let deep = String(repeating: "a/", count: 200)
        let witness = broker.connected("witness", version: version)
        witness.subscribe(try #require(TopicFilter(deep + "#")), qos: .atLeastOnce)
        let passes = try #require(EncodedString(deep + "x"))
        #expect(broker.connected("a", version: version).publish(passes, qos: .atLeastOnce)?.reasonCode == .success)
        #expect(witness.messages.count == 1)
        let fails = try #require(EncodedString(deep + "x/y"))
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            let publisher = broker.connected("b", version: version)
            publisher.publish(fails, qos: qos)
            #expect(publisher.acknowledgements(.puback) + publisher.acknowledgements(.pubrec) == [])
            #expect(publisher.connection?.isClosed == true)
            if version == .v5 { #expect(publisher.disconnectReason == .malformedPacket) }
        }
        let subscriber = broker.connected("c", version: version)
        subscriber.subscribe(try #require(TopicFilter(deep + "x/#")))
        #expect(subscriber.connection?.isClosed == true)
        if version == .v5 { #expect(subscriber.disconnectReason == .malformedPacket) }
        #expect(witness.messages.count == 1)
    }

    @Test(arguments: [1, 4]) func `nobody publishes to a shared subscription's name`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("#")
        let client = broker.connected("a")
        for qos in [QoS.atLeastOnce, .exactlyOnce] {
            #expect(client.publish("$share/group/t", qos: qos)?.reasonCode == .notAuthorized)
        }
        #expect(client.publish("$shared/t", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
    }

    @Test func `a will that would be a command or a shared subscription is refused at CONNECT`() {
        let broker = SimulatedBroker()
        for topic: TopicName in ["$CONTROL/dynamic-security/v1", "$share/group/t"] {
            #expect(broker.client("a").connect(will: Will(topic: topic, payload: []))?.reasonCode == .notAuthorized)
        }
        #expect(broker.client("a").connect(will: Will(topic: "$CONTROL", payload: []))?.reasonCode == .success)
    }

    @Test func `whether a client without an identifier is given one is the listener's to say`() {
        let settings = SimulatedBroker.testSettings {
            $0.listeners = [ListenerPolicy(), ListenerPolicy()]
            $0.listeners[1].allowsEmptyClientIdentifier = false
        }
        let broker = SimulatedBroker(settings: settings)
        #expect(broker.client("").connect()?.reasonCode == .success)
        #expect(broker.client("").connect(listener: 1)?.reasonCode == .clientIdentifierNotValid)
    }

    @Test(arguments: [1, 4])
    func `another user who takes a Client Identifier does not keep the will of its owner back`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("will")
        let owner = broker.client("a")
        owner.connect(
            expiry: 100, will: Will(topic: "will", payload: [], properties: .having { $0.willDelayInterval = 10 }), userName: "u")
        owner.lose()
        broker.client("a").connect(userName: "v")
        #expect(witness.messages.count == 1)
    }

    @Test(arguments: [true, false]) func `who is refused something is told why, unless the operator wants it as mosquitto`(
        tells: Bool
    ) {
        let broker = SimulatedBroker(
            settings: SimulatedBroker.testSettings {
                $0.sendsReasonStrings = tells
                $0.listeners[0].allowsEmptyClientIdentifier = false
            })
        let refused = broker.client("")
        refused.connect()
        #expect((refused.connack?.properties.reasonString != nil) == tells)
        let first = broker.connected("a")
        broker.connected("a")
        let goodbye = first.packets.compactMap { if case .disconnect(let packet) = $0 { packet } else { nil } }
        #expect(goodbye.map { $0.properties.reasonString != nil } == [tells])
    }

    @Test(arguments: [1, 4]) func `PUBREC goes before the delivery that it stands for, and never says that nobody subscribes`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        #expect(client.publish("t", qos: .exactlyOnce)?.reasonCode == .success)
        #expect(client.publish("t", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
        client.subscribe("t")
        let before = client.packets.count
        client.publish("t", qos: .exactlyOnce, until: .answered)
        #expect(client.packets[before...].prefix(2).map(\.type) == [.pubrec, .publish])
    }

    // MARK: QoS 2 from a device that has forgotten what it sent

    /// What a device sends with packet identifier 1, whatever it sent before.
    private static func send(_ payload: String, to topic: EncodedString = "t", by device: TestClient) {
        device.send(
            .publish(
                PublishPacket(topic: topic, packetIdentifier: 1, qos: .exactlyOnce, payload: Array(payload.utf8))))
    }

    @Test(arguments: [1, 4], [false, true])
    func `a packet identifier that was not released and comes with another message is a new one`(shards: Int, isStored: Bool) {
        let broker = SimulatedBroker(shards: shards, store: isStored ? SimulatedStore() : nil)
        let witnesses = (0..<4).map { broker.client("witness \($0)") }
        for witness in witnesses {
            witness.connect(clean: false, expiry: 100)
            witness.subscribe("#")
        }
        let device = broker.client("device")
        device.connect(clean: false, expiry: 100)
        Self.send("before", by: device)
        device.lose()
        device.connect(clean: false, expiry: 100)
        Self.send("before", by: device)
        #expect(witnesses.allSatisfy { $0.texts == ["before"] }, "the same message is a copy")
        Self.send("after", by: device)
        Self.send("after", by: device)
        Self.send("after", to: "t2", by: device)
        #expect(device.acknowledgements(.pubrec).map(\.reasonCode) == Array(repeating: .success, count: 4))
        #expect(witnesses.allSatisfy { $0.texts == ["before", "after", "after"] })
        #expect(broker.logLines.count { $0.contains("Reused message ID 1 from device detected.") } == 2)
        device.acknowledge(.pubrel, 1)
        #expect(device.acknowledgements(.pubcomp).map(\.reasonCode) == [.success])
        Self.send("after", to: "t2", by: device)
        #expect(witnesses.allSatisfy { $0.texts.count == 4 }, "once released, the same message is another one")
    }

    @Test(arguments: [1, 4]) func `a long payload is told from another by its length and its ends`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("t")
        let device = broker.client("device")
        device.connect(clean: false, expiry: 100)
        let long = String(repeating: "x", count: 5000)
        for payload in [long, long, long + "y", "y" + long, "y" + long] { Self.send(payload, by: device) }
        #expect(witness.messages.map(\.payload.count) == [5000, 5001, 5001])
    }

    /// A device; and six sessions without a connection that subscribe to its topic, the last two of them in a share
    /// group.
    private static func deviceBesideWitnesses(of broker: SimulatedBroker) -> TestClient {
        for number in 0..<6 {
            let witness = broker.client("witness \(number)")
            witness.connect(clean: false, expiry: 1000)
            witness.subscribe(number < 4 ? "t" : "$share/g/t", qos: .exactlyOnce)
            witness.lose()
        }
        let device = broker.client("device")
        device.connect(clean: false, expiry: 1000)
        return device
    }

    /// The device comes back after a crash, sends its message again, and releases it: what each witness got, and the
    /// share group's together.
    private static func textsWhenSentAgain(_ payload: String, on broker: SimulatedBroker) -> (own: [[String]], shared: [String]) {
        let device = broker.client("device")
        device.connect(clean: false, expiry: 1000)
        send(payload, by: device)
        #expect(device.acknowledgements(.pubrec).map(\.reasonCode) == [.success])
        device.acknowledge(.pubrel, 1)
        let texts = (0..<6).map { number in
            let witness = broker.client("witness \(number)")
            witness.connect(clean: false, expiry: 1000)
            return witness.texts
        }
        return (Array(texts[..<4]), texts[4...].flatMap { $0 })
    }

    /// Whatever reaches the disk before a crash, the second message comes once.
    @Test(arguments: [(1, 1), (4, 4), (1, 4)])
    func `a message with an identifier that is in use arrives once, whatever a crash leaves`(before: Int, after: Int) {
        for committing in 0..<12 {
            let store = SimulatedStore()
            let broker = SimulatedBroker(shards: before, store: store)
            let device = Self.deviceBesideWitnesses(of: broker)
            Self.send("before", by: device)
            store.mode = .paused
            Self.send("after", by: device)
            let next = broker.crashed(committing: committing, shards: after)
            store.mode = .prompt
            let texts = Self.textsWhenSentAgain("after", on: next)
            for own in texts.own { #expect(own == ["before", "after"], "\(committing) commits") }
            #expect(texts.shared.sorted() == ["after", "before"], "\(committing) commits")
        }
    }

    /// With fewer loops after the crash nobody can tell which of them has lost its part: it may come twice, and is not
    /// lost.
    @Test(arguments: [(4, 1), (4, 3), (3, 2), (1, 4)])
    func `a message of QoS 2 that a crash cut short is not lost when the number of loops changes`(before: Int, after: Int) {
        // What reaches the disk before the crash: so many of the loops' batches, or all but one loop's.
        for (committing, late) in (0..<8).map({ ($0, nil) }) + (0..<before).map({ (0, $0) }) {
            let store = SimulatedStore()
            let broker = SimulatedBroker(shards: before, store: store)
            let device = Self.deviceBesideWitnesses(of: broker)
            store.lateShard = late
            if late == nil { store.mode = .paused }
            Self.send("message", by: device)
            let next = broker.crashed(committing: committing, shards: after)
            (store.mode, store.lateShard) = (.prompt, nil)
            let texts = Self.textsWhenSentAgain("message", on: next)
            for own in texts.own {
                #expect(Set(own) == ["message"], "\(committing) commits, late \(late ?? -1)")
                #expect(own.count <= 2)
            }
            #expect(Set(texts.shared) == ["message"], "\(committing) commits, late \(late ?? -1)")
        }
    }
}
