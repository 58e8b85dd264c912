import BrokerModel
import MQTTCodec

/// Telling clients in words why something was refused, where they want to hear it [MQTT-3.1.2-29 v5] and take a packet
/// of that size.
extension Receiving {
    /// Answers a message that is not taken.
    ///
    /// - Parameter words: tell nothing that the client does not know, such as the lines of the access rules.
    func answerRefused(
        _ view: PublishView, _ session: Session, _ connection: Connection, _ reason: ReasonCode, because words: String
    ) {
        guard view.qos > .atMostOnce, let text = shard.sending.permitted(EncodedString(words), on: connection) else {
            return shard.publishing.answer(view, session, connection, reason)
        }
        var packet = AcknowledgementPacket(
            type: view.qos == .atLeastOnce ? .puback : .pubrec, packetIdentifier: view.packetIdentifier, reasonCode: reason)
        packet.properties.reasonString = text
        // A refused message's identifier is free at once. [MQTT-4.3.3-9 v5]
        if view.qos == .exactlyOnce { shard.storing.sendReleased(view.packetIdentifier, of: session) }
        // What is refused waits for no disk, so that a full one can be told; but acknowledgements keep the order of
        // their messages. [MQTT-4.6.0-2 v5]
        if view.qos == .atLeastOnce, connection.holding.count == 0 { return send(refusal: packet, to: connection) }
        shard.storing.sendWhenDurable(.refusal(packet), to: connection)
    }

    /// Sends PUBACK or PUBREC, without the words if they make it too large. [MQTT-3.4.2-2 v5] [MQTT-3.5.2-2 v5]
    func send(refusal packet: AcknowledgementPacket, to connection: Connection) {
        guard shard.sending.send(.acknowledgement(packet), to: connection) else {
            return shard.sending.sendAcknowledgement(packet.type, packet.packetIdentifier, packet.reasonCode, to: connection)
        }
        shard.log(.debug) {
            "Sending \(packet.type.name) to \(connection.name) (m\(packet.packetIdentifier), rc\(packet.reasonCode.rawValue))"
        }
    }

    /// Sends SUBACK with the reasons in words, or without them if they make it too large. [MQTT-3.9.2-1 v5]
    ///
    /// - Returns: false if the client does not take a packet of its size.
    func send(_ answer: SubackPacket, to connection: Connection) -> Bool {
        guard let text = reasonString(answer.reasonCodes, connection, subscriptionRefusal) else {
            return shard.sending.send(.suback(answer), to: connection)
        }
        var told = answer
        told.properties.reasonString = text
        return shard.sending.send(.suback(told), to: connection) || shard.sending.send(.suback(answer), to: connection)
    }

    /// Sends an UNSUBACK with a reason string, where the client takes one. [MQTT-3.11.2-1 v5]
    func send(_ answer: UnsubackPacket, to connection: Connection) -> Bool {
        let text = reasonString(answer.reasonCodes, connection) {
            $0 == .notAuthorized ? "not authorized to end this subscription" : "\($0)"
        }
        guard let text else { return shard.sending.send(.unsuback(answer), to: connection) }
        var told = answer
        told.properties.reasonString = text
        return shard.sending.send(.unsuback(told), to: connection) || shard.sending.send(.unsuback(answer), to: connection)
    }

    /// Why some of what a packet asked for was refused; nil if all was granted, or the client does not want to hear it.
    private func reasonString(
        _ codes: [ReasonCode], _ connection: Connection, _ words: (ReasonCode) -> String
    ) -> EncodedString? {
        guard connection.version == .v5, codes.contains(where: \.isError) else { return nil }
        if codes.count == 1 { return shard.sending.permitted(EncodedString(words(codes[0])), on: connection) }
        let refused = codes.indices.filter { codes[$0].isError }
        var parts = refused.prefix(Limits.refusedFiltersNamedMax).map { "filter \($0 + 1): \(words(codes[$0]))" }
        if refused.count > parts.count { parts.append("\(refused.count - parts.count) more") }
        return shard.sending.permitted(EncodedString(parts.joined(separator: "; ")), on: connection)
    }

    /// What a reason code of SUBACK means here.
    private func subscriptionRefusal(_ reason: ReasonCode) -> String {
        switch reason {
        case .notAuthorized: "not authorized to subscribe to this topic filter"
        case .topicFilterInvalid: "the topic filter is too long or has too many levels"
        case .sharedSubscriptionsNotSupported: "shared subscriptions are switched off"
        case .wildcardSubscriptionsNotSupported: "wildcards in topic filters are switched off"
        case .quotaExceeded:
            if let journal = shard.journal, journal.health != .good {
                "quota exceeded: the broker's store is full"
            } else if shard.memoryBound.isMemoryFull {
                "quota exceeded: the broker's memory for clients is full"
            } else {
                "quota exceeded: the client has its maximum number of subscriptions"
            }
        default: "\(reason)"
        }
    }
}

extension Limits {
    /// How many of the filters that one packet asks for in vain are told of one by one; the others are counted.
    static let refusedFiltersNamedMax = 5
}
