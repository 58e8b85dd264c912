import BrokerSimulation
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Share groups of a broker that is a node of a cluster, which the test plays.
@Suite struct ClusterGroupTests {
    private func node(shards: Int = 1, seed: UInt64 = 1) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards, seed: seed)
        broker.joinCluster()
        return broker
    }

    /// Another node has members of the group `g` of the filter `a`.
    private func tell(
        _ broker: SimulatedBroker, node: UInt64 = 7, number: UInt32 = 3, connected: Int, away: Int = 0, readsLog: Bool = false
    ) {
        var news = ClusterGroup(
            node: node, number: number, shareName: Array("g".utf8), filter: Array("a".utf8), connected: connected, away: away)
        news.readsLog = readsLog
        for core in broker.cores { core.received(.group(news)) }
    }

    private func deliver(
        _ payload: String, to broker: SimulatedBroker, dispatched: DispatchedGroups?,
        undispatched: (by: UInt64, here: UInt64)? = nil,
        qos: QoS = .atLeastOnce
    ) {
        ClusterMessage.with("a", payload, qos: qos) { message in
            (message.dispatched, message.undispatched) = (dispatched, undispatched)
            let isTaken = broker.cores[0].received(message)
            #expect(isTaken)
        }
        broker.settle()
    }

    private func named(_ name: String = "g", hops: UInt8 = 0) -> DispatchedGroups {
        DispatchedGroups(names: [(Array(name.utf8), Array("a".utf8))], hops: hops)
    }

    /// What was sent: payload, to whom it is dispatched, and hops.
    private func sent(_ broker: SimulatedBroker) -> [String] {
        var texts: [String] = []
        for (_, note) in broker.clusterNotes {
            guard case .messages(let batch) = note else { continue }
            batch.forEachMessage { message in
                let dispatch = message.dispatch.map { "\($0.shares.map { "\($0.node).\($0.number)" }) \($0.hops)" } ?? "none"
                texts.append("\(String(decoding: message.payload, as: UTF8.self)) \(dispatch)")
            }
        }
        return texts
    }

    private func sizes(_ broker: SimulatedBroker) -> [String] {
        broker.clusterNotes.compactMap { _, note in
            if case .group(_, _, let connected, let away, _) = note { "\(connected)+\(away)" } else { nil }
        }
    }

    @Test(arguments: [1, 4]) func `members on all nodes share by turns, and who is chosen elsewhere is named`(shards: Int) {
        let broker = node(shards: shards)
        let member = broker.connected("member")
        member.subscribe("$share/g/a", qos: .atLeastOnce)
        tell(broker, connected: 2)
        let publisher = broker.connected("publisher")
        for number in 0..<9 { publisher.publish("a", "\(number)", qos: .atLeastOnce) }
        #expect(member.messages.count == 3)
        let texts = sent(broker)
        #expect(texts.count == 9 && texts.count { $0.hasSuffix("[\"7.3\"] 0") } == 6 && texts.count { $0.hasSuffix("[] 0") } == 3)
    }

    @Test func `a node without a member names the one that has some, until that is gone`() {
        let broker = node()
        tell(broker, connected: 1)
        let publisher = broker.connected("publisher")
        publisher.publish("a", "1")
        broker.cores[0].received(.nodeIsGone(7))
        publisher.publish("a", "2")
        tell(broker, connected: 1)
        tell(broker, connected: 0)
        publisher.publish("a", "3")
        #expect(sent(broker) == ["1 [\"7.3\"] 0", "2 none", "3 none"])
    }

    @Test func `connected members come first, here as elsewhere`() {
        let broker = node()
        tell(broker, connected: 0, away: 5)
        let member = broker.connected("member")
        member.subscribe("$share/g/a")
        broker.connected("publisher").publish("a", "1")
        tell(broker, node: 8, number: 1, connected: 1)
        member.disconnect()
        broker.connected("other").publish("a", "2")
        #expect(member.messages.count == 1 && sent(broker) == ["1 [] 0", "2 [\"8.1\"] 0"])
    }

    @Test func `while the cluster is away members of this node get everything`() {
        let broker = node()
        let member = broker.connected("member")
        member.subscribe("$share/g/a")
        tell(broker, connected: 9)
        let publisher = broker.connected("publisher")
        broker.cores[0].received(.isAway(true))
        for number in 0..<5 { publisher.publish("a", "\(number)") }
        #expect(member.messages.count == 5)
        #expect(sent(broker) == (0..<5).map { "\($0) [] 0" })
    }

    @Test func `a node that has not reached the cluster yet leaves what it publishes to the others, too`() {
        let broker = SimulatedBroker(
            shards: 1, settings: SimulatedBroker.testSettings { $0.refusesWithoutCluster = false })
        broker.cores[0].joinCluster()
        let member = broker.connected("member")
        member.subscribe("$share/g/a")
        broker.connected("publisher").publish("a", "1")
        #expect(member.messages.count == 1 && sent(broker) == ["1 none"])
    }

    @Test(arguments: [1, 4]) func `a message of another node is dispatched to the groups that it names, and to no others`(
        shards: Int
    ) {
        let broker = node(shards: shards)
        let members = ["g", "h"].map { name in
            let member = broker.connected("member \(name)")
            member.subscribe("$share/\(name)/a")
            return member
        }
        let other = broker.connected("other")
        other.subscribe("a")
        tell(broker, connected: 9)
        deliver("1", to: broker, dispatched: named())
        deliver("2", to: broker, dispatched: DispatchedGroups(names: [], hops: 0))
        // Of a node that knows of no group.
        deliver("3", to: broker, dispatched: nil)
        // Passed on by another node: for the group alone.
        deliver("4", to: broker, dispatched: named(hops: 1))
        #expect(members[0].texts == ["1", "3", "4"] && members[1].texts == ["3"] && other.texts == ["1", "2", "3"])
        #expect(sent(broker).isEmpty)
    }

    @Test func `a message of a node that knows of no members is dispatched by the first node that has some`() {
        let broker = node()
        let member = broker.connected("member")
        member.subscribe("$share/g/a")
        tell(broker, node: 3, connected: 1)
        tell(broker, node: 5, connected: 1)
        deliver("1", to: broker, dispatched: nil, undispatched: (by: 3, here: 4))
        deliver("2", to: broker, dispatched: nil, undispatched: (by: 3, here: 6))
        deliver("3", to: broker, dispatched: nil, undispatched: (by: 5, here: 4))
        #expect(member.texts == ["1"])
    }

    @Test func `what nobody takes here goes on to another node, a bounded number of times`() {
        let broker = node()
        tell(broker, connected: 1)
        deliver("1", to: broker, dispatched: named())
        deliver("2", to: broker, dispatched: named(hops: 7))
        deliver("3", to: broker, dispatched: named(hops: 8))
        // A turn of the broker.
        _ = broker.connected("anybody")
        #expect(sent(broker) == ["1 [\"7.3\"] 1", "2 [\"7.3\"] 8"])
        #expect(broker.statistics().drops[.refused] == 1)
    }

    @Test func `what a member on another shard is not there for any more goes on as often as it may, and no more`() {
        let most: UInt8 = 8
        for hops in [1, most - 1, most] {
            var texts: Set<[String]> = []
            for seed: UInt64 in 1...20 {
                let broker = node(shards: 2, seed: seed)
                let names = (0..<64).compactMap { EncodedString("member \($0)") }
                let member = broker.connected(names.first { broker.shard(of: $0) == 1 } ?? "")
                member.subscribe("$share/g/a")
                tell(broker, connected: 1)
                member.connection?.close()
                deliver("1", to: broker, dispatched: named(hops: hops), qos: .atMostOnce)
                texts.insert(sent(broker))
            }
            // In some orders the member gets it before it goes.
            #expect(texts == (hops < most ? [[], ["1 [\"7.3\"] \(hops + 1)"]] : [[]]))
        }
    }

    @Test func `what a member had when its session ends goes to another node if this one has no other`() {
        let broker = node()
        let member = broker.connected("member")
        member.subscribe("$share/g/a", qos: .atLeastOnce)
        member.acknowledgement = .manual
        broker.connected("publisher").publish("a", "1", qos: .atLeastOnce)
        tell(broker, connected: 1)
        member.disconnect()
        #expect(sent(broker) == ["1 [] 0", "1 [\"7.3\"] 1"])
    }

    @Test(arguments: [1, 3])
    func `out of the log a node dispatches what names its incarnation, and what names another as long as that is gone`(shards: Int)
    {
        let broker = reading(shards: shards)
        defer { broker.powerOff() }
        let member = broker.connected("member", expiry: 100)
        member.acknowledgement = .manual
        member.subscribe("$share/g/a", qos: .atLeastOnce)
        broker.connected("publisher").publish("a", "0", qos: .atLeastOnce)
        var own: LoggedShare?
        for message in records(of: broker).flatMap(\.messages) { own = message.shares.first }
        guard let own else {
            Issue.record("nobody is chosen")
            return
        }
        #expect(own.node == 5 << 32 | 2 && member.messages.isEmpty)
        func read(_ sequence: UInt64, node: UInt64) {
            var record = LogRecord(partition: 0, sequence: sequence)
            record.append("\(sequence)", to: "a", LoggedShare(node: node, group: own.group))
            for core in broker.cores { #expect(core.received(record) == 0) }
            broker.settle()
        }
        read(1, node: 5 << 32 | 2)
        read(2, node: 5 << 32 | 2)
        read(3, node: 6 << 32 | 1)
        for core in broker.cores { core.received(.dispatchesFor(6 << 32 | 1, after: [3])) }
        read(4, node: 6 << 32 | 1)
        for core in broker.cores { core.received(.dispatchesNoMoreFor(6 << 32 | 1)) }
        read(5, node: 6 << 32 | 1)
        // An earlier incarnation of its own: see `EarlierDispatches`.
        read(6, node: 5 << 32 | 1)
        #expect(member.messages.map(\.text) == ["1", "2"])
        // What named another goes into the log again and names this node there: so it is dispatched again if this one
        // is lost.
        #expect(logged(by: broker) == ["0 by 5", "4 by 5"])
        func through() -> UInt64 { broker.cores.map { $0.dispatched(0).through }.min() ?? 0 }
        #expect(through() == 0)
        if let identifier = member.messages[0].packetIdentifier { member.acknowledge(.puback, identifier) }
        broker.settle()
        #expect(through() == 1)
        // The rest waits in the store.
        member.lose()
        broker.settle()
        #expect(through() == 6)
    }

    /// What a broker has given to the log, a record for each batch.
    private func records(of broker: SimulatedBroker) -> [LogRecord] {
        broker.clusterNotes.compactMap { _, note in
            guard case .messages(let batch) = note else { return nil }
            var record = LogRecord(partition: 0, sequence: 1)
            record.append(batch.logged)
            return record
        }
    }

    /// What a broker has given to the log, and the nodes that are to dispatch it.
    private func logged(by broker: SimulatedBroker) -> [String] {
        var logged: [String] = []
        for record in records(of: broker) {
            for message in record.messages {
                for share in message.shares { logged.append("\(record.text(message)) by \(share.node >> 32)") }
            }
        }
        return logged
    }

    /// A node with a log.
    private func reading(shards: Int = 1) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore(seed: 1))
        broker.joinCluster(logPartitions: 1, node: 5 << 32 | 2)
        broker.beginLog()
        return broker
    }

    /// One that has no member of the group, for which another node has some.
    private func readingNode() -> SimulatedBroker {
        let broker = reading()
        tell(broker, connected: 1, readsLog: true)
        return broker
    }

    /// Reads of the log what was passed on so often, and is its own.
    private func readPassedOn(_ broker: SimulatedBroker, hops: UInt8) {
        let name = GroupName(shareName: "g", filter: Array("a".utf8))
        var record = LogRecord(partition: 0, sequence: 1)
        let share = LoggedShare(node: 5 << 32 | 2, group: ClusterDispatching.clusterHash(of: name))
        record.append("1", to: "a", share, hops: hops)
        #expect(broker.cores[0].received(record) == 0)
        broker.settle()
    }

    @Test func `nodes that wait for members that are gone do not give each other for ever what is for those`() {
        let broker = readingNode()
        defer { broker.powerOff() }
        broker.cores[0].received(.nodeIsGone(7))
        tell(broker, node: 8 << 32 | 1, connected: 0, away: 1, readsLog: true)
        readPassedOn(broker, hops: 8)
        #expect(broker.statistics().drops[.refused] == 0)
        let member = broker.connected("member", expiry: 100)
        member.subscribe("$share/g/a", qos: .atLeastOnce)
        broker.settle()
        #expect(logged(by: broker) == ["1 by 5"])
    }

    @Test func `what such nodes have given each other too often goes to the next member that comes, wherever, and else ends`() {
        for comes in [true, false] {
            let broker = readingNode()
            defer { broker.powerOff() }
            broker.cores[0].received(.nodeIsGone(7))
            tell(broker, node: 8 << 32 | 1, connected: 0, away: 1, readsLog: true)
            readPassedOn(broker, hops: 8)
            broker.advance(seconds: 300)
            #expect(logged(by: broker) == [])
            guard comes else {
                broker.advance(seconds: 310)
                #expect(broker.statistics().drops[.refused] == 1)
                continue
            }
            tell(broker, node: 9 << 32 | 1, connected: 1, readsLog: true)
            broker.settle()
            #expect(logged(by: broker) == ["1 by 9"])
        }
    }

    @Test(arguments: [7, 8] as [UInt8]) func `what goes on by the log and is refused there, or has gone on too often, is counted`(
        hops: UInt8
    ) {
        let broker = readingNode()
        defer { broker.powerOff() }
        readPassedOn(broker, hops: hops)
        #expect(broker.statistics().drops[.refused] == (hops == 8 ? 1 : 0))
        broker.cores[0].received(.logFailed(through: .max >> 1, FailedBatches(partitions: .max, isRefused: true)))
        broker.settle()
        #expect(broker.statistics().drops[.noRoom] == (hops == 7 ? 1 : 0))
    }

    @Test func `what goes on by the log waits until there is room in it`() {
        let broker = readingNode()
        defer { broker.powerOff() }
        readPassedOn(broker, hops: 7)
        let first = logged(by: broker)
        #expect(first.count == 1)
        broker.cores[0].received(.logLacksRoom(1))
        broker.cores[0].received(.logFailed(through: .max >> 1, FailedBatches(partitions: .max, isRefused: true, isForRoom: true)))
        broker.settle()
        #expect(logged(by: broker) == first)
        broker.cores[0].received(.logLacksRoom(0))
        broker.settle()
        #expect(logged(by: broker) == first + first && broker.statistics().drops[.noRoom] == 0)
    }

    @Test func `the cluster is told how many members there are`() {
        let broker = node()
        let member = broker.connected("member", expiry: 100)
        member.subscribe("$share/g/a")
        member.lose()
        #expect(sizes(broker) == ["1+0", "0+1"])
    }
}
