import FuzzKit
import MQTTCodec
import MartletTestKit

/// One connection: what a client sends on it, and the judgement of what comes back.
final class Visitor {
    let connection: SimulatedConnection
    /// Whether it acknowledges what it gets.
    var answers = false
    /// What is done to the next packet that it sends: bits to be turned over in one byte.
    var mangle: (position: Int, mask: UInt8)?

    /// The front of what was sent, until the first packet is complete.
    private var greeting: [UInt8] = []
    /// The first packet, if it is a CONNECT.
    private var connect: ConnectPacket?
    private var hasGreeted = false
    /// Whether everything sent so far is what the client believes that it has sent.
    private var isHonest = true
    private var received: [UInt8] = []
    private var isFirst = true
    private var hasEnded = false
    /// The identifiers of messages that came and were not acknowledged.
    private var inFlight: Set<UInt16> = []
    private var aliases: Set<UInt16> = []

    init(_ connection: SimulatedConnection) { self.connection = connection }

    // MARK: Sending

    func sendRaw(_ bytes: [UInt8]) {
        isHonest = false
        transmit(bytes)
    }

    private func send(_ packet: ControlPacket) {
        if case .connect(let connect) = packet { connection.version = connect.version }
        var bytes = packet.encoded(version: connection.version)
        if let mangle, !bytes.isEmpty {
            isHonest = false
            bytes[mangle.position % bytes.count] ^= mangle.mask
        }
        mangle = nil
        transmit(bytes)
    }

    private func transmit(_ bytes: [UInt8]) {
        connection.send(bytes)
        guard !hasGreeted else { return }
        greeting += bytes
        guard case .packet(let firstByte, let header, let length) = greeting.withUnsafeBytes(FrameScan.scan),
            header + length <= greeting.count
        else { return }
        hasGreeted = true
        let body = Array(greeting[header..<header + length])
        connect = body.withUnsafeBytes { try? ConnectPacket.decode(firstByte: firstByte, body: $0) }
        if let connect { connection.version = connect.version }
        greeting = []
    }

    func connect(_ script: inout ByteScript) {
        let (choice, more, names) = (script.byte(), script.byte(), script.byte())
        var packet = ConnectPacket(version: [.v5, .v5, .v311, .v31][Int(choice & 3)], cleanStart: choice & 4 == 0)
        packet.keepAliveSeconds = choice & 8 == 0 ? 0 : 5
        packet.clientIdentifier = Scenery.identifiers[Int(names & 7)]
        packet.userName = Scenery.userNames[Int(names >> 3 & 3)]
        packet.isBridge = names >> 5 == 7 && packet.version != .v5
        if packet.userName != nil || packet.version == .v5, more & 1 != 0 { packet.password = [0x70] }
        if packet.version == .v5 {
            packet.properties.sessionExpiryInterval = Scenery.intervals[Int(choice >> 4) % Scenery.intervals.count]
            if more & 2 != 0 { packet.properties.receiveMaximum = 1 + UInt16(more >> 6) }
            if more & 4 != 0 { packet.properties.topicAliasMaximum = 2 }
            if more & 8 != 0 { packet.properties.maximumPacketSize = 40 }
            if names >> 5 == 1 {
                packet.properties.authenticationMethod = "M"
                packet.properties.authenticationData = [names]
            }
        }
        if more & 16 != 0 {
            var will = Will(
                topic: "t/u", payload: [0x77], qos: QoS(rawValue: more >> 6 % 3) ?? .exactlyOnce, retain: more & 32 != 0)
            if packet.version == .v5 { will.properties.willDelayInterval = Scenery.intervals[Int(script.byte()) % 5] }
            packet.will = will
        }
        send(.connect(packet))
    }

    func subscribe(_ script: inout ByteScript) {
        var packet = SubscribePacket(packetIdentifier: 1 + UInt16(script.below(4)), subscriptions: [])
        for _ in 0..<1 + script.below(3) {
            let (filter, choice) = (script.element(of: Scenery.filters), script.byte())
            var options = SubscriptionOptions(maximumQoS: QoS(rawValue: choice % 3) ?? .atMostOnce)
            if connection.version == .v5 {
                options.noLocal = choice & 4 != 0 && !filter.isShared
                options.retainAsPublished = choice & 8 != 0
                options.retainHandling = [.sendAtSubscribe, .sendIfNewSubscription, .doNotSend][Int(choice >> 4) % 3]
                if choice & 128 != 0 { packet.properties.subscriptionIdentifiers = [UInt32(choice)] }
            }
            packet.subscriptions.append(Subscription(filter: filter, options: options))
        }
        send(.subscribe(packet))
    }

    func unsubscribe(_ script: inout ByteScript) {
        send(
            .unsubscribe(
                UnsubscribePacket(packetIdentifier: 1 + UInt16(script.below(4)), filters: [script.element(of: Scenery.filters)])))
    }

