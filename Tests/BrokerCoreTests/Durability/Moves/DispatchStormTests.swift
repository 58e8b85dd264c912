import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Share groups that dispatch what is in the log, whoever dies. `MARTLET_SEEDS=10000` runs as many seeds,
/// `MARTLET_SEED=17` runs that one.
@Suite struct DispatchStormTests {
    @Test(arguments: Seeds.parts(20, perPart: 5))
    func `a member acknowledges each message that the log has, whichever node dies and whichever member goes`(
        seeds: ClosedRange<UInt64>
    ) {
        for seed in seeds {
            var storm = DispatchStorm(seed: seed)
            let killedAt = seed % 4 == 0 ? nil : Int(seed * 7 % 100)
            // Who dispatches for that one may be killed as well, at once or later.
            let successorKilledAt = seed % 4 < 2 ? nil : killedAt.map { $0 + 20 + Int(seed / 4 % 3) * 4 }
            for step in 0..<150 {
                if step == killedAt { storm.kill() }
                if step == killedAt.map({ $0 + 20 }) { storm.bury() }
                if step == successorKilledAt { storm.kill(successor: true, isLate: seed % 4 == 3) }
                if step == successorKilledAt.map({ $0 + 20 }) { storm.bury() }
                storm.step()
            }
            storm.finish()
            let lost = storm.logged.filter { storm.done[$0] == nil }
            #expect(lost.isEmpty && storm.logged.count > 20, "\(lost.sorted()) of \(storm.logged.count): \(Seeds.replay(seed))")
            #expect(storm.isDone, "somebody does not know that all is done: \(Seeds.replay(seed))")
            if !storm.hasFaults { #expect(storm.done.values.allSatisfy { $0 == 1 }, "some came twice: \(Seeds.replay(seed))") }
        }
    }
}

/// Members of a share group, with sessions that end with their connections, on nodes that die; the log does not always
/// take what it is given. One seed is one run.
private struct DispatchStorm {
    private let cluster: MovingCluster
    private var random: SeededGenerator
    /// By node.
    private let publishers: [TestClient]
    private var members: [[TestClient]]
    private var lastMessage = 0
    private var lastMember = 0
    /// How often members have acknowledged each message.
    private(set) var done: [String: Int] = [:]
    private var answered: [EncodedString: Int] = [:]
    /// Who has died, until the others hear of it.
    private var dead: Int?
    private(set) var hasFaults = false
    private let failsAtTimes: Bool

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        failsAtTimes = seed % 3 == 0
        cluster = MovingCluster(nodes: 3, shards: seed % 5 == 0 ? 1 : 2, dispatches: true)
        (cluster.logs, cluster.readers) = (false, [])
        let nodes = cluster.nodes
        publishers = nodes.indices.map { nodes[$0].client("publisher \($0)") }
        members = publishers.map { _ in [] }
        for node in cluster.nodes.indices { join(node) }
    }

    private var there: [Int] { cluster.nodes.indices.filter { !cluster.lost.contains($0) } }

    private func memberCount(of nodes: [Int]) -> Int { nodes.reduce(0) { $0 + members[$1].count } }

    /// The messages that clients have published and the log has.
    var logged: Set<String> {
        Set(cluster.records.flatMap { record in record.messages.filter { $0.hops == 0 }.map { record.text($0) } })
    }

