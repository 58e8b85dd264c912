import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// What share groups cost as the cluster grows, counted in the simulation: the table of `Cluster.docc/Growth.md`.
struct GroupGrowthTests {
    private static let group = ShareGroupName(shareName: Array("g".utf8), filter: Array("a/#".utf8))

    private func open(_ nodes: Int) -> BusWorld {
        let world = BusWorld(seed: 1, nodeCount: nodes)
        world.isProbing = false
        world.heal()
        #expect(world.nodes.allSatisfy { $0.bus.state == .open })
        return world
    }

    private func nodeMessages(_ world: BusWorld, _ body: () -> Void) -> UInt64 {
        func count() -> UInt64 { world.nodes.reduce(0) { $0 + $1.bus.counters.nodeMessages } }
        let before = count()
        body()
        world.clock.run(for: 500_000)
        return count() - before
    }

    private func join(_ name: ShareGroupName, _ node: BusNode, _ world: BusWorld) {
        let member = BusMember(world.members.count + 1, name, node)
        world.members.append(member)
        node.join(member)
    }

    /// Bytes on each hop of one message of 8 bytes, and how many hops it makes.
    private func message(_ world: BusWorld) -> (hops: Int, bytes: Int) {
        let before = (world.engine.hops, world.engine.hopBytes)
        world.publish("a/b", at: world.nodes[0])
        world.clock.run(for: 1_000_000)
        let hops = world.engine.hops - before.0
        return (hops, (world.engine.hopBytes - before.1) / max(1, hops))
    }

    /// Without a message: it goes where interest is, with a few bytes that name whose turn it is.
    @Test(arguments: [1, 3, 9, 33])
    func `a message to a share group goes to each node that has members, and its bytes do not grow with them`(nodes: Int) {
        let world = open(nodes)
        let plain = message(world).bytes
        join(Self.group, world.nodes[nodes - 1], world)
        world.clock.run(for: 500_000)
        let sent = nodeMessages(world) {
            let one = message(world)
            #expect(one.hops <= 3 && (plain + 2...plain + 15).contains(one.bytes))
        }
        #expect(sent == 0)
        for _ in 0..<3 { for node in world.nodes { join(Self.group, node, world) } }
        world.clock.run(for: 500_000)
        let servers = Set(world.nodes.compactMap { $0.connection?.server }).count
        for _ in 0..<10 {
            let all = message(world)
            #expect(all.hops == nodes + servers - 1 && (plain + 2...plain + 15).contains(all.bytes))
        }
        #expect(world.failures.isEmpty, "\(world)")
    }

    /// Two messages for each other node, and one fence more serves all who come and go while that is under way.
    @Test(arguments: [1, 3, 9, 33])
    func `a member that comes or goes costs a fence, and a hundred at once cost two`(nodes: Int) {
        let world = open(nodes)
        let others = UInt64(nodes - 1)
        let node = world.nodes[nodes - 1]
        #expect(nodeMessages(world) { join(Self.group, node, world) } <= 4 * others)
        #expect(nodeMessages(world) { join(Self.group, node, world) } == 2 * others)
        #expect(nodeMessages(world) { for _ in 0..<100 { join(Self.group, node, world) } } == 4 * others)
        let members = Array(world.members.dropLast())
        #expect(nodeMessages(world) { for member in members { node.leave(member) } } == 4 * others)
        #expect(nodeMessages(world) { for _ in 0..<10 { _ = message(world) } } == 0)
        #expect(world.failures.isEmpty, "\(world)")
    }

    /// 7 bytes, and 5 and its names for each group that has changed.
    @Test func `a message is as large as what has changed`() {
        var book = GroupBook()
        let node = NodeID(2)
        #expect(book.nodeMessage(for: node).encoded.count == 7)
        for number in 0..<100 {
            let name = ShareGroupName(shareName: Array("g\(number % 10)".utf8), filter: Array("t/\(number / 10)".utf8))
            _ = book.set(name, part: 0, GroupSize(connected: 1))
        }
        let all = book.nodeMessage(for: node)
        #expect(all.encoded.count == 7 + 100 * (5 + 5))
        book.heard(GroupWord(conversation: all.conversation, through: all.through), of: node)
        for count in 2...50 { _ = book.set(all.news[0].name, part: 0, GroupSize(connected: count)) }
        #expect(book.nodeMessage(for: node).encoded.count <= 12 + 5 + 5)
    }

    /// In the log whose turn it is stands with the message, and how far a node is done in an entry.
    @Test func `what is dispatched out of the log has at most 28 bytes more, and 26 for each other group`() {
        let payload = Array("12345678".utf8)
        func count(_ shares: Int, isOwn: Bool) -> Int {
            let all = (0..<shares).map {
                LoggedShare(node: 3 << 32 | 1, group: .max - UInt64($0), member: isOwn ? .max : 0)
            }
            return Bundle.messageBody("a/b", payload: payload) { ($0.publisher, $0.shares) = (7, all) }.count
        }
        for isOwn in [false, true] {
            let none = count(0, isOwn: isOwn)
            #expect((19...28).contains(count(1, isOwn: isOwn) - none))
            #expect((17...26).contains(count(2, isOwn: isOwn) - count(1, isOwn: isOwn)))
        }
        for sequence: UInt64 in [1, 1 << 20, 1 << 30] {
            #expect((2...7).contains(Bundle.encode(.dispatched(through: sequence)).count))
        }
    }
}
