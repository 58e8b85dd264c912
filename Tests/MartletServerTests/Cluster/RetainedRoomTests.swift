import BrokerModel
import Cluster
import Configuration
import MQTTCodec
import NATSClient
import NetworkTestKit
import Testing

@testable import BrokerCore
@testable import ClusterGateway
@testable import MartletServer

/// Retained messages for which the cluster's servers have no room, until it shows that they have some.
@Suite struct RetainedRoomTests {
    private final class Node {
        let shell: SimulatedShell
        let servers: PlayedServers
        let gateway: PlayedGateway
        let runner: RetainedRunner
        let space = SubjectSpace(cluster: "c")

        init() throws {
            let plan = try ClusterPlan.played(hasLog: false)
            shell = try SimulatedShell(loops: 1)
            servers = PlayedServers(plan, on: shell.loops[0])
            gateway = PlayedGateway(shell)
            runner = RetainedRunner(
                plan, node: NodeID(store: 1, incarnation: 5), space: space, on: shell.loops[0], servers.connection,
                StreamRefusals("c", on: shell.loops[0], changed: {}), context: gateway)
            servers.connect()
            runner.heard(.found(first: 1, last: 0))
        }

        func subject(_ topic: String) -> String {
            String(decoding: Array(topic.utf8).withUnsafeBytes { space.retained($0) }, as: UTF8.self)
        }

        /// Offers a retained message to the stream, or tells it of one that has just come.
        func give(_ topic: String, isOffer: Bool) {
            let batch = ShardMessageBatch()
            Array(topic.utf8).withUnsafeBytes { topic in
                let publication = Publication(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: topic, qos: .atLeastOnce,
                    retain: true, expiresAt: Message.neverExpires, publisher: 1)
                ClusterPort.append(publication, RetainedChange(node: 0, number: 7), to: batch)
            }
            if isOffer { runner.swept(batch, next: nil, round: .max) } else { runner.received(batch, serial: 0, from: 0) }
            servers.answer()
        }

        /// What was refused is tried again.
        func retry() {
            for _ in 0..<10 {
                shell.network.now += 1000
                shell.turn(0)
                runner.advance()
                servers.answer()
            }
        }
    }

    @Test func `a change is tried again until there is room, and others are refused until then`() throws {
        let node = try Node()
        node.servers.lacksRoom = true
        node.give("a", isOffer: false)
        #expect(node.runner.isFull && node.runner.waitingCount == 1)
        node.retry()
        #expect(node.runner.isFull && node.runner.waitingCount == 1)
        node.servers.lacksRoom = false
        node.retry()
        #expect(!node.runner.isFull && node.runner.waitingCount == 0)
    }

    /// Then nothing is tried any more that would show that there is room.
    @Test func `where another node has stored what was refused, the next change shows whether there is room`() throws {
        let node = try Node()
        node.servers.lacksRoom = true
        node.give("a", isOffer: true)
        #expect(node.runner.isFull && node.runner.waitingCount == 1)
        node.servers.put([1], to: node.subject("a"))
        node.servers.lacksRoom = false
        node.retry()
        #expect(!node.runner.isFull && node.runner.waitingCount == 0)
        node.servers.lacksRoom = true
        node.give("b", isOffer: false)
        #expect(node.runner.isFull && node.runner.waitingCount == 1)
    }
}
