import MQTTCodec

/// What does not get where it was going: counted for the broker and for the client that it concerns, and told.
extension BrokerShard {
    func drop(_ reason: DropReason, for connection: Connection) {
        if let session = connection.session {
            drop(reason, for: session)
        } else {
            statistics.drops[reason] &+= 1
        }
    }

    func drop(_ reason: DropReason, for session: Session) {
        statistics.drops[reason] &+= 1
        // mosquitto's line; what it is about is told in full when the connection ends.
        if reason == .queueFull || reason == .outputFull, !session.isToldToDrop {
            session.isToldToDrop = true
            log(.notice) { "Outgoing messages are being dropped for client \(session.clientIdentifier)." }
        }
        session.drops[reason] &+= 1
    }

    /// Tells what a client has lost, if it is more than was told before: when its connection or its session ends.
    func tellDrops(of session: Session) {
        session.isToldToDrop = false
        let total = session.drops.total
        guard total > session.dropsTold else { return }
        session.dropsTold = total
        logDrops(session.drops, of: session.clientIdentifier)
    }

    func logDrops(_ drops: DropCounts, of clientIdentifier: EncodedString) {
        let total = drops.total
        guard total > 0 else { return }
        log(.notice) {
            "Client \(clientIdentifier): \(total) \(total == 1 ? "message" : "messages") dropped (\(drops.words))."
        }
    }
}