    func publish(_ script: inout ByteScript, payloadCount: Int) {
        let (choice, topic) = (script.byte(), script.element(of: Scenery.topics))
        var packet = PublishPacket(topic: topic, qos: QoS(rawValue: choice & 3) ?? .exactlyOnce, retain: choice & 4 != 0)
        packet.payload = Array(repeating: choice, count: payloadCount)
        if packet.qos != .atMostOnce {
            packet.packetIdentifier = 1 + UInt16(script.below(5))
            packet.duplicate = choice & 8 != 0
        }
        if connection.version == .v5 {
            packet.properties = Scenery.properties(of: Int(choice >> 5))
            if choice & 16 != 0 { packet.properties.topicAlias = 1 + UInt16(script.below(3)) }
        }
        send(.publish(packet))
    }

    func acknowledge(_ script: inout ByteScript) {
        let choice = script.byte()
        let type: PacketType = [.puback, .pubrec, .pubrel, .pubcomp][Int(choice & 3)]
        let reason: ReasonCode = choice & 4 != 0 && connection.version == .v5 && type != .pubrel ? .unspecifiedError : .success
        acknowledge(type, 1 + UInt16(choice >> 4), reason)
    }

    private func acknowledge(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success) {
        if type != .pubrel { inFlight.remove(identifier) }
        send(.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason)))
    }

    func sendControl(_ script: inout ByteScript) {
        let choice = script.byte()
        switch choice & 3 {
        case 0: send(.pingreq)
        case 1, 2:
            var packet = DisconnectPacket()
            if connection.version == .v5 {
                if choice & 4 != 0 { packet.reasonCode = .disconnectWithWillMessage }
                packet.properties.sessionExpiryInterval = Scenery.intervals[Int(choice >> 3) % Scenery.intervals.count]
            }
            send(.disconnect(packet))
        default:
            var packet = AuthPacket(reasonCode: choice & 4 == 0 ? .continueAuthentication : .reauthenticate)
            packet.properties.authenticationMethod = "M"
            packet.properties.authenticationData = [choice >> 4]
            send(.auth(packet))
        }
    }

    // MARK: Receiving

    /// Judges what has come, and answers it.
    func look() {
        received += connection.takeBytes()
        var offset = 0
        while case .packet(let firstByte, let header, let length) = received[offset...].withUnsafeBytes(FrameScan.scan),
            offset + header + length <= received.count
        {
            take(firstByte, Array(received[offset + header..<offset + header + length]), header + length)
            offset += header + length
        }
        received.removeFirst(offset)
        if case .malformed(let error) = received.withUnsafeBytes(FrameScan.scan) { preconditionFailure("the broker sent \(error)") }
    }

    private func take(_ firstByte: UInt8, _ body: [UInt8], _ size: Int) {
        // What comes back to something that is no CONNECT may be in any version.
        let versions = connect.map { [$0.version] } ?? [.v5, .v311, .v31]
        let packet = versions.lazy.compactMap { version in
            body.withUnsafeBytes { try? ControlPacket.decode(firstByte: firstByte, body: $0, version: version, from: .server) }
        }.first
        guard let packet else { preconditionFailure("the broker sent what is no packet: \(firstByte) \(body)") }
        expect(!hasEnded, "the broker sent \(packet) behind DISCONNECT")
        if isFirst, connect != nil {
            switch packet {
            case .connack, .auth, .disconnect: break
            default: preconditionFailure("the first packet was \(packet)")
            }
        }
        if case .connack = packet { isFirst = false }
        if case .disconnect = packet { hasEnded = true }
        if let largest = connect?.properties.maximumPacketSize, connect?.version == .v5 {
            expect(size <= largest, "a packet of \(size) bytes for one who takes \(largest)")
        }
        switch packet {
        case .publish(let publish): take(publish)
        case .acknowledgement(let acknowledgement):
            guard answers else { return }
            if acknowledgement.type == .pubrec, !acknowledgement.reasonCode.isError {
                acknowledge(.pubrel, acknowledgement.packetIdentifier)
            } else if acknowledgement.type == .pubrel {
                acknowledge(.pubcomp, acknowledgement.packetIdentifier)
            }
        default: return
        }
    }

    private func take(_ packet: PublishPacket) {
        if let alias = packet.properties.topicAlias {
            expect(alias <= connect?.properties.topicAliasMaximum ?? 0, "alias \(alias)")
            if !packet.topic.isEmpty { aliases.insert(alias) }
            expect(aliases.contains(alias), "alias \(alias) was never set")
        } else {
            expect(!packet.topic.isEmpty, "no topic")
        }
        guard let identifier = packet.packetIdentifier else { return }
        if isHonest {
            expect(inFlight.insert(identifier).inserted, "identifier \(identifier) is in flight")
            expect(inFlight.count <= Int(connect?.properties.receiveMaximum ?? .max), "\(inFlight.count) messages in flight")
        }
        if answers { acknowledge(packet.qos == .exactlyOnce ? .pubrec : .puback, identifier) }
    }
}
