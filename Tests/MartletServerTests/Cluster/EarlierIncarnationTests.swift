import Configuration
import MartletTestKit
import NetworkTestKit
import Platform
import Testing

@testable import BrokerCore
@testable import Cluster
@testable import ClusterGateway
@testable import MartletServer
@testable import NATSClient
@testable import ServerLoops

/// A node that was killed while a record of its was on its way into the log, and is there again.
@Suite struct EarlierIncarnationTests {
    private static let earlier = NodeID(store: 1, incarnation: 4)

    private final class Node {
        let shell: SimulatedShell
        let servers: PlayedServers
        let gateway: PlayedGateway
        let incarnations = NodeIncarnations(NodeID(store: 1, incarnation: 5))
        let log: ClusterLog

        init() throws {
            let plan = try ClusterPlan.played()
            shell = try SimulatedShell(loops: 1, disk: SimulatedStore(seed: 1))
            servers = PlayedServers(plan, on: shell.loops[0])
            gateway = PlayedGateway(shell)
            shell.loops[0].shard.joinCluster(
                logPartitions: plan.logPartitions, claimsSessions: true, node: incarnations.current.rawValue)
            log = ClusterLog(
                plan, incarnations, on: shell.loops[0], connection: servers.connection,
                StreamRefusals("c", on: shell.loops[0], changed: {}), context: gateway)
            unread = Set(log.partitions.indices)
        }

        /// What the shard has not read of what earlier incarnations have written.
        var unread: Set<Int> {
            get { shell.loops[0].shard.clusterLog?.unread ?? [] }
            set { shell.loops[0].shard.clusterLog?.unread = newValue }
        }

        /// The servers are there, with an empty log.
        func connect() {
            servers.connect()
            log.isAttached = true
            for partition in log.partitions {
                partition.writer.attached(now: log.now, log)
                log.heard(.found(first: 1, last: 0), partition)
                log.heard(.caughtUp, partition)
            }
            turn()
        }

        func turn() {
            servers.answer()
            shell.turn(0)
        }

        /// Gives a partition's records, in the order in which the servers have stored them.
        func read(_ partition: LogPartition) {
            for (number, record) in servers.published.enumerated() where record.subject == "\(partition.subject)" {
                let reply = Array("$JS.ACK.s.c.1.\(number + 1).\(number + 1).0.0".utf8)
                reply.withUnsafeBytes { reply in
                    record.payload.withUnsafeBytes { payload in
                        guard let metadata = DeliveryMetadata(reply: reply) else { return }
                        let none = UnsafeRawBufferPointer(start: nil, count: 0)
                        log.received(
                            StreamRecord(metadata: metadata, subject: none, headers: none, payload: payload), partition)
                    }
                }
            }
            turn()
        }
    }

    @Test func `shards hear that the log is current behind the word that the earlier incarnation is gone`() throws {
        let node = try Node()
        node.log.end([Self.earlier])
        node.connect()
        #expect(node.unread == Set(node.log.partitions.indices))
        for partition in node.log.partitions {
            #expect(!node.unread.isEmpty)
            node.read(partition)
            // Whatever it has on its way does not count any more.
            let late = Bundle.header(Bundle.Origin(node: Self.earlier, queue: 0), number: 1_000_000)
            let counts = late.withUnsafeBytes { late in
                Bundle(late).map { partition.order.counts($0, at: 1_000_000) }
            }
            #expect(counts == false)
        }
        #expect(node.unread.isEmpty)
    }

    @Test func `a node that was never there before waits for no word`() throws {
        let node = try Node()
        node.log.end([])
        node.connect()
        #expect(node.unread.isEmpty)
    }

    @Test func `a log that has no room, and takes nothing late, is not waited for`() throws {
        let node = try Node()
        node.servers.lacksRoom = true
        node.log.end([Self.earlier])
        node.connect()
        #expect(node.unread.isEmpty)
    }
}
