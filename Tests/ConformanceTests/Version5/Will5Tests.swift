import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.1.2.5 and 3.1.3.2: the will.
@Suite struct Will5Tests {
    private func witness(_ broker: SimulatedBroker) -> TestClient {
        let witness = broker.connected("witness")
        witness.subscribe("will/#", retainAsPublished: true)
        return witness
    }

    private func will(delay: UInt32? = nil, qos: QoS = .atLeastOnce, retain: Bool = false) -> Will {
        Will(
            topic: "will/a", payload: Array("gone".utf8), qos: qos, retain: retain,
            properties: .having { $0.willDelayInterval = delay })
    }

    @Test(
        .statement("MQTT-3.1.2-7", .v5), .statement("MQTT-3.1.2-8", .v5), .statement("MQTT-3.1.2-14", .v5),
        .statement("MQTT-3.1.2-15", .v5), arguments: [1, 4], [false, true])
    func `a lost connection's will is published with its QoS and RETAIN`(shards: Int, retain: Bool) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            let client = broker.client("a")
            client.connect(will: will(qos: qos, retain: retain))
            client.lose()
        }
        #expect(witness.messages.map(\.qos) == [.atMostOnce, .atLeastOnce, .exactlyOnce])
        #expect(witness.messages.map(\.retain) == [retain, retain, retain])
        #expect(witness.texts == ["gone", "gone", "gone"])
        let late = broker.connected("late")
        late.subscribe("will/#")
        #expect(late.texts == (retain ? ["gone"] : []))
    }

    @Test(.statement("MQTT-3.1.2-10", .v5), .statement("MQTT-3.14.4-3", .v5), arguments: [1, 4])
    func `a normal goodbye discards the will for good`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        for delay: UInt32? in [nil, 5] {
            let client = broker.client("a")
            client.connect(expiry: 100, will: will(delay: delay))
            client.disconnect()
            broker.advance(seconds: 200)
        }
        #expect(witness.messages.isEmpty)
    }

    @Test(
        .statement("MQTT-3.1.2-8", .v5),
        arguments: [0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x95, 0x96, 0x97, 0x98, 0x99] as [UInt8])
    func `any other goodbye publishes the will`(code: UInt8) {
        let broker = SimulatedBroker()
        let witness = witness(broker)
        let client = broker.client("a")
        client.connect(will: will())
        client.disconnect(ReasonCode(rawValue: code))
        #expect(witness.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.2-10", .v5), arguments: [1, 4])
    func `a published will is gone`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        let client = broker.client("a")
        client.connect(expiry: 100, will: will())
        client.lose()
        client.connect(clean: false, expiry: 100)
        client.lose()
        broker.advance(seconds: 200)
        #expect(witness.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: [1, 4])
    func `a will waits exactly for its delay, or for the end of the session if that is sooner`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        for (delay, expiry): (UInt32, UInt32) in [(10, 100), (100, 10), (10, .max), (10, 10)] {
            let client = broker.client("a")
            client.connect(expiry: expiry, will: will(delay: delay))
            client.lose()
            broker.advance(milliseconds: 9_900)
            #expect(witness.takeMessages().isEmpty)
            broker.advance(milliseconds: 200)
            #expect(witness.takeMessages().count == 1)
            broker.advance(seconds: 200)
            #expect(witness.takeMessages().isEmpty)
        }
        // A session without expiry ends with its connection.
        let client = broker.client("a")
        client.connect(will: will(delay: 10))
        client.lose()
        #expect(witness.takeMessages().count == 1)
    }

    @Test(.statement("MQTT-3.1.3-9", .v5), arguments: [1, 4], [false, true])
    func `coming back to the session in time keeps the will back`(shards: Int, takesOver: Bool) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        let client = broker.client("a")
        client.connect(expiry: 100, will: will(delay: 10))
        if !takesOver {
            client.lose()
            broker.advance(seconds: 9)
        }
        let second = broker.client("a")
        second.connect(clean: false, expiry: 100)
        broker.advance(seconds: 50)
        #expect(witness.messages.isEmpty)
        // Clean Start ends the session, and so the delay of a will whose connection ends just now. Of one that was
        // waiting, a new connection is all that is needed to keep it back.
        second.connect(clean: false, expiry: 100, will: will(delay: 10))
        if !takesOver { second.lose() }
        broker.client("a").connect(clean: true)
        broker.advance(seconds: 50)
        #expect(witness.texts == (takesOver ? ["gone"] : []))
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: [1, 4])
    func `a will without delay is published at takeover`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        broker.client("a").connect(expiry: 100, will: will())
        broker.client("a").connect(clean: false, expiry: 100)
        #expect(witness.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: [1, 4])
    func `a protocol error publishes the will`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        let client = broker.client("a")
        client.connect(will: will())
        client.send([0x00, 0x00])
        #expect(client.connection?.isClosed == true)
        #expect(witness.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.3-10", .v5), arguments: [1, 4])
    func `every property of a will travels, in order`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = witness(broker)
        let client = broker.client("a")
        let sent = Properties.having {
            $0.payloadFormatIndicator = 1
            $0.messageExpiryInterval = 77
            $0.contentType = "text/plain"
            $0.responseTopic = "answers"
            $0.correlationData = [0, 255]
            $0.userProperties = [
                UserProperty(name: "z", value: "1"), UserProperty(name: "a", value: "2"), UserProperty(name: "z", value: "1"),
                UserProperty(name: "", value: ""),
            ]
        }
        var will = will(delay: 5)
        will.properties = sent
        will.properties.willDelayInterval = 5
        client.connect(expiry: 100, will: will)
        client.lose()
        broker.advance(seconds: 6)
        // Its life begins when it is published: the delay does not count.
        #expect(witness.messages.map(\.properties) == [sent.with { $0.messageExpiryInterval = 77 }])
    }

    @Test(arguments: [1, 4]) func `an expired will is not delivered`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let absent = broker.connected("absent", expiry: 1000) { _ in }
        absent.subscribe("will/#")
        absent.lose()
        var will = will()
        will.properties.messageExpiryInterval = 10
        let client = broker.client("a")
        client.connect(will: will)
        client.lose()
        broker.advance(milliseconds: 10_100)
        absent.connect(clean: false)
        #expect(absent.messages.isEmpty)
    }

    @Test func `a client cannot speak in the broker's name through its will`() {
        let broker = SimulatedBroker()
        let witness = broker.connected("witness")
        witness.subscribe("$SYS/#")
        let client = broker.client("a")
        #expect(client.connect(will: Will(topic: "$SYS/broker/uptime"))?.reasonCode == .notAuthorized)
        client.lose()
        #expect(witness.messages.isEmpty)
    }

    @Test func `a will that is not the text it says it is may be refused`() {
        for checks in [false, true] {
            let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.validatesPayloadFormat = checks })
            let will = Will(topic: "t", payload: [0xFF], properties: .having { $0.payloadFormatIndicator = 1 })
            #expect(broker.client("a").connect(will: will)?.reasonCode == (checks ? .payloadFormatInvalid : .success))
        }
    }
}
