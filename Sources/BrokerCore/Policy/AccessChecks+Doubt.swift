import BrokerModel
import MQTTCodec

/// Messages that were queued before their client's rights changed: by a reload, by a login at another listener, or
/// while the broker was away. Each is judged once more when its turn comes.
extension AccessChecks {
    /// Whether a message that waits may still reach the session's client.
    ///
    /// A message that was sent once may be sent again whatever the rules say now: it went to the session's owner, to
    /// nobody else, when the rules allowed it. Its receiver may hold its packet identifier, and waits for it to be sent
    /// again. [MQTT-4.4.0-1 v5] [MQTT-4.4.0-1 v3.1.1]
    @inline(never)
    func mayStillReceive(_ session: Session, _ message: Message, _ entry: QueueEntry) -> Bool {
        entry.wasSent || mayReceive(session, message.topic)
    }

    /// Gives the first waiting message, which a share group had given to a session, to another member, if it is too
    /// large for the client: that was away when it was queued, or takes less than before. False if nobody else takes
    /// it, or might have it twice. [MQTT-4.8.2-5 v5]
    @inline(never)
    func passesOn(
        tooLarge message: Message, _ entry: QueueEntry, _ frame: PublishFrame, _ session: Session, _ connection: Connection
    ) -> Bool {
        guard frame.size(message) > connection.maximumPacketSize,
            entry.qos < .exactlyOnce || (!entry.wasSent && entry.storeNumber == 0),
            let group = shard.groups.find(serial: entry.group), shard.groups[group]?.members.count ?? 0 > 1
        else { return false }
        let shared = SharedEntry(
            message: message, group: entry.group, qos: entry.qos, storeNumber: entry.storeNumber, hasFlow: entry.hasFlow,
            mark: entry.mark, name: entry.name)
        guard shard.groups[group]?.choose(for: message.topic, except: session.key, size: shard.shareGroups.size(of: shared)) != nil
        else { return false }
        session.queue.dropFirstWaiting(nil)
        shard.shareGroups.redistribute(shared, from: session.key, connectedOnly: false)
        shard.shareGroups.recordPassing(of: session)
        return true
    }

    /// Gives up the first waiting message, which may not reach its client any more: one that a share group had given it
    /// goes to another member.
    @inline(never)
    func giveUpForbidden(_ message: Message, _ entry: QueueEntry, _ session: Session) {
        guard entry.group != 0 else {
            shard.statistics.denials.count(.receive)
            shard.drops.drop(.notAuthorised, DroppedMessage(message), for: session)
            session.queue.dropFirstWaiting(shard.journal)
            return
        }
        let shared = SharedEntry(
            message: message, group: entry.group, qos: entry.qos, storeNumber: entry.storeNumber, hasFlow: entry.hasFlow,
            mark: entry.mark, name: entry.name)
        session.queue.dropFirstWaiting(nil)
        if !shard.shareGroups.redistribute(shared, from: session.key, connectedOnly: false) {
            shard.statistics.denials.count(.receive)
            shard.drops.drop(.notAuthorised, DroppedMessage(message), for: session)
        }
        shard.shareGroups.recordPassing(of: session)
    }
}
