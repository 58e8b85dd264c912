import MQTTCodec

/// PUBACK, PUBREC, PUBREL and PUBCOMP from a client.
extension BrokerShard {
    func handleAcknowledgement(_ view: AcknowledgementView, _ type: PacketType, _ connection: Connection) {
        connection.currentSession?._withUnsafeGuaranteedRef { handleAcknowledgement(view, type, $0, connection) }
    }

    @inline(__always)
    private func handleAcknowledgement(
        _ view: AcknowledgementView, _ type: PacketType, _ session: Session, _ connection: Connection
    ) {
        log(.debug) {
            "Received \(type.name) from \(connection.name) (Mid: \(view.packetIdentifier), RC:\(view.reasonCode.rawValue))"
        }
        switch type {
        case .puback: receivedPuback(view, session, connection)
        case .pubrec: receivedPubrec(view, session, connection)
        case .pubcomp: receivedPubcomp(view, session, connection)
        default: receivedPubrel(view, session, connection)
        }
    }

    /// The client has the QoS 1 message. An error code ends the flow just so. [MQTT-4.4.0-2 v5]
    private func receivedPuback(_ view: AcknowledgementView, _ session: Session, _ connection: Connection) {
        guard let position = session.outbox.position(of: view.packetIdentifier), session.outbox[position].state == .sent else {
            return
        }
        guard session.outbox[position].qos == .atLeastOnce else {
            refuse(connection, .protocolError, because: "PUBACK came for a QoS 2 message.")
            return
        }
        complete(position, session, connection)
    }

    /// The client has the QoS 2 message: the message may go, PUBREL follows. [MQTT-4.3.3-4 v5]
    private func receivedPubrec(_ view: AcknowledgementView, _ session: Session, _ connection: Connection) {
        guard let position = session.outbox.position(of: view.packetIdentifier) else {
            // Unknown: a 5.0 client is told so; an earlier one is let finish its flow.
            if !view.reasonCode.isError {
                promise(.pubrel, view.packetIdentifier, .packetIdentifierNotFound, to: connection)
            }
            return
        }
        switch session.outbox[position].state {
        case .sent:
            guard session.outbox[position].qos == .exactlyOnce else {
                refuse(connection, .protocolError, because: "PUBREC came for a QoS 1 message.")
                return
            }
            if view.reasonCode.isError {
                complete(position, session, connection)
                return
            }
            session.outbox.markReleased(position)
            keepReleased(position, of: session)
            promise(.pubrel, view.packetIdentifier, to: connection)
        case .released:
            promise(.pubrel, view.packetIdentifier, to: connection)
        case .vacant, .waiting:
            return
        }
    }

    private func receivedPubcomp(_ view: AcknowledgementView, _ session: Session, _ connection: Connection) {
        guard let position = session.outbox.position(of: view.packetIdentifier), session.outbox[position].qos == .exactlyOnce,
            session.outbox[position].state == .released
        else { return }
        complete(position, session, connection)
    }

    /// The client gives the identifier of a QoS 2 message free. [MQTT-4.3.3-11 v5] [MQTT-4.3.3-12 v5]
    private func receivedPubrel(_ view: AcknowledgementView, _ session: Session, _ connection: Connection) {
        let isKnown = session.receivedIdentifiers.remove(view.packetIdentifier)
        if connection.receivedInFlight > 0 { connection.receivedInFlight &-= 1 }
        let reason: ReasonCode = isKnown ? .success : .packetIdentifierNotFound
        guard session.isStored || connection.heldCount > 0 else {
            sendAcknowledgement(.pubcomp, view.packetIdentifier, reason, to: connection)
            return
        }
        durability?.beginPacket()
        if isKnown { forgetReceipt(view.packetIdentifier, of: session) }
        // Also when it is unknown here: the others may have lost that it was released.
        tellReleased(view.packetIdentifier, of: session)
        promise(.pubcomp, view.packetIdentifier, reason, relyingOn: reliance, to: connection)
    }

    private func complete(_ position: Int, _ session: Session, _ connection: Connection) {
        session.outbox.complete(position, journal)
        if session.outbox.waiting > 0 { pump(session, on: connection) }
    }
}
