/// Messages that were queued before their client's rights changed: by a reload, by a login at another listener, or while the broker was
/// away. Each is judged once more when its turn comes.
extension BrokerShard {
    /// Whether a message that waits may still reach the session's client.
    ///
    /// What was sent once keeps its right: it went to the session's owner, to nobody else, when the rules let it. Its receiver may hold its
    /// packet identifier, and waits for it to be sent again. [MQTT-4.4.0-1 v5] [MQTT-4.4.0-1 v3.1.1]
    @inline(never)
    func mayStillReceive(_ session: Session, _ message: Message, _ entry: OutboxEntry) -> Bool {
        entry.wasSent || mayReceive(session, message.topic)
    }

    /// Gives up the first waiting message, which may not reach its client any more: one that a share group had given it goes to another
    /// member.
    @inline(never)
    func giveUpForbidden(_ message: Message, _ entry: OutboxEntry, _ session: Session) {
        guard entry.group != 0 else {
            statistics.denials.note(.receive)
            drop(.notAuthorised, DroppedMessage(message), for: session)
            session.outbox.dropFirstWaiting(journal)
            return
        }
        let shared = SharedEntry(
            message: message, group: entry.group, qos: entry.qos, storeNumber: entry.storeNumber, hasFlow: entry.hasFlow,
            mark: entry.mark, name: entry.name)
        session.outbox.dropFirstWaiting(nil)
        if !redistribute(shared, from: session.key, connectedOnly: false) {
            statistics.denials.note(.receive)
            drop(.notAuthorised, DroppedMessage(message), for: session)
        }
        notePassing(of: session)
    }
}
