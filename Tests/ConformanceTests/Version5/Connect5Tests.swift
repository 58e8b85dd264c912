import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.1: CONNECT, read and answered.
@Suite struct Connect5Tests {
    @Test(.statement("MQTT-3.1.0-1", .v5))
    func `a first packet other than CONNECT ends the connection without a word`() {
        let broker = SimulatedBroker()
        for first in stride(from: UInt8(0x20), through: 0xF0, by: 0x10) {
            #expect(broker.ending(afterFirst: [first, 0]) == .silent, "\(first)")
        }
        #expect(broker.ending(afterFirst: RawPacket.packet(0x30, RawPacket.text("t"), [0])) == .silent)
        #expect(broker.ending(afterFirst: [0, 0]) == .silent)
    }

    @Test(.statement("MQTT-3.1.0-2", .v5), arguments: [1, 4])
    func `a second CONNECT is a protocol error, whatever it holds`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let seconds = [
            RawPacket.connect(), RawPacket.connect(identifier: RawPacket.text("ending")), RawPacket.connect(level: 4),
            RawPacket.connect(name: "HTTP"), RawPacket.connect(level: 9),
        ]
        for second in seconds { #expect(broker.ending(after: second) == .closed(.protocolError), "\(second)") }
    }

    @Test(.statement("MQTT-3.1.2-1", .v5), arguments: ["", "MQT", "mqtt", "MQTTT", "HTTP"])
    func `another protocol name ends the connection`(name: String) {
        let ending = SimulatedBroker().ending(afterFirst: RawPacket.connect(name: name))
        #expect(ending.isClosed)
        #expect(ending.reason != .success)
    }

    @Test(.statement("MQTT-3.1.2-2", .v5), arguments: [0, 1, 2, 3, 6, 7, 0x7F] as [UInt8])
    func `another protocol version is refused`(level: UInt8) {
        let connection = SimulatedBroker().open()
        let answer = connection.exchange(RawPacket.connect(level: level))
        // Nobody knows what a client of such a version reads; 3.1.1's answer is the one that all were told.
        #expect(answer == [0x20, 2, 0, 1])
        #expect(connection.isClosed)
    }

    @Test(.statement("MQTT-3.1.2-3", .v5)) func `the reserved connect flag must be 0`() {
        #expect(SimulatedBroker().ending(afterFirst: RawPacket.connect(flags: 0x03)) == .closed(.malformedPacket))
    }

    @Test(
        .statement("MQTT-3.1.2-11", .v5), .statement("MQTT-3.1.2-12", .v5), .statement("MQTT-3.1.2-13", .v5),
        arguments: [0x0A, 0x12, 0x1A, 0x22, 0x3A] as [UInt8])
    func `will flags without a will are malformed`(flags: UInt8) {
        #expect(SimulatedBroker().ending(afterFirst: RawPacket.connect(flags: flags)) == .closed(.malformedPacket))
    }

    @Test(.statement("MQTT-3.1.2-12", .v5)) func `a will's QoS is 0, 1 or 2`() {
        let broker = SimulatedBroker()
        let will = [0] + RawPacket.text("t") + RawPacket.text("x")
        for qos in 0..<UInt8(4) {
            let ending = broker.ending(afterFirst: RawPacket.connect(flags: 0x06 | qos << 3, payload: will))
            #expect(ending == (qos == 3 ? .closed(.malformedPacket) : Ending(reason: .success, isClosed: false)), "\(qos)")
        }
    }

