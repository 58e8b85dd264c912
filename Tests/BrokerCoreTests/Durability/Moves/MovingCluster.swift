import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Nodes of a cluster whose sessions move. The test plays everything between them: the log, the records that say who
/// keeps a session, and the messages, of which it may hold some back.
final class MovingCluster {
    /// Which run of which node has written a record; a will's is any run's.
    struct Writer {
        let node: Int
        let run: Int
        var isOfWill = false
    }

    /// A claim that is not settled.
    struct Move {
        let to: Int
        let epoch: UInt64
        let cleanStart: Bool
        /// Whether the claiming node has something itself, and by which claim.
        let own: UInt64?
        /// What those who were asked have answered first; those that have nothing are not in it.
        var answers: [Int: SessionChunk] = [:]
        var unanswered: Set<Int>
        /// Who gives it.
        var from: Int?
    }

    /// What the cluster knows of a session.
    struct Record {
        var epoch: UInt64 = 0
        /// Who has kept it and may have it still.
        var owners: Set<Int> = []
    }

    var nodes: [SimulatedBroker]
    /// Who has come by `connect`: the connections to a node end with that.
    var clients: [TestClient] = []
    /// What the log has, by number from 1 on.
    var records: [LogRecord] = []
    var writers: [Writer] = []
    /// How often each node was started, and how far the log went then.
    var runs: [Int]
    var ends: [Int]
    /// Up to where each run of each node has said to be done with what share groups have dispatched to it, and up to
    /// where the present one will say next.
    var told: [[UInt64]]
    /// The first run of each node for which nobody dispatches; and, by its number, which run dispatches for one.
    var firstRun: [Int]
    var successors: [UInt64: UInt64] = [:]
    /// The last run that has begun to dispatch for each.
    var begun: [UInt64: UInt64] = [:]
    var earlier: [UInt64]
    let dispatches: Bool
    var sessions: [[UInt8]: Record] = [:]
    var moves: [[UInt8]: Move] = [:]
    /// Sessions that are restored because they are over.
    var ending: Set<[UInt8]> = []
    /// What the shards have told and nobody has heard, in order.
    var nodeMessages: [(node: Int, shard: Int, note: ToCluster)] = []
    /// Batches that are not in the log.
    var unlogged: [(node: Int, shard: Int, batch: ShardMessageBatch)] = []
    /// Those of nodes that are cut off, which hear nothing of them.
    var unheard: [(node: Int, shard: Int, batch: ShardMessageBatch)] = []
    /// By node and group: what its shards have told last of its members.
    var memberships: [[[UInt8]: [Int: ClusterGroup]]]
    var taken: [Int]
    /// Whether `run` puts into the log what was published, and which nodes read it.
    var logs = true
    var readers: Set<Int>
    /// Whether it settles what nodes had been dispatched before they were killed.
    var settlesEarlierDispatches = true
    /// Whether who takes a session up knows how far it had come, of what was read before.
    var remembersProgress = true
    /// Whether `run` gives sessions what they lack.
    var replays = true
    /// Nodes that are not there.
    var lost: Set<Int> = []
    /// What the cluster has stored of sessions, and what it has not.
    var saved: [[UInt8]: (epoch: UInt64, state: [UInt8], places: [UInt8])] = [:]
    var unstored: [(node: Int, saved: SavedSession)] = []
    var storesSaves = true
    var savedCount = 0
    /// What shards have given of wills: those that are due, and what each session's record has.
    var dueWills: [(node: Int, identifier: [UInt8], will: SavedWill)] = []
    var logged: Set<WillName> = []
    var wills: [[UInt8]: SavedWill] = [:]
    var awaySince: [[UInt8]: UInt64] = [:]
    var adoptions: [(node: Int, isHere: Bool, will: WillName?)] = []
    var woken: [(node: Int, identifier: [UInt8])] = []
    /// Wills that are not to be published any more.
    var endedWills: [WillName] = []
    /// Whether who begins anew is let in before those that have kept the session are asked; whom `askLate` asks, by
    /// which claim; and the last claim of each node.
    var letsInEarly = false
    var late: [(node: Int, identifier: [UInt8], epoch: UInt64)] = []
    var claims: [[UInt8]: [Int: UInt64]] = [:]
    /// What came of it.
    var pieceCount = 0
    var replayedCount = 0
    var firstReplayed: UInt64?
    var ended: [[UInt8]] = []
    let partition = 0

