public import MQTTCodec

/// Messages from the server.
extension ClientSession {
    mutating func receivedPublish(_ packet: PublishPacket, now: UInt64) {
        var packet = packet
        if let alias = packet.properties.topicAlias {
            guard let topic = receivedAliases.resolve(alias, packet.topic, maximum: options.topicAliasMaximum) else {
                return fail(.protocolError(.topicAliasInvalid), now: now)  // [MQTT-3.3.2-10 v5]
            }
            packet.topic = topic
            packet.properties.topicAlias = nil
        }
        guard let identifier = packet.packetIdentifier else { return tell(.message(packet)) }
        switch incoming.received(identifier, packet.qos, maximum: unacknowledgedMax) {
        case .tooMany:
            fail(.protocolError(.receiveMaximumExceeded), now: now)
        case .repeated:
            // Delivered before; only the answer was lost. [MQTT-4.3.3-10 v5]
            sendReceipt(identifier, packet.qos, .success, now: now)
        case .pending:
            return
        case .new:
            tell(.message(packet))
            if options.acknowledgesAutomatically { acknowledge(packet, now: now) }
        }
    }

    /// Answers a message of QoS 1 or 2 that was told, where that is not done automatically; does nothing for one that was not.
    public mutating func acknowledge(_ packet: PublishPacket, _ reason: ReasonCode = .success, now: UInt64) {
        guard let identifier = packet.packetIdentifier, state == .online else { return }
        guard incoming.acknowledge(identifier, isRefused: reason.isError) else { return }
        sendReceipt(identifier, packet.qos, reason, now: now)
    }

    /// Receive Maximum, which is told in MQTT 5.0 only. [MQTT-3.3.4-9 v5]
    private var unacknowledgedMax: Int { options.version == .v5 ? Int(options.receiveMaximum) : Int(UInt16.max) }

    private mutating func sendReceipt(_ identifier: UInt16, _ qos: QoS, _ reason: ReasonCode, now: UInt64) {
        // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
        let type: PacketType = qos == .atLeastOnce ? .puback : .pubrec
        send(.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason)), now: now)
    }
}
