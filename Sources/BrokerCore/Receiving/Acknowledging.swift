import BrokerModel
import MQTTCodec

/// PUBACK, PUBREC, PUBREL and PUBCOMP from a client, which take a message's flow one step further.
///
///     without a reason, several in a row ─► consumeAcknowledgements ─┐    received… : the usual step at once,
///     others, and those of which log or trace tell ─► handleAcknowledgement ─┴──► else what else there is to it
///
/// The usual: PUBACK for the oldest message in flight, the others for a message that has come so far, and no store has
/// a part in it. Each step returns whether the connection goes on.
struct Acknowledging {
    let shard: BrokerShard

    /// Works off one acknowledgement.
    func handleAcknowledgement(
        _ view: AcknowledgementView, _ type: PacketType, _ session: Session, _ connection: Connection
    ) {
        shard.log(.debug) {
            "Received \(type.name) from \(connection.name) (Mid: \(view.packetIdentifier), RC:\(view.reasonCode.rawValue))"
        }
        let (packetIdentifier, reason) = (view.packetIdentifier, view.reasonCode)
        var answers = 0
        let goesOn =
            switch type {
            case .puback: receivedPuback(packetIdentifier, session, connection)
            case .pubrec: receivedPubrec(packetIdentifier, reason, session, connection, &answers)
            case .pubcomp: receivedPubcomp(packetIdentifier, session)
            default: receivedPubrel(packetIdentifier, session, connection, &answers)
            }
        if answers > 0 {
            let answer: PacketType = type == .pubrec ? .pubrel : .pubcomp
            countAcknowledged(answer, answers, to: connection)
            shard.sending.logAcknowledgement(answer, packetIdentifier, .success, to: connection)
        }
        if goesOn, session.queue.waiting > 0 { shard.dispatcher.pump(session, on: connection) }
    }

    /// Works off the acknowledgements without a reason at the front of `bytes`.
    ///
    /// - Returns: how many bytes they are; all if the connection ends with them.
    func consumeAcknowledgements(_ bytes: UnsafeRawBufferPointer, _ connection: Connection) -> Int {
        guard connection.state == .connected, !shard.settings.logTopics.contains(.debug), let session = connection.currentSession
        else {
            return 0
        }
        let taken = session.with { session in
            var taken = 0
            while let head = PlainAcknowledgement.head(of: bytes, at: taken) {
                let count = consumeRun(UnsafeRawBufferPointer(rebasing: bytes[taken...]), head, session, connection)
                guard count > 0 else { break }
                taken &+= count &* PlainAcknowledgement.byteCount
                guard connection.state == .connected else { return bytes.count }
            }
            if taken > 0, session.queue.waiting > 0 { shard.dispatcher.pump(session, on: connection) }
            return taken
        }
        if taken > 0 { connection.lastReceivedAt = shard.now }
        return taken
    }

    /// Works off acknowledgements of one kind; returns how many.
    private func consumeRun(
        _ bytes: UnsafeRawBufferPointer, _ head: PlainAcknowledgement.Head, _ session: Session, _ connection: Connection
    ) -> Int {
        let count: Int
        var answers = 0
        switch head {
        case .puback: count = PlainAcknowledgement.run(bytes, head) { receivedPuback($0, session, connection) }
        case .pubcomp: count = PlainAcknowledgement.run(bytes, head) { receivedPubcomp($0, session) }
        case .pubrec:
            count = PlainAcknowledgement.run(bytes, head) { receivedPubrec($0, .success, session, connection, &answers) }
            countAcknowledged(.pubrel, answers, to: connection)
        case .pubrel:
            count = PlainAcknowledgement.run(bytes, head) { receivedPubrel($0, session, connection, &answers) }
            countAcknowledged(.pubcomp, answers, to: connection)
        }
        shard.statistics.messagesReceived &+= UInt64(count)
        shard.statistics.packetsReceived[head.packetType] &+= UInt64(count)
        return count
    }

    // MARK: The steps

    /// The client has the QoS 1 message. An error code ends the flow just so. [MQTT-4.4.0-2 v5]
    @inline(__always)
    private func receivedPuback(_ packetIdentifier: UInt16, _ session: Session, _ connection: Connection) -> Bool {
        session.queue.completeFirst(packetIdentifier, shard.ledger) || completeSent(packetIdentifier, session, connection)
    }

    @inline(never)
    private func completeSent(_ packetIdentifier: UInt16, _ session: Session, _ connection: Connection) -> Bool {
        guard let position = session.queue.position(of: packetIdentifier), session.queue[position].state == .sent else {
            return true
        }
        guard session.queue[position].qos == .atLeastOnce else {
            shard.disconnecting.refuse(connection, .protocolError, because: "PUBACK came for a QoS 2 message.")
            return false
        }
        session.queue.complete(position, shard.journal)
        return true
    }

