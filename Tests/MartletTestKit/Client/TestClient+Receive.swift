public import MQTTCodec
import Testing

/// Receiving.
extension TestClient {
    /// Takes the packets that the broker's turn has brought, and answers them.
    func receive() {
        guard let connection else { return }
        for packet in connection.takePackets() {
            packets.append(packet)
            packetsOfConnection.append(packet)
            switch packet {
            case .publish(let publish): receive(publish)
            case .acknowledgement(let acknowledgement): receive(acknowledgement)
            case .connack(let connack): receive(connack)
            case .connect, .subscribe, .suback, .unsubscribe, .unsuback, .pingreq, .pingresp, .disconnect, .auth: break
            }
        }
    }

    /// The PUBLISH packets received, repeated ones included, in order.
    public var publishes: [PublishPacket] {
        packets.compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
    }

    /// The PUBLISH packets received on the connection now or last used.
    public var publishesOfConnection: [PublishPacket] {
        packetsOfConnection.compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
    }

    /// The acknowledgements of a type received on the connection now or last used.
    public func acknowledgements(_ type: PacketType) -> [AcknowledgementPacket] {
        packetsOfConnection.compactMap {
            if case .acknowledgement(let packet) = $0, packet.type == type { packet } else { nil }
        }
    }

    /// Sends PUBACK, PUBREC, PUBREL or PUBCOMP.
    public func acknowledge(_ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode = .success) {
        if type == .pubcomp { incoming.remove(packetIdentifier) }
        send(.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: packetIdentifier, reasonCode: reason)))
    }

    private func receive(_ packet: ConnackPacket) {
        if let assigned = packet.properties.assignedClientIdentifier { identifier = assigned }
        guard packet.isAccepted else { return }
        if !packet.sessionPresent, version != .v31 {
            forgetSession()
        } else if resendsAtOnce {
            sendUnfinished()
        }
    }

    private func receive(_ packet: PublishPacket) {
        let topic = resolve(packet)
        let isRepeated = packet.qos == .exactlyOnce && packet.packetIdentifier.map { !incoming.insert($0).inserted } ?? false
        if !isRepeated {
            messages.append(
                ReceivedMessage(
                    topic: topic.description, payload: packet.payload, qos: packet.qos, retain: packet.retain,
                    duplicate: packet.duplicate, packetIdentifier: packet.packetIdentifier, properties: packet.properties))
        }
        guard acknowledgement != .manual, let identifier = packet.packetIdentifier else { return }
        answer(packet.qos == .exactlyOnce ? .pubrec : .puback, identifier)
    }

    private func receive(_ packet: AcknowledgementPacket) {
        let identifier = packet.packetIdentifier
        switch packet.type {
        case .puback, .pubcomp:
            outgoing.removeAll { $0.packetIdentifier == identifier }
        case .pubrec:
            guard let position = outgoing.firstIndex(where: { $0.packetIdentifier == identifier }) else { return }
            if packet.reasonCode.isError {
                outgoing.remove(at: position)
            } else {
                outgoing[position].isReceived = true
                if releasesAtOnce { answer(.pubrel, identifier) }
            }
        case .pubrel:
            guard acknowledgement == .automatic else { return }
            incoming.remove(identifier)
            answer(.pubcomp, identifier)
        default: return
        }
    }

    private func answer(_ type: PacketType, _ identifier: UInt16) {
        connection?.send(.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier)))
    }

    private func resolve(_ packet: PublishPacket) -> EncodedString {
        guard let alias = packet.properties.topicAlias else { return packet.topic }
        if !packet.topic.isEmpty {
            aliases[alias] = packet.topic
            return packet.topic
        }
        guard let topic = aliases[alias] else {
            Issue.record("the broker used Topic Alias \(alias) without setting it")
            return ""
        }
        return topic
    }
}
