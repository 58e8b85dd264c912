import BrokerCore
import BrokerModel
import Bytes
import MQTTCodec
import MartletTestKit
import Testing

/// Nodes whose share groups dispatch what is in the log, under chance. The test plays the log, and what nodes tell each
/// other of their members.
final class DispatchingCluster {
    final class Node {
        let number: UInt64
        let broker: SimulatedBroker
        let publisher: TestClient
        var members: [TestClient] = []
        var taken = 0
        var isThere = true
        /// How far it is done: as the log has it, and as it will say next.
        var told: UInt64 = 0
        var earlier: UInt64 = 0

        init(_ number: UInt64, shards: Int) {
            self.number = number
            broker = SimulatedBroker(
                shards: shards, settings: SimulatedBroker.testSettings, seed: number, store: SimulatedStore(seed: number + 10))
            for core in broker.cores {
                core.joinCluster(logPartitions: 1, node: number)
                core.received(.isAway(false))
                core.received(.logBegins(0, after: LogPositions.Place(sequence: 0, stream: 5)))
            }
            broker.settle()
            publisher = broker.connected("publisher")
        }
    }

    let seed: UInt64
    private var random: SeededGenerator
    private(set) var nodes: [Node] = []
    private var records: [LogRecord] = []
    private var unlogged: [(node: Node, shard: Int, batch: ShardMessageBatch)] = []
    private var lastMessage = 0
    private var lastMember = 0
    /// The messages that clients have published and the log has.
    private(set) var logged: Set<String> = []
    /// How often members have acknowledged each.
    private(set) var done: [String: Int] = [:]
    private var answered: [EncodedString: Int] = [:]
    /// Who has died, until the others hear of it; then who dispatches for it.
    private var dead: Node?
    private var successors: [(gone: Node, successor: Node)] = []
    private(set) var hasFaults = false
    /// Whether the log does not always take what it is given.
    private let failsAtTimes: Bool

    init(seed: UInt64) {
        self.seed = seed
        failsAtTimes = seed % 3 == 0
        random = SeededGenerator(seed: seed)
        for number in 1...3 as ClosedRange<UInt64> {
            nodes.append(Node(number << 32 | 1, shards: Int.random(in: 1...2, using: &random)))
        }
        for node in nodes { join(node) }
        collect()
    }

    deinit { for node in nodes { node.broker.powerOff() } }

    private var there: [Node] { nodes.filter(\.isThere) }

    private func memberCount(of nodes: [Node]) -> Int { nodes.reduce(0) { $0 + $1.members.count } }

    // MARK: Chance

