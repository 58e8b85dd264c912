public import MQTTCodec

/// Publishing.
extension TestClient {
    /// Publishes a text.
    ///
    /// - Returns: the broker's answer to PUBLISH, nil if none came or none was due.
    @discardableResult
    public func publish(
        _ topic: EncodedString, _ payload: String = "", qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties(), until step: PublishStep = .complete
    ) -> AcknowledgementPacket? {
        publish(topic, bytes: Array(payload.utf8), qos: qos, retain: retain, properties: properties, until: step)
    }

    /// Publishes bytes; an empty topic leaves it to the Topic Alias.
    @discardableResult
    public func publish(
        _ topic: EncodedString, bytes: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties(), until step: PublishStep = .complete
    ) -> AcknowledgementPacket? {
        var packet = PublishPacket(topic: topic, qos: qos, retain: retain, properties: properties, payload: bytes)
        releasesAtOnce = step != .answered
        defer { releasesAtOnce = true }
        var identifier: UInt16?
        if qos > .atMostOnce {
            let unused = unusedPacketIdentifier()
            identifier = unused
            packet.packetIdentifier = unused
            outgoing.append(OutgoingMessage(packet: packet, packetIdentifier: unused))
        }
        connection?.send(.publish(packet))
        guard step != .sent else { return nil }
        let before = packets.count
        broker.settle()
        for case .acknowledgement(let answer) in packets[before...]
        where answer.packetIdentifier == identifier && (answer.type == .puback || answer.type == .pubrec) {
            return answer
        }
        return nil
    }

    /// The packet identifiers of messages published whose flow has not ended, oldest first.
    public var unfinished: [UInt16] { outgoing.map(\.packetIdentifier) }

    /// Whether the flow of a message whose text begins with this word has not ended.
    public func isUnfinished(_ word: String) -> Bool {
        outgoing.contains { String(decoding: $0.packet.payload, as: UTF8.self).split(separator: " ").first ?? "" == word }
    }

    /// Sends the PUBREL of every message that was received but not released.
    public func release() {
        for message in outgoing where message.isReceived {
            connection?.send(.acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: message.packetIdentifier)))
        }
        broker.settle()
    }

    /// Sends again what was not acknowledged, in the order in which it was sent first: PUBLISH with DUP, or PUBREL.
    public func resend() {
        sendUnfinished()
        broker.settle()
    }

    func sendUnfinished() {
        for message in outgoing {
            if message.isReceived {
                connection?.send(
                    .acknowledgement(AcknowledgementPacket(type: .pubrel, packetIdentifier: message.packetIdentifier)))
            } else {
                var packet = message.packet
                packet.duplicate = true
                connection?.send(.publish(packet))
            }
        }
    }

    /// Forgets the state of the session, as with a clean start.
    public func forgetSession() {
        outgoing = []
        incoming = []
    }
}

extension Properties {
    /// Properties with what `change` sets.
    public static func having(_ change: (inout Properties) -> Void) -> Properties {
        var properties = Properties()
        change(&properties)
        return properties
    }

    /// These properties with what `change` sets.
    public func with(_ change: (inout Properties) -> Void) -> Properties {
        var properties = self
        change(&properties)
        return properties
    }
}

// Tests write texts with numbers in them as literals; an illegal one is a mistake of the test and traps.
extension EncodedString: ExpressibleByStringInterpolation {}
extension TopicName: ExpressibleByStringInterpolation {}
extension TopicFilter: ExpressibleByStringInterpolation {}
