import MQTTCodec

/// As much of a server as a session needs: it takes messages of QoS 1 and 2, sends some of its own, and knows its side
/// of the session.
struct ModelServer {
    private enum Step {
        case waiting, sent, released, done
    }

    /// What came, in order; of QoS 2 each once for each session.
    private(set) var taken: [[UInt8]] = []
    private var takenIdentifiers: Set<UInt16> = []
    private var outgoing: [(packet: PublishPacket, step: Step)]
    /// Whether it knows the client.
    private var knowsSession = false

    /// - Parameter messages: what it sends when a client comes: payloads and their QoS.
    init(sending messages: [(payload: UInt8, qos: QoS)] = []) {
        outgoing = messages.enumerated().map { index, message in
            let packet = PublishPacket(
                topic: "down", packetIdentifier: UInt16(index + 1), qos: message.qos, payload: [message.payload])
            return (packet, .waiting)
        }
    }

    var hasSentAll: Bool { outgoing.allSatisfy { $0.step == .done } }

    mutating func forgetSession() {
        (knowsSession, takenIdentifiers) = (false, [])
        for index in outgoing.indices where outgoing[index].step != .done { outgoing[index].step = .waiting }
    }

    /// Answers a packet, or a new connection's CONNECT.
    mutating func received(_ packet: ControlPacket) -> [ControlPacket] {
        switch packet {
        case .connect:
            defer { knowsSession = true }
            return [.connack(ConnackPacket(sessionPresent: knowsSession))] + sendAgain()
        case .publish(let publish): return received(publish)
        case .acknowledgement(let acknowledgement): return received(acknowledgement)
        default: return []
        }
    }

    private mutating func sendAgain() -> [ControlPacket] {
        outgoing.indices.compactMap { index in
            switch outgoing[index].step {
            case .done: return nil
            case .released: return Conversation.acknowledgement(.pubrel, UInt16(index + 1))
            case .waiting, .sent:
                outgoing[index].packet.duplicate = outgoing[index].step == .sent
                outgoing[index].step = .sent
                return .publish(outgoing[index].packet)
            }
        }
    }

    private mutating func received(_ packet: PublishPacket) -> [ControlPacket] {
        guard let identifier = packet.packetIdentifier else { return [] }
        if packet.qos == .atLeastOnce {
            taken.append(packet.payload)
            return [Conversation.acknowledgement(.puback, identifier)]
        }
        if takenIdentifiers.insert(identifier).inserted { taken.append(packet.payload) }
        return [Conversation.acknowledgement(.pubrec, identifier)]
    }

    private mutating func received(_ packet: AcknowledgementPacket) -> [ControlPacket] {
        let index = Int(packet.packetIdentifier) - 1
        switch packet.type {
        case .pubrel:
            let reason: ReasonCode = takenIdentifiers.remove(packet.packetIdentifier) == nil ? .packetIdentifierNotFound : .success
            return [Conversation.acknowledgement(.pubcomp, packet.packetIdentifier, reason)]
        case .pubrec:
            outgoing[index].step = .released
            return [Conversation.acknowledgement(.pubrel, packet.packetIdentifier)]
        default:
            outgoing[index].step = .done
            return []
        }
    }
}