    mutating func step() {
        guard let node = there.randomElement(using: &random) else { return }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<6: publish(at: node)
        case 6..<10: log(Int.random(in: 1...3, using: &random))
        case 10..<15: read(node, atMost: Int.random(in: 1...4, using: &random))
        case 15..<17: acknowledge(node, atMost: Int.random(in: 1...4, using: &random))
        case 17: if random.oneIn(3) { cluster.saveLogPositions() }
        case 18: if members[node].count < 3 { join(node) }
        default: if !members[node].isEmpty, memberCount(of: there) > 1 { leave(node) }
        }
        cluster.run()
    }

    /// A node ends, and with it what it has not sent.
    ///
    /// - Parameters:
    ///   - successor: whether it is one that dispatches for another.
    ///   - isLate: whether all that it dispatches for that one is in the log by then, and nobody remembers up to where
    ///     that was done.
    mutating func kill(successor: Bool = false, isLate: Bool = false) {
        let successors = Set(cluster.successors.values)
        let able = there.filter { !successor || successors.contains(cluster.number(of: $0)) }
        guard dead == nil, there.count > 1, let node = able.randomElement(using: &random),
            memberCount(of: there.filter { $0 != node }) > 0
        else { return }
        if isLate {
            var before = -1
            while !cluster.unlogged.isEmpty || before != cluster.records.count {
                before = cluster.records.count
                log(.max)
                cluster.read(node)
                cluster.run()
            }
            cluster.successors = [:]
        }
        (dead, hasFaults) = (node, true)
        // Some of what it has published reaches the log all the same.
        let left = cluster.unlogged.filter { $0.node == node }.prefix(Int.random(in: 0...3, using: &random))
        for (_, _, batch) in left { cluster.append(batch, from: node) }
        cluster.lose(node)
    }

    /// Its lease has ended: the first of the others dispatches for it.
    mutating func bury() {
        guard let node = dead, let successor = there.first else { return }
        dead = nil
        cluster.inherit(node, by: successor)
    }

    /// Everything goes on until nothing is left to do.
    mutating func finish() {
        bury()
        var before = (-1, -1)
        while !cluster.unlogged.isEmpty || before != (cluster.records.count, done.values.reduce(0, +)) {
            before = (cluster.records.count, done.values.reduce(0, +))
            log(.max)
            for node in there {
                cluster.read(node)
                acknowledge(node, atMost: .max)
            }
            cluster.run()
        }
    }

    /// Whether all nodes know to be done with what was dispatched to them.
    var isDone: Bool {
        let last = UInt64(cluster.records.count)
        return there.allSatisfy { cluster.nodes[$0].cores.allSatisfy { $0.dispatched(cluster.partition).through == last } }
    }

    // MARK: Clients

    private mutating func publish(at node: Int) {
        // Its connection ends when nobody knows what has become of its messages.
        if !publishers[node].isConnected { cluster.connect(publishers[node], to: node, clean: true, expiry: 0) }
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            lastMessage += 1
            publishers[node].publish("a/b", "\(lastMessage)", qos: .atLeastOnce)
        }
    }

    private mutating func join(_ node: Int) {
        lastMember += 1
        let member = cluster.connected("member \(lastMember)", on: node, clean: true, expiry: 0)
        member.acknowledgement = .manual
        members[node].append(member)
        member.subscribe("$share/g/a/#", qos: .atLeastOnce)
        cluster.run()
    }

    private mutating func leave(_ node: Int) {
        let member = members[node].remove(at: Int.random(in: 0..<members[node].count, using: &random))
        hasFaults = true
        if random.oneIn(2) { member.disconnect() } else { member.lose() }
    }

    private mutating func acknowledge(_ node: Int, atMost count: Int) {
        for member in members[node] {
            let before = answered[member.identifier] ?? 0
            for message in member.messages.dropFirst(before).prefix(count) {
                guard let identifier = message.packetIdentifier else { continue }
                member.acknowledge(.puback, identifier)
                done[message.text, default: 0] += 1
                answered[member.identifier, default: 0] += 1
            }
        }
        cluster.nodes[node].settle()
    }

    // MARK: The log

    private mutating func log(_ count: Int) {
        cluster.collect()
        for _ in 0..<min(count, cluster.unlogged.count) {
            guard failsAtTimes, random.oneIn(10) else {
                cluster.log(at: 0)
                continue
            }
            hasFaults = true
            let (node, shard, batch) = cluster.unlogged.removeFirst()
            // Nobody knows whether the log has it.
            if random.oneIn(2) { cluster.append(batch, from: node) }
            cluster.fail(batch, of: node, shard)
        }
    }

    private func read(_ node: Int, atMost count: Int) {
        let last = cluster.nodes[node].cores.compactMap { $0.logPositions[cluster.partition]?.sequence }.min() ?? 0
        cluster.read(node, through: Int(last) + count)
    }
}
