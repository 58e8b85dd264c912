import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// What an operator limits, told with the codes that 5.0 has for it.
@Suite struct Operator5Tests {
    private static let accessControl: AccessControl = {
        var rules: [AccessRule] = []
        if let open = AccessFilter(Array("open/#".utf8), isPattern: false) { rules.append(AccessRule([.read, .write], open)) }
        if let read = AccessFilter(Array("read/#".utf8), isPattern: false) { rules.append(AccessRule([.read], read)) }
        return AccessControl(anonymous: rules, users: [:], patterns: [])
    }()

    @Test(.statement("MQTT-4.3.3-9", .v5), arguments: [1, 4])
    func `what access forbids is refused with 0x87, and goes to nobody`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners = [ListenerPolicy(), ListenerPolicy()]
            $0.listeners[1].accessControl = Self.accessControl
            $0.listeners[1].checksAccessOnSubscribe = true
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let witness = broker.connected("witness")
        witness.subscribe("#")
        let client = broker.client("a")
        client.connect(listener: 1)
        for (topic, reason): (EncodedString, ReasonCode) in [
            ("open/a", .success), ("read/a", .notAuthorized), ("other", .notAuthorized),
        ] {
            for qos in [QoS.atLeastOnce, .exactlyOnce] {
                #expect(client.publish(topic, qos: qos, retain: true)?.reasonCode == reason)
            }
            client.publish(topic)
        }
        #expect(witness.messages.map(\.topic) == ["open/a", "open/a", "open/a"])
        #expect(client.unfinished == [])
        let answer = client.subscribe([
            Subscription(filter: "other"), Subscription(filter: "read/+"), Subscription(filter: "open/#"),
        ])
        #expect(answer?.reasonCodes == [.notAuthorized, .success, .success])
        witness.publish("read/a", "yes")
        witness.publish("other", "no")
        #expect(client.texts.last == "yes")
    }

    @Test(arguments: [1, 4]) func `a client that sends too fast is ended with 0x96`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.messagesPerSecondMax = 10 })
        let client = broker.connected("a")
        for _ in 0..<10 { client.publish("t") }
        #expect(client.ending == .open)
        for _ in 0..<30 { client.publish("t") }
        #expect(client.ending == .closed(.messageRateTooHigh))
    }

    @Test(arguments: [1, 4]) func `a client that sends too much is ended with 0x97`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.bytesPerSecondMax = 100 })
        let client = broker.connected("a")
        for _ in 0..<5 { client.publish("t", "0123456789") }
        #expect(client.ending == .open)
        for _ in 0..<50 { client.publish("t", "0123456789") }
        #expect(client.ending == .closed(.quotaExceeded))
    }

    @Test(arguments: [1, 4]) func `a client that the operator wants gone is ended with 0x98`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        let other = broker.connected("b")
        #expect(broker.cores.count { $0.disconnect("a") } == 1)
        broker.settle()
        #expect(client.ending == .closed(.administrativeAction))
        #expect(other.ending == .open)
        #expect(broker.cores.count { $0.disconnect("nobody") } == 0)
    }

    @Test(arguments: [1, 4]) func `clients of a listener that is closed are ended with 0x98, and those of others stay`(shards: Int)
    {
        let settings = SimulatedBroker.testSettings { $0.listeners = [ListenerPolicy(), ListenerPolicy()] }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let here = broker.connected("here")
        let elsewhere = broker.client("elsewhere")
        elsewhere.connect(listener: 1)
        let silent = broker.open(listener: 1)
        broker.settle()
        var closed = settings
        closed.listeners[1].isClosed = true
        closed.listeners.append(ListenerPolicy())
        for core in broker.cores { core.apply(closed) }
        broker.settle()
        #expect(elsewhere.ending == .closed(.administrativeAction))
        #expect(silent.isClosed)
        #expect(here.ending == .open)
        // By the new one clients come in, also where a shard before them has taken up the settings.
        let newcomer = broker.client("newcomer")
        newcomer.connect(listener: 2)
        broker.settle()
        #expect(newcomer.ending == .open)
        #expect(broker.cores.count { $0.disconnect("newcomer") } == 1)
    }

    @Test(arguments: [1, 4]) func `clients without a name are ended with 0x87 when they are not let in any more`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners = [ListenerPolicy(), ListenerPolicy()] }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let stranger = broker.connected("stranger")
        let named = broker.client("named")
        named.connect(userName: "u")
        let elsewhere = broker.client("elsewhere")
        elsewhere.connect(listener: 1)
        let older = broker.connected("older", version: .v311)
        for core in broker.cores { core.apply(settings) }
        broker.settle()
        #expect(stranger.ending == .open)
        var stricter = settings
        stricter.listeners[0].allowsAnonymous = false
        for core in broker.cores { core.apply(stricter) }
        broker.settle()
        #expect(stranger.ending == .closed(.notAuthorized))
        #expect(older.ending != .open)
        #expect(named.ending == .open)
        #expect(elsewhere.ending == .open)
    }
}
