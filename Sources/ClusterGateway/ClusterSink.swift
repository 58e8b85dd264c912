import BrokerCore
import Cluster
import NATSClient
import ServerLoops

/// Carries out what the bus lane decides: to the servers by the connection, to clients by the shard. Belongs to the loop that speaks to the
/// servers; never calls the lane.
final class ClusterSink: BusSink {
    private let shard: BrokerShard
    private let connection: NATSConnection
    /// The connection's numbers of what the lane has subscribed to, by the lane's.
    private var subscriptions: [UInt64: UInt64] = [:]
    /// All interest up to this ticket is in force.
    private(set) var confirmed: UInt64 = 0
    /// Messages that a server could not take.
    private(set) var refused: UInt64 = 0
    /// The size of one that was too large, until somebody tells of it.
    var tooLarge: (byteCount: Int, bytesMax: Int)?
    /// What other nodes have told of their members of share groups, and what to say when all loops know; to be taken from here.
    var learned: [(change: GroupsChange, receipt: GroupReceipt?)] = []
    /// Messages whose topic or properties no client may send.
    private(set) var illegible: UInt64 = 0
    private let incarnations: NodeIncarnations

    init(_ connection: NATSConnection, shard: BrokerShard, _ incarnations: NodeIncarnations) {
        (self.connection, self.shard, self.incarnations) = (connection, shard, incarnations)
    }

    func subscribe(_ subject: [UInt8], identifier: UInt64) {
        guard let pattern = SubjectPattern(subject) else { preconditionFailure("the lane asks for what is no subject") }
        subscriptions[identifier] = connection.subscribe(pattern)
    }

    func unsubscribe(_ identifier: UInt64) {
        if let number = subscriptions.removeValue(forKey: identifier) { connection.unsubscribe(number) }
    }

    /// The connection is gone, and what was subscribed to on it.
    func forgetSubscriptions() {
        subscriptions = [:]
        connection.session.forgetSubscriptions()
    }

    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int) {
        do throws(NATSRefusal) {
            try connection.session.publish(subject: subject, reply: reply, payload: payload)
        } catch {
            refused += UInt64(count)
            if case .tooLarge(let bytesMax) = error { tooLarge = (payload.count, bytesMax) }
        }
    }

    func deliver(_ message: BusMessage, from node: NodeID) {
        var delivered = ClusterMessage(
            topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
            retain: message.retain, expiresAt: message.millisecondsLeft.map { shard.now &+ $0 },
            isLogged: message.isLogged)
        if message.change != 0 { delivered.change = RetainedChange(node: node.rawValue, number: message.change) }
        delivered.origin = message.origin
        delivered.dealt = message.dealt.map { names in
            DealtGroups(names: names.map { ($0.shareName, $0.filter) }, hops: message.hops)
        }
        if message.dealt == nil { delivered.undealt = (by: node.rawValue, here: incarnations.current.rawValue) }
        if !shard.received(delivered) { illegible += 1 }
    }

    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt) {
        let groups = news.map { one in
            var group = ClusterGroup(
                node: node.rawValue, number: one.number, shareName: one.name.shareName, filter: one.name.filter,
                connected: one.size.connected, away: one.size.away)
            group.readsLog = one.readsLog
            return group
        }
        learned.append((.told(groups), receipt))
    }

    func forget(_ node: NodeID) { learned.append((.isGone(node), nil)) }

    func confirm(through ticket: UInt64) { confirmed = ticket }

    func opened() {}
}
