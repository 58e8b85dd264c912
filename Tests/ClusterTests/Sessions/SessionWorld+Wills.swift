import BrokerModel
import Bytes

@testable import Cluster

/// What clients do with their connections, and what is owed to them for it.
extension SessionWorld {
    /// How much later than it is due something may be seen to while servers store: a lease that has to end, a claim
    /// that waits.
    private static let slackMicroseconds: UInt64 = 25_000_000

    func begin(_ client: String, at node: SessionNode) -> ClientConnection {
        let connection = ClientConnection(client, number: UInt64(connections.count) + 1, at: node, now: clock.now)
        record(connection)
        return connection
    }

    /// A client goes, with a word or without.
    func part() {
        let open = connections.filter { $0.isEstablished && $0.endedAt == nil }
        guard !open.isEmpty else { return }
        let connection = open[clock.random.below(open.count)]
        if clock.random.oneIn(3) {
            connection.node?.disconnected(connection)
        } else {
            connection.node?.lost(connection)
        }
    }

    /// - Parameter isLate: whether it has been gone for a while without knowing it.
    func nodeIsGone(_ node: SessionNode, isLate: Bool = false) {
        for connection in connections where connection.node === node && connection.isEstablished && connection.endedAt == nil {
            (connection.endedAt, connection.isEndLate) = (clock.now, isLate)
        }
    }

    /// A client is let in.
    func established(_ connection: ClientConnection, _ name: WillName?, isPresent: Bool) {
        (connection.establishedAt, connection.name) = (clock.now, name)
        let others = connections.filter { $0.client == connection.client && $0 !== connection && $0.isEstablished }
        let earlier = others.max { ($0.establishedAt ?? 0) < ($1.establishedAt ?? 0) }
        // None ends before its time.
        if !isPresent, let earlier, earlier.terms.expiry > 0, !earlier.isEndLate,
            clock.now < (earlier.endedAt ?? clock.now) + earlier.overAfter
        {
            let end = earlier.endedAt.map { "\($0)" } ?? "not"
            fail("the session of \(connection.client) has ended before its time: connection \(earlier.number) has ended at \(end)")
        }
        for other in others where other.endedAt == nil { other.endedAt = clock.now }
    }

    /// Each will is published once if its connection has ended without DISCONNECT, and the client was not back before
    /// it was due.
    func checkWills(_ client: String) {
        var order = WillOrder()
        var found: Set<WillName> = []
        for record in log.records {
            guard let (session, name) = SessionNode.will(in: record.payload), session == Array(client.utf8),
                order.counts(session, name)
            else { continue }
            if !found.insert(name).inserted { fail("the will \(name) of \(client) counts twice") }
        }
        let all = connections.filter { $0.client == client }
        for connection in all {
            guard let name = connection.name, let endedAt = connection.endedAt else { continue }
            let isPublished = found.contains(name)
            // One that was asked for may wait for long.
            let later = all.filter { $0 !== connection && $0.establishedAt ?? .max > connection.establishedAt ?? 0 }
            let isBack =
                connection.isEndSeen
                && later.contains { $0.isEstablished && ($0.establishedAt ?? 0) < endedAt + connection.dueAfter }
            // That its node is gone may have been noticed by nobody before.
            let mayBeBack = later.contains {
                !connection.isEndSeen || $0.askedAt < served(for: Self.slackMicroseconds, since: endedAt) + connection.dueAfter
            }
            if isPublished, connection.isGoodbyeStored { fail("the will \(name) of \(client) is published after DISCONNECT") }
            if isPublished, connection.dueAfter > 0, isBack { fail("the will \(name) of \(client) is published, and it was back") }
            let isDue = connection.dueAfter == 0 || !mayBeBack
            if !isPublished, isDue, !connection.hasSaidGoodbye { fail("the will \(name) of \(client) is not published") }
        }
    }
}