    func step() {
        guard let node = there.randomElement(using: &random) else { return }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<6: publish(at: node)
        case 6..<10: log(Int.random(in: 1...3, using: &random))
        case 10..<15: read(node, atMost: Int.random(in: 1...4, using: &random))
        case 15..<17: acknowledge(node, atMost: Int.random(in: 1...4, using: &random))
        case 17: tell(node)
        case 18: if node.members.count < 3 { join(node) }
        default: if !node.members.isEmpty, memberCount(of: there) > 1 { leave(node) }
        }
        collect()
    }

    /// A node ends, and with it what it has not sent.
    ///
    /// - Parameters:
    ///   - successor: whether it is one that dispatches for another.
    ///   - isLate: whether all that it dispatches for that one is in the log by then, and nobody remembers up to where
    ///     that was done.
    func kill(successor: Bool = false, isLate: Bool = false) {
        let able = there.filter { node in !successor || successors.contains { $0.successor === node } }
        guard dead == nil, there.count > 1, let node = able.randomElement(using: &random),
            memberCount(of: there.filter { $0 !== node }) > 0
        else { return }
        collect()
        if isLate {
            var before = -1
            while !unlogged.isEmpty || before != records.count {
                before = records.count
                log(.max)
                read(node, atMost: .max)
                collect()
            }
            successors = []
        }
        hasFaults = true
        node.isThere = false
        dead = node
        // Some of what it has published reaches the log all the same.
        var left = Int.random(in: 0...3, using: &random)
        unlogged.removeAll {
            guard $0.node === node else { return false }
            left -= 1
            return left < 0
        }
    }

    /// Its lease has ended: the first of the others dispatches for it.
    func bury() {
        guard let node = dead else { return }
        dead = nil
        for other in there { for core in other.broker.cores { core.received(.nodeIsGone(node.number)) } }
        guard let successor = there.min(by: { $0.number < $1.number }) else { return }
        read(successor, atMost: .max)
        // And for those for which that one dispatched.
        let all = [node] + successors.filter { $0.successor === node }.map(\.gone)
        successors = successors.filter { $0.successor !== node } + all.map { ($0, successor) }
        for gone in all { dispatch(for: gone, successor) }
        successor.broker.settle()
        collect()
    }

    private func dispatch(for gone: Node, _ successor: Node) {
        let span = Int(gone.told)..<records.count
        for core in successor.broker.cores {
            core.received(.dispatchesFor(gone.number, after: [gone.told]))
            for record in records[span] { core.reread(record, for: .learnDispatched(by: gone.number)) }
            for record in records[span] { #expect(core.reread(record, for: .dispatchAgain(for: gone.number)) == 0) }
            core.received(.forgetDispatched(by: gone.number))
        }
    }

    /// Everything goes on until nothing is left to do.
    func finish() {
        bury()
        var before = (-1, -1)
        while !unlogged.isEmpty || before != (records.count, done.values.reduce(0, +)) {
            before = (records.count, done.values.reduce(0, +))
            log(.max)
            for node in there {
                read(node, atMost: .max)
                acknowledge(node, atMost: .max)
            }
            collect()
        }
        for node in there {
            tell(node)
            tell(node)
        }
    }

    /// Whether all nodes know to be done with what was dispatched to they.
    var isDone: Bool {
        there.allSatisfy { node in node.broker.cores.allSatisfy { $0.dispatched(0).through == UInt64(records.count) } }
    }

    // MARK: Clients

    private func publish(at node: Node) {
        // Its connection ends when nobody knows what has become of its messages.
        if !node.publisher.isConnected { node.publisher.connect() }
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            lastMessage += 1
            node.publisher.publish("a/b", "\(lastMessage)", qos: .atLeastOnce)
        }
    }

    private func join(_ node: Node) {
        lastMember += 1
        let member = node.broker.connected(EncodedString(Array("member \(lastMember)".utf8)) ?? "")
        member.acknowledgement = .manual
        node.members.append(member)
        member.subscribe("$share/g/a/#", qos: .atLeastOnce)
    }

    private func leave(_ node: Node) {
        let member = node.members.remove(at: Int.random(in: 0..<node.members.count, using: &random))
        hasFaults = true
        if random.oneIn(2) { member.disconnect() } else { member.lose() }
    }

    private func acknowledge(_ node: Node, atMost count: Int) {
        for member in node.members {
            let before = answered[member.identifier] ?? 0
            for message in member.messages.dropFirst(before).prefix(count) {
                guard let identifier = message.packetIdentifier else { continue }
                member.acknowledge(.puback, identifier)
                done[message.text, default: 0] += 1
                answered[member.identifier, default: 0] += 1
            }
        }
        node.broker.settle()
    }

    // MARK: What nodes tell

    private func collect() {
        for node in there {
            repeat {
                let notes = node.broker.clusterNotes.dropFirst(node.taken)
                node.taken = node.broker.clusterNotes.count
                for (shard, note) in notes {
                    switch note {
                    case .messages(let batch): if batch.logSerial != 0 { unlogged.append((node, shard, batch)) }
                    case .fence(let token): node.broker.cores[0].passedFence(token, of: shard)
                    case .group: tellMembers(of: node)
                    default: continue
                    }
                }
                node.broker.settle()
            } while node.taken < node.broker.clusterNotes.count
        }
    }

    private func tellMembers(of node: Node) {
        var group = ClusterGroup(
            node: node.number, number: 1, shareName: Array("g".utf8), filter: Array("a/#".utf8), connected: node.members.count,
            away: 0)
        group.readsLog = true
        for other in there where other !== node {
            for core in other.broker.cores { core.received(.group(group)) }
            other.broker.settle()
        }
    }

    /// A node says how far it was done when it was asked the last time.
    private func tell(_ node: Node) {
        let all = node.broker.cores.map { $0.dispatched(0) }
        node.told = max(node.told, node.earlier)
        node.earlier = min(all.map(\.through).min() ?? 0, all.map(\.last).max() ?? 0)
    }

    // MARK: The log

    private func log(_ count: Int) {
        for _ in 0..<min(count, unlogged.count) {
            let (node, shard, batch) = unlogged.removeFirst()
            let fails = failsAtTimes && node.isThere && random.oneIn(10)
            var record = LogRecord(partition: 0, sequence: UInt64(records.count + 1))
            record.append(batch.logged)
            // Of what failed nobody knows whether the log has it.
            if !fails || random.oneIn(2) {
                for message in record.messages where message.hops == 0 { logged.insert(record.text(message)) }
                records.append(record)
            }
            guard node.isThere else { continue }
            if fails {
                hasFaults = true
                node.broker.cores[shard].received(
                    .logFailed(through: batch.logSerial, FailedBatches(partitions: .max, isRefused: false)))
            } else {
                node.broker.cores[shard].received(.logged(through: batch.logSerial))
            }
            node.broker.settle()
        }
    }

    private func read(_ node: Node, atMost count: Int) {
        for core in node.broker.cores {
            let first = Int(core.logPositions[0]?.sequence ?? 0)
            for record in records[first..<min(records.count, count == .max ? .max : first + count)] {
                #expect(core.received(record) == 0)
            }
        }
        node.broker.settle()
    }
}