    /// - Parameter dispatches: whether share groups have members on all nodes, and are given what the log has; else
    ///   each node has its own.
    init(nodes count: Int = 2, shards: Int = 1, dispatches: Bool = false, change: (inout BrokerSettings) -> Void = { _ in }) {
        self.dispatches = dispatches
        nodes = (0..<count).map {
            SimulatedBroker(
                shards: shards, settings: SimulatedBroker.testSettings(change), seed: UInt64($0 + 1),
                store: SimulatedStore(seed: UInt64($0 + 10)))
        }
        taken = Array(repeating: 0, count: count)
        (runs, ends) = (taken, taken)
        told = Array(repeating: [0], count: count)
        firstRun = taken
        earlier = taken.map { UInt64($0) }
        readers = Set(0..<count)
        memberships = Array(repeating: [:], count: count)
        for node in 0..<count {
            join(node)
            nodes[node].beginLog()
        }
    }

    deinit { for node in nodes { node.powerOff() } }

    func join(_ node: Int) {
        nodes[node].joinCluster(logPartitions: 1, claimsSessions: true, node: number(of: node))
    }

    /// A power cut of a node, and a start on what its store has.
    ///
    /// - Parameters:
    ///   - committing: how many batches reach its disk all the same.
    ///   - logsSome: whether what it had published reaches the log, of which it hears nothing.
    func crash(_ node: Int, committing: Int = 0, logsSome: Bool = false) {
        cut(node, logsSome: logsSome)
        logGone(node, run: runs[node])
        start(node, committing: committing)
    }

    /// A node is killed, and stays away, or cannot be reached.
    ///
    /// - Parameter logsSome: whether what it had published reaches the log, of which it hears nothing.
    func cut(_ node: Int, logsSome: Bool = false) {
        collect()
        if logsSome { for (of, _, batch) in unlogged where of == node { append(batch, from: node) } }
        unheard += unlogged.filter { $0.node == node }
        lost.insert(node)
        readers.remove(node)
        nodeMessages.removeAll { $0.node == node }
        unlogged.removeAll { $0.node == node }
        unstored.removeAll { $0.node == node }
    }

    /// A node that could not be reached until its lease had ended goes on as another run.
    ///
    /// - Parameter staying: whether its clients may stay.
    func goOn(_ node: Int, staying: Bool = false) {
        if !staying { for core in nodes[node].cores { core.received(.fenceClients("the lease has ended")) } }
        nodes[node].settle()
        // Nobody hears what became of what it has said last.
        collect()
        for (of, shard, batch) in unheard + unlogged where of == node { fail(batch, of: node, shard) }
        beginIncarnation(node)
        let parts = nodes[node].cores.compactMap { $0.endClusterIncarnation(next: number(of: node)) }
        nodes[node].settle()
        for core in nodes[node].cores { core.beginClusterIncarnation(after: parts.dropFirst().reduce(parts[0]) { $0.union($1) }) }
        nodes[node].settle()
        // Nothing that it has said in between counts.
        collect()
        for (of, shard, batch) in unheard + unlogged where of == node { fail(batch, of: node, shard) }
        unheard.removeAll { $0.node == node }
        unlogged.removeAll { $0.node == node }
        for other in nodes.indices where dispatches && other != node && !lost.contains(other) {
            tellAllMembers(of: node, to: other)
            tellAllMembers(of: other, to: node)
        }
        nodes[node].settle()
    }

    func beginIncarnation(_ node: Int) {
        lost.remove(node)
        readers.insert(node)
        runs[node] += 1
        // What the others had read when it came may have been dispatched to it from then on.
        told[node].append(UInt64(records.count))
        earlier[node] = 0
        for (identifier, move) in moves where move.to == node { moves[identifier] = nil }
    }

    /// A node that was killed starts on what its store has.
    ///
    /// - Parameter committing: how many batches had reached its disk, of those that had not been told to be there.
    func start(_ node: Int, committing: Int = 0) {
        beginIncarnation(node)
        unheard.removeAll { $0.node == node }
        memberships[node] = [:]
        ends[node] = records.count
        let gone = clients(of: node)
        nodes[node] = nodes[node].crashed(committing: committing)
        for client in gone {
            client.broker = nodes[node]
            client.connectionIsGone()
        }
        taken[node] = 0
        join(node)
        nodes[node].settle()
        for other in nodes.indices where dispatches && other != node && !lost.contains(other) {
            tellAllMembers(of: other, to: node)
        }
    }

    func clients(of node: Int) -> [TestClient] { clients.filter { $0.broker === nodes[node] } }

    /// Of a node's present run.
    func number(of node: Int) -> UInt64 { number(of: node, run: runs[node]) }

    func number(of node: Int, run: Int) -> UInt64 { dispatches ? UInt64(node + 1) << 32 | UInt64(run + 1) : 0 }

    /// Nodes that are there and may have a client's session.
    func owners(of client: TestClient) -> [Int] {
        (sessions[Array(client.identifier.bytes)]?.owners ?? []).subtracting(lost).sorted()
    }

    func core(_ node: Int, _ identifier: [UInt8]) -> BrokerShard {
        let name = EncodedString(identifier) ?? ""
        return nodes[node].cores[nodes[node].shard(of: name)]
    }
}
