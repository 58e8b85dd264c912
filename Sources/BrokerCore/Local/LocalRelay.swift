public import BrokerModel
import Bytes
public import MQTTCodec

/// What the shard knows of a local client that speaks MQTT itself: how many bytes its party takes. Owned by its connection.
final class LocalRelay {
    /// How many bytes of the connection's output the party takes before it opens more room.
    var room: Int

    init(room: Int) { self.room = max(0, room) }
}

/// Local clients that relay packets between the shard and another broker.
///
/// The party sees the packets of an MQTT 5.0 session, and answers each by itself: so what is acknowledged here is what was acknowledged
/// there, and the session's state, which is durable, is all the state there is.
extension BrokerShard {
    /// Packets of a local client that relays, whole or cut anywhere; nothing happens if it is no more.
    public func relay(_ bytes: [UInt8], from id: ConnectionID) {
        guard let connection = connections.find(id), connection.extras?.relay != nil, !bytes.isEmpty else { return }
        bytes.withUnsafeBytes { received($0, from: id) }
        markDirty(connection)
    }

    /// The party takes so many bytes from now on, with those that it was allowed before.
    public func openRoom(_ byteCount: Int, of id: ConnectionID) {
        guard let connection = connections.find(id), let relay = connection.extras?.relay else { return }
        relay.room += byteCount
        guard connection.isBlocked else { return }
        connection.isBlocked = false
        markDirty(connection)
    }

    /// What a client's session has still to deliver, whether the client is connected or not; nothing if it has none here.
    public func backlog(of clientIdentifier: EncodedString) -> SessionBacklog {
        guard let session = sessions.find(clientIdentifier) else { return SessionBacklog() }
        return SessionBacklog(session, now: now)
    }

    /// Whether a session is one of the broker's own clients, by the way that its client came when it was here last.
    public func hasOwnSession(of clientIdentifier: EncodedString) -> Bool {
        sessions.find(clientIdentifier)?.listener.map { settings.policy(of: $0).isOwn } ?? false
    }

    /// The packet identifiers of the QoS 2 messages that a client's session has taken and that were not released, in order.
    public func unreleasedIdentifiers(of clientIdentifier: EncodedString) -> [UInt16] {
        var identifiers: [UInt16] = []
        sessions.find(clientIdentifier)?.receivedIdentifiers.forEach { identifiers.append($0) }
        return identifiers.sorted()
    }

    /// What a client's session is subscribed to; nothing if it has none here.
    public func subscriptions(of clientIdentifier: EncodedString) -> [TopicFilter] {
        guard let session = sessions.find(clientIdentifier) else { return [] }
        var filters: [TopicFilter] = []
        var record = session.firstSubscription
        while record != SubscriptionRecord.none {
            TopicFilter(tree.filter(of: record)).map { filters.append($0) }
            record = tree.records[record].nextOfSession
        }
        return filters
    }

    /// Gives the party what there is, as far as it has room.
    func flush(_ relay: LocalRelay, _ connection: Connection) {
        guard !connection.isAwaitingStore else { return }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(max(0, min(relay.room, connection.output.pendingBytes)))
        while relay.room > 0, !connection.isAwaitingStore, !connection.output.isEmpty {
            let taken = takeOutput(of: connection, room: { relay.room }) { piece in
                bytes.append(contentsOf: piece)
                relay.room -= piece.count
            }
            guard taken > 0 else { break }
            guard connection.output.isEmpty, connection.state != .closing, let session = connection.session,
                session.outbox.waiting > 0
            else { continue }
            pump(session, on: connection)
        }
        if !bytes.isEmpty { effects.append(.local(connection.id, .bytes(bytes))) }
        if connection.isAwaitingStore { return }
        settleOutput(of: connection)
    }
}
