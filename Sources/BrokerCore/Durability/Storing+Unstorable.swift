import BrokerModel
import MQTTCodec

/// What the broker cannot keep, because its disk is full or has failed, it does not take. QoS 0 messages and sessions
/// that end with their connection go on as ever.
extension Storing {
    func isStoreInTrouble(_ journal: Journal) -> Bool {
        journal.health != .good || journal.pendingBytes > shard.settings.unstoredBytesMax / shard.shardCount
    }

    /// Whether somebody would rely on the store to have a message, or its packet identifier.
    func mustBeKept(_ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session) -> Bool {
        if view.retain { return true }
        guard view.qos > .atMostOnce else { return false }
        if view.qos == .exactlyOnce, session.keepsMessages { return true }
        return shard.dispatcher.matches(of: topic).with { matches in
            if matches.shards != 0 || !matches.groups.isEmpty { return true }
            return (0..<matches.routeCount).contains { position in
                matches.routes[position].session.with { $0.keepsMessages }
            }
        }
    }

    /// Tells a 5.0 client that its message was not taken. An earlier one cannot be told: the message stays without an
    /// answer, and the client sends it again when it comes back. It is made to when there is room again, for it may
    /// wait for ever.
    func refuseUnstorable(
        _ view: PublishView, _ topic: UnsafeRawBufferPointer, _ session: Session, _ connection: Connection
    ) {
        shard.drops.drop(.noRoom, DroppedMessage(view, topic), for: session)
        if connection.version == .v5 {
            shard.receiving.answerRefused(
                view, session, connection, .quotaExceeded, because: "quota exceeded: the broker's store is full")
        } else if view.qos > .atMostOnce {
            shard.room.ofStore.insert(connection.id)
        }
    }

    /// Ends the connections on which messages were left without an answer, if the store takes them now.
    func endUnanswered(_ journal: Journal) {
        guard !shard.room.ofStore.isEmpty, !isStoreInTrouble(journal) else { return }
        for id in shard.room.ofStore.sorted(by: { $0.slot < $1.slot }) {
            guard let connection = shard.connections.find(id), connection.state == .connected else { continue }
            shard.disconnecting.refuse(
                connection, .quotaExceeded, because: "the store had no room for some of its messages, which it may send again now.")
        }
        shard.room.ofStore = []
    }
}
