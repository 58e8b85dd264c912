import BrokerModel
import MQTTCodec

/// PUBACK, PUBREC, PUBREL and PUBCOMP from a client.
extension BrokerShard {
    func handleAcknowledgement(
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
            let reliance = recordAcknowledged(view.packetIdentifier, session, connection)
            promise(.pubrel, view.packetIdentifier, relyingOn: reliance, to: connection)
        case .released:
            // Behind the first one, if the log is awaited with that.
            promise(.pubrel, view.packetIdentifier, to: connection)
        case .vacant, .waiting:
            return
        }
    }

    private func receivedPubcomp(_ view: AcknowledgementView, _ session: Session, _ connection: Connection) {
        guard let position = session.outbox.position(of: view.packetIdentifier), session.outbox[position].qos == .exactlyOnce,
            session.outbox[position].state == .released
        else { return }
        recordFinished(view.packetIdentifier, session)
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
        beginPacket()
        if isKnown { forgetReceipt(view.packetIdentifier, of: session) }
        // Also when it is unknown here: the others may have lost that it was released.
        sendReleased(view.packetIdentifier, of: session)
        recordReleased(view.packetIdentifier, of: session)
        promise(.pubcomp, view.packetIdentifier, reason, relyingOn: reliance, to: connection)
    }

    private func complete(_ position: Int, _ session: Session, _ connection: Connection) {
        session.outbox.complete(position, journal)
        if session.outbox.waiting > 0 { pump(session, on: connection) }
    }

    // MARK: Runs of them

    /// Works off the acknowledgements without a reason at the front of `bytes`, as long as each is what is expected and no store has a part
    /// in it: PUBACK for the oldest message in flight, PUBREC, PUBREL and PUBCOMP for those that have come so far.
    ///
    /// - Returns: how many bytes they are.
    func consumeAcknowledgements(_ bytes: UnsafeRawBufferPointer, _ connection: Connection) -> Int {
        guard connection.state == .connected, !settings.logTopics.contains(.debug), let session = connection.currentSession else {
            return 0
        }
        let taken = session.with { session in
            var taken = 0
            while let head = PlainAcknowledgement.head(of: bytes, at: taken) {
                let count = consumeRun(UnsafeRawBufferPointer(rebasing: bytes[taken...]), head, session, connection)
                guard count > 0 else { break }
                taken &+= count &* PlainAcknowledgement.byteCount
            }
            if taken > 0, session.outbox.waiting > 0 { pump(session, on: connection) }
            return taken
        }
        if taken > 0 { connection.lastReceivedAt = now }
        return taken
    }

    /// Works off acknowledgements of one kind; returns how many.
    private func consumeRun(
        _ bytes: UnsafeRawBufferPointer, _ head: PlainAcknowledgement.Head, _ session: Session, _ connection: Connection
    ) -> Int {
        let count: Int
        switch head {
        case .puback: count = PlainAcknowledgement.run(bytes, head) { session.outbox.completeFirst($0, ledger) }
        case .pubcomp: count = PlainAcknowledgement.run(bytes, head) { session.outbox.completeReleased($0) }
        case .pubrec:
            // PUBREL overtakes none that is held.
            guard connection.heldCount == 0 else { return 0 }
            count = PlainAcknowledgement.run(bytes, head) { packetIdentifier in
                guard session.outbox.releaseSent(packetIdentifier, ledger) else { return false }
                connection.output.append(.pubrel, packetIdentifier, pool: &pool)
                return true
            }
            countAcknowledged(.pubrel, count, to: connection)
        case .pubrel:
            guard !session.isStored, connection.heldCount == 0 else { return 0 }
            count = PlainAcknowledgement.run(bytes, head) { packetIdentifier in
                guard session.receivedIdentifiers.remove(packetIdentifier) else { return false }
                if connection.receivedInFlight > 0 { connection.receivedInFlight &-= 1 }
                connection.output.append(.pubcomp, packetIdentifier, pool: &pool)
                return true
            }
            countAcknowledged(.pubcomp, count, to: connection)
        }
        statistics.messagesReceived &+= UInt64(count)
        statistics.packetsReceived[head.packetType] &+= UInt64(count)
        return count
    }

    @inline(__always)
    func countAcknowledged(_ type: PacketType, _ count: Int, to connection: Connection) {
        guard count > 0 else { return }
        statistics.messagesSent &+= UInt64(count)
        statistics.packetsSent[type] &+= UInt64(count)
        markDirty(connection)
    }
}