    /// The client has the QoS 2 message: the message may go, PUBREL follows. [MQTT-4.3.3-4 v5]
    ///
    /// - Parameter answers: counts the PUBREL that are sent at once.
    @inline(__always)
    private func receivedPubrec(
        _ packetIdentifier: UInt16, _ reason: ReasonCode, _ session: Session, _ connection: Connection, _ answers: inout Int
    ) -> Bool {
        // PUBREL overtakes none that is held.
        guard !reason.isError, connection.holding.count == 0, session.queue.releaseSent(packetIdentifier, shard.ledger) else {
            return releaseSent(packetIdentifier, reason, session, connection)
        }
        connection.output.append(.pubrel, packetIdentifier, pool: &shard.pool)
        answers &+= 1
        return true
    }

    @inline(never)
    private func releaseSent(
        _ packetIdentifier: UInt16, _ reason: ReasonCode, _ session: Session, _ connection: Connection
    ) -> Bool {
        guard let position = session.queue.position(of: packetIdentifier) else {
            // Unknown: a 5.0 client is told so; an earlier one is let finish its flow.
            if !reason.isError {
                shard.storing.sendWhenDurable(.pubrel, packetIdentifier, .packetIdentifierNotFound, to: connection)
            }
            return true
        }
        switch session.queue[position].state {
        case .sent:
            guard session.queue[position].qos == .exactlyOnce else {
                shard.disconnecting.refuse(connection, .protocolError, because: "PUBREC came for a QoS 1 message.")
                return false
            }
            if reason.isError {
                session.queue.complete(position, shard.journal)
                return true
            }
            session.queue.markReleased(position)
            shard.sessionRows.keepReleased(position, of: session)
            let dependency = shard.clusterLogReading.recordAcknowledged(packetIdentifier, session, connection)
            shard.storing.sendWhenDurable(.pubrel, packetIdentifier, dependingOn: dependency, to: connection)
        case .released:
            // Behind the first one, if the log is awaited with that.
            shard.storing.sendWhenDurable(.pubrel, packetIdentifier, to: connection)
        case .vacant, .waiting:
            break
        }
        return true
    }

    @inline(__always)
    private func receivedPubcomp(_ packetIdentifier: UInt16, _ session: Session) -> Bool {
        session.queue.completeReleased(packetIdentifier) || completeKept(packetIdentifier, session)
    }

    @inline(never)
    private func completeKept(_ packetIdentifier: UInt16, _ session: Session) -> Bool {
        guard let position = session.queue.position(of: packetIdentifier), session.queue[position].qos == .exactlyOnce,
            session.queue[position].state == .released
        else { return true }
        shard.clusterLogReading.recordFinished(packetIdentifier, session)
        session.queue.complete(position, shard.journal)
        return true
    }

    /// The client gives the identifier of a QoS 2 message free. [MQTT-4.3.3-11 v5] [MQTT-4.3.3-12 v5]
    ///
    /// - Parameter answers: counts the PUBCOMP that are sent at once.
    @inline(__always)
    private func receivedPubrel(
        _ packetIdentifier: UInt16, _ session: Session, _ connection: Connection, _ answers: inout Int
    ) -> Bool {
        guard !session.storage.isStored, connection.holding.count == 0, session.receivedIdentifiers.remove(packetIdentifier) else {
            return forgetReceived(packetIdentifier, session, connection)
        }
        if connection.receivedInFlight > 0 { connection.receivedInFlight &-= 1 }
        connection.output.append(.pubcomp, packetIdentifier, pool: &shard.pool)
        answers &+= 1
        return true
    }

    @inline(never)
    private func forgetReceived(_ packetIdentifier: UInt16, _ session: Session, _ connection: Connection) -> Bool {
        let isKnown = session.receivedIdentifiers.remove(packetIdentifier)
        if connection.receivedInFlight > 0 { connection.receivedInFlight &-= 1 }
        let reason: ReasonCode = isKnown ? .success : .packetIdentifierNotFound
        guard session.storage.isStored || connection.holding.count > 0 else {
            shard.sending.sendAcknowledgement(.pubcomp, packetIdentifier, reason, to: connection)
            return true
        }
        shard.storing.beginPacket()
        if isKnown { shard.sessionRows.forgetReceipt(packetIdentifier, of: session) }
        // Also when it is unknown here: the others may have lost that it was released.
        shard.storing.sendReleased(packetIdentifier, of: session)
        shard.clusterLogReading.recordReleased(packetIdentifier, of: session)
        shard.storing.sendWhenDurable(.pubcomp, packetIdentifier, reason, dependingOn: shard.storing.dependency, to: connection)
        return true
    }

    @inline(__always)
    func countAcknowledged(_ type: PacketType, _ count: Int, to connection: Connection) {
        guard count > 0 else { return }
        shard.statistics.messagesSent &+= UInt64(count)
        shard.statistics.packetsSent[type] &+= UInt64(count)
        shard.markDirty(connection)
    }
}
