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
        guard let topic = TopicName(packet.topic.bytes) else { return fail(.malformed(.emptyTopic), now: now) }
        var message = ReceivedMessage(
            topic: topic, payload: Payload(packet.payload), qos: packet.qos, retain: packet.retain, duplicate: packet.duplicate,
            token: nil)
        message.subscriptionIdentifier = packet.properties.subscriptionIdentifiers.first ?? 0
        if packet.properties.subscriptionIdentifiers.count == 1 { packet.properties.subscriptionIdentifiers = [] }
        message.properties = packet.properties
        guard let identifier = packet.packetIdentifier else { return tell(.message(message)) }
        switch incoming.received(identifier, packet.qos, maximum: unacknowledgedMax) {
        case .tooMany:
            return fail(.protocolError(.receiveMaximumExceeded), now: now)
        case .known:
            break
        case .new(let token):
            message.token = token
            tell(.message(message))
            if options.acknowledgesAutomatically { incoming.acknowledge(token, .success) }
        }
        sendReceipts(now: now)
    }

    /// Takes or refuses a message of QoS 1 or 2, where that is not done automatically; does nothing for one whose turn is over: it was
    /// answered, or the server has forgotten the session.
    ///
    /// The answer leaves behind those of the messages that came before. Without a connection it is remembered, and given when the server sends
    /// the message again; the message is not told again then.
    public mutating func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode = .success, now: UInt64) {
        incoming.acknowledge(token, reason)
        if state == .online { sendReceipts(now: now) }
    }

    /// Receive Maximum, which is told in MQTT 5.0 only. [MQTT-3.3.4-9 v5]
    private var unacknowledgedMax: Int { options.version == .v5 ? Int(options.receiveMaximum) : Int(UInt16.max) }

    private mutating func sendReceipts(now: UInt64) {
        while let answer = incoming.nextAnswer() {
            // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
            let type: PacketType = answer.qos == .atLeastOnce ? .puback : .pubrec
            send(
                .acknowledgement(
                    AcknowledgementPacket(type: type, packetIdentifier: answer.identifier, reasonCode: answer.reason)), now: now)
        }
    }
}
