public import MQTTCodec

/// Messages from the server.
extension ClientSession {
    mutating func receivedPublish(_ view: PublishView, _ bytes: inout ReceivedBytes, now: UInt64) {
        guard let topic = receivedTopics.topic(of: view, aliasMaximum: options.topicAliasMaximum) else {
            return fail(.protocolError(.topicAliasInvalid), now: now)  // [MQTT-3.3.2-10 v5]
        }
        guard view.qos > .atMostOnce else { return tell(.message(message(view, topic, nil, &bytes, now))) }
        let identifier = view.packetIdentifier
        if view.qos == .atLeastOnce, options.acknowledgesAutomatically,
            let token = incoming.passed(identifier, maximum: unacknowledgedMax)
        {
            tell(.message(message(view, topic, token, &bytes, now)))
            return send(.puback, identifier, now: now)  // [MQTT-4.3.2-4 v5]
        }
        switch incoming.received(identifier, view.qos, isDuplicate: view.duplicate, maximum: unacknowledgedMax) {
        case .tooMany:
            return fail(.protocolError(.receiveMaximumExceeded), now: now)
        case .identifierInUse:
            return fail(.protocolError(.protocolError), now: now)
        case .known:
            break
        case .new(let token):
            tell(.message(message(view, topic, token, &bytes, now)))
            if options.acknowledgesAutomatically { incoming.acknowledge(token, .success) }
        }
        sendReceipts(now: now)
    }

    /// Takes or refuses a message of QoS 1 or 2, where that is not done automatically; does nothing for one whose turn is over: it was
    /// answered, or the server has forgotten the session.
    ///
    /// The answer leaves behind those of the messages that came before. Without a connection it is remembered, and given when the server sends
    /// the message again; the message is not told again then. Before MQTT 5.0 nothing can be refused, and a reason that the standard does not
    /// know for this is an unspecified error.
    public mutating func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode = .success, now: UInt64) {
        var said = options.version == .v5 ? reason : .success
        if said != .success, !said.isAllowed(in: .puback, from: .client) { said = said.isError ? .unspecifiedError : .success }
        incoming.acknowledge(token, said)
        if state == .online { sendReceipts(now: now) }
    }

    /// The message of QoS 1 or 2 that is to be acknowledged next, and how many messages of this connection are not acknowledged; nil if none is
    /// awaited.
    public var unanswered: (first: AcknowledgementToken, count: Int)? { incoming.unanswered }

    /// Receive Maximum, which is told in MQTT 5.0 only. [MQTT-3.3.4-9 v5]
    private var unacknowledgedMax: Int { options.version == .v5 ? Int(options.receiveMaximum) : Int(UInt16.max) }

    @inline(__always)
    private func message(
        _ view: PublishView, _ topic: TopicName, _ token: AcknowledgementToken?, _ bytes: inout ReceivedBytes, _ now: UInt64
    ) -> ReceivedMessage {
        var (first, count) = (UInt32(0), 0)
        if view.hasSubscriptionIdentifiers {
            PublishView.forEachSubscriptionIdentifier(in: view.properties) { identifier in
                if count == 0 { first = identifier }
                count += 1
            }
        }
        // What is the connection's is not kept.
        let isBare = view.forwardedPropertiesLength == 0 && view.messageExpiryInterval == nil && count < 2
        let properties = isBare ? Payload() : bytes.slice(view.properties)
        var message = ReceivedMessage(
            topic: topic, payload: bytes.slice(view.payload), qos: view.qos, retain: view.retain, duplicate: view.duplicate,
            token: token, propertyBytes: properties)
        message.subscriptionIdentifier = first
        if let seconds = view.messageExpiryInterval { message.expiresAt = now + UInt64(seconds) * 1000 }
        return message
    }

    private mutating func sendReceipts(now: UInt64) {
        while let answer = incoming.nextAnswer() {
            if answer.isReceipt { note(.received(packetIdentifier: answer.packetIdentifier)) }
            // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
            send(answer.qos == .atLeastOnce ? .puback : .pubrec, answer.packetIdentifier, answer.reason, now: now)
        }
    }
}