    @Test(
        .statement("MQTT-3.1.2-9", .v5), .statement("MQTT-3.1.2-16", .v5), .statement("MQTT-3.1.2-17", .v5),
        .statement("MQTT-3.1.2-18", .v5), .statement("MQTT-3.1.2-19", .v5), .statement("MQTT-3.1.3-1", .v5))
    func `the payload holds exactly the fields that the flags announce, in their order`() {
        let will = [0] + RawPacket.text("t") + RawPacket.text("x")
        let (user, password) = (RawPacket.text("user"), RawPacket.text("secret"))
        let fields: [(flag: UInt8, bytes: [UInt8])] = [(0x04, will), (0x80, user), (0x40, password)]
        for announced in 0..<8 {
            for present in 0..<8 {
                var flags: UInt8 = 0x02
                var payload: [UInt8] = []
                for (position, field) in fields.enumerated() {
                    if announced & 1 << position != 0 { flags |= field.flag }
                    if present & 1 << position != 0 { payload += field.bytes }
                }
                let ending = SimulatedBroker().ending(afterFirst: RawPacket.connect(flags: flags, payload: payload))
                // A user name alone and a password alone look the same.
                let isRight = announced == present || (announced ^ present == 6 && (announced & 6 == 2 || announced & 6 == 4))
                #expect(
                    ending == (isRight ? Ending(reason: .success, isClosed: false) : .closed(.malformedPacket)),
                    "announced \(announced), present \(present)")
            }
        }
    }

    @Test(.statement("MQTT-3.1.3-3", .v5), .statement("MQTT-3.1.3-4", .v5))
    func `the Client Identifier must be there and be UTF-8`() {
        let broker = SimulatedBroker()
        #expect(broker.ending(afterFirst: RawPacket.connect(identifier: [])) == .closed(.malformedPacket))
        #expect(
            broker.ending(afterFirst: RawPacket.connect(identifier: RawPacket.text([0xC0, 0x80]))) == .closed(.malformedPacket))
        #expect(broker.ending(afterFirst: RawPacket.connect(identifier: RawPacket.text([0x61, 0]))) == .closed(.malformedPacket))
    }

    @Test(.statement("MQTT-3.1.3-11", .v5), .statement("MQTT-3.1.3-12", .v5), .statement("MQTT-3.1.4-1", .v5))
    func `Will Topic and User Name must be UTF-8`() {
        let broker = SimulatedBroker()
        for bytes: [UInt8] in [[0xC0, 0x80], [0xED, 0xA0, 0x80], [0x61, 0], [0xFF]] {
            let will = [0] + RawPacket.text(bytes) + RawPacket.text("x")
            #expect(broker.ending(afterFirst: RawPacket.connect(flags: 0x06, payload: will)) == .closed(.malformedPacket))
            let user = RawPacket.connect(flags: 0x82, payload: RawPacket.text(bytes))
            #expect(broker.ending(afterFirst: user) == .closed(.malformedPacket))
        }
        // A password is no text.
        let password = RawPacket.connect(flags: 0x42, payload: RawPacket.text([0xFF, 0]))
        #expect(broker.ending(afterFirst: password).reason == .success)
    }

    @Test(.statement("MQTT-3.1.3-5", .v5), .statement("MQTT-3.1.3-2", .v5), arguments: [1, 4])
    func `identifiers of 1 to 23 letters and digits are accepted, and each names a session of its own`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let characters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        var identifiers = characters.map(String.init)
        identifiers += (2...23).map { String(characters.suffix($0)) }
        identifiers += ["a/b", "ü", String(repeating: "x", count: 500)]
        for identifier in identifiers {
            let client = broker.client(EncodedString(identifier) ?? "")
            #expect(client.connect(clean: false, expiry: 60)?.isAccepted == true)
            #expect(client.connack?.properties.assignedClientIdentifier == nil)
        }
        #expect(broker.statistics().clientsConnected == identifiers.count)
        for identifier in identifiers {
            let client = broker.client(EncodedString(identifier) ?? "")
            #expect(client.connect(clean: false)?.sessionPresent == true)
        }
    }

    @Test(.statement("MQTT-3.1.3-6", .v5), .statement("MQTT-3.1.3-7", .v5), .statement("MQTT-3.2.2-16", .v5), arguments: [1, 4])
    func `an assigned identifier is new, told, and good for coming back`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        var assigned: Set<EncodedString> = []
        for _ in 0..<10 {
            let client = broker.client("")
            client.connect(clean: false, expiry: 60)
            #expect(client.connack?.sessionPresent == false)
            guard let identifier = client.connack?.properties.assignedClientIdentifier else {
                Issue.record("no identifier was assigned")
                return
            }
            assigned.insert(identifier)
            client.subscribe("t")
            client.lose()
            #expect(broker.client(identifier).connect(clean: false)?.sessionPresent == true)
        }
        #expect(assigned.count == 10)
    }

    @Test(.statement("MQTT-3.1.3-8", .v5)) func `an identifier that is not accepted is refused with 0x85`() {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].allowsEmptyClientIdentifier = false }
        let broker = SimulatedBroker(settings: settings)
        #expect(broker.ending(afterFirst: RawPacket.connect(identifier: [0, 0])) == .closed(.clientIdentifierNotValid))
    }

    @Test(.statement("MQTT-3.1.4-1", .v5), .statement("MQTT-3.1.4-2", .v5))
    func `a CONNECT with a property that is wrong there is refused with the property's own code`() {
        let broker = SimulatedBroker()
        let cases: [(properties: [UInt8], reason: ReasonCode)] = [
            ([0x11, 0, 0, 0, 1, 0x11, 0, 0, 0, 1], .protocolError), ([0x21, 0, 0], .protocolError),
            ([0x27, 0, 0, 0, 0], .protocolError), ([0x17, 2], .protocolError), ([0x19, 2], .protocolError),
            ([0x16, 0, 1, 9], .protocolError), ([0x23, 0, 1], .malformedPacket), ([0x01, 0], .malformedPacket),
            ([0x7E, 0], .malformedPacket), ([0x11, 0], .malformedPacket), ([0x1F, 0, 1, 0x61], .malformedPacket),
        ]
        for (properties, reason) in cases {
            #expect(broker.ending(afterFirst: RawPacket.connect(properties: properties)) == .closed(reason), "\(properties)")
        }
    }

    @Test(.statement("MQTT-3.1.4-3", .v5), .statement("MQTT-3.1.4-4", .v5), .statement("MQTT-3.1.4-5", .v5), arguments: [1, 4])
    func `a client that comes a second time takes its place and its session`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for clean in [true, false] {
            let first = broker.client("a")
            first.connect(expiry: 60)
            first.subscribe("t")
            let second = broker.client("a")
            let answer = second.connect(clean: clean)
            #expect(answer?.reasonCode == .success)
            #expect(answer?.sessionPresent == !clean)
            #expect(first.ending == .closed(.sessionTakenOver))
            broker.connected("p").publish("t", "x")
            #expect(second.texts == (clean ? [] : ["x"]))
        }
    }

    @Test(.statement("MQTT-3.1.4-6", .v5), arguments: [1, 4])
    func `what follows a refused CONNECT is not worked off`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { request in
            if case .password(userName: "good", password: _) = request.step { return .accepted(userName: nil, data: nil) }
            return .refused(.notAuthorized)
        }
        let witness = broker.client("witness")
        witness.connect(userName: "good")
        witness.subscribe("#")
        for flags: UInt8 in [0x82, 0x83] {
            let connection = broker.open()
            connection.send(
                RawPacket.connect(flags: flags, payload: RawPacket.text("bad"))
                    + RawPacket.packet(0x31, RawPacket.text("t"), [0], [1]))
            broker.settle()
            #expect(connection.isClosed)
        }
        #expect(witness.messages.isEmpty)
        witness.subscribe("t")
        #expect(witness.messages.isEmpty)
    }
}
