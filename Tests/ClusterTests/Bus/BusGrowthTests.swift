import MQTTCodec
import Testing

@testable import Cluster

/// What a message and a subscription cost as the cluster grows, counted in the simulation: the table of
/// `Cluster.docc/Growth.md`.
///
/// A hop is one crossing of a connection to the engine, or of a route between two of its servers.
struct BusGrowthTests {
    private struct Cost: Equatable {
        var hops: Int
        var bytes: Int
    }

    private func open(_ nodes: Int) -> BusWorld {
        let world = BusWorld(seed: 1, nodeCount: nodes)
        world.isProbing = false
        world.heal()
        #expect(world.nodes.allSatisfy { $0.bus.state == .open })
        return world
    }

    /// What one message of 8 bytes costs.
    private func message(_ world: BusWorld) -> Cost {
        let before = Cost(hops: world.engine.hops, bytes: world.engine.hopBytes)
        world.publish("a/b", at: world.nodes[0])
        world.clock.run(for: 1_000_000)
        return Cost(hops: world.engine.hops - before.hops, bytes: world.engine.hopBytes - before.bytes)
    }

    /// Nobody else wants it: one hop. One node wants it: three hops at most, however many nodes there are. All want it:
    /// one hop for each node, and one for each other server. A fence is two messages for each other node, and one
    /// serves all who come while another is under way.
    @Test(arguments: [1, 3, 9, 33])
    func `a message costs a hop for each node that wants it and each server between, and a first interest two messages a node`(
        nodes: Int
    ) {
        let world = open(nodes)
        func nodeMessages() -> UInt64 { world.nodes.reduce(0) { $0 + $1.bus.counters.nodeMessages } }
        func subscribing(_ filters: [TopicFilter]) -> UInt64 {
            let before = nodeMessages()
            for filter in filters { world.subscribe(filter, at: world.nodes[nodes - 1]) }
            world.clock.run(for: 500_000)
            return nodeMessages() - before
        }
        let others = UInt64(nodes - 1)
        #expect(message(world) == Cost(hops: 1, bytes: 35))
        #expect(subscribing(["a/+"]) == 2 * others)
        let one = message(world)
        #expect(one.hops <= 3 && one.bytes == one.hops * 35)
        #expect(subscribing((0..<100).compactMap { TopicFilter("x/\($0)") }) == 4 * others)
        #expect(subscribing(["a/b"]) == 0)
        for node in world.nodes { world.subscribe("#", at: node) }
        world.clock.run(for: 500_000)
        let servers = Set(world.nodes.compactMap { $0.connection?.server }).count
        #expect(message(world).hops == nodes + servers - 1)
        #expect(world.failures.isEmpty, "\(world)")
    }
}
