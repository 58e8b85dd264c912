import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct SessionTableTests {
    @Test func `a session that has ended lives until the turn does, and its index is free at once`() {
        var table = SessionTable(shard: 0, ofBroker: SimulatedSessionCount())
        weak var gone: Session?
        var ended: Reference<Session>?
        do {
            let session = table.make("first", publisherKey: 1)
            gone = session
            ended = Reference(session)
            table.remove(session)
        }
        let next = table.make("second", publisherKey: 2)
        #expect(next.index == 0 && next.generation == 1)
        #expect(ended?.with { $0.publisherKey } == 1)
        #expect(gone != nil && table.count == 1)
        table.endTurn()
        #expect(gone == nil)
        #expect(table.find("second") === next && table.find("first") == nil)
    }
}

@Suite struct SessionChainTests {
    /// Takes whatever a shard sends.
    private final class Sink: OutputSink {
        func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
            slices.reduce(0) { $0 + $1.count }
        }
    }

    @Test(.statement("MQTT-3.8.4-3", .v5), .statement("MQTT-3.10.4-1", .v5), arguments: [UInt64(111), 112])
    func `the chain of a session holds its subscriptions, each once`(seed: UInt64) throws {
        let universe = TopicUniverse.small
        var random = SeededGenerator(seed: seed)
        let shard = BrokerShard(
            index: 0, shardCount: 1, settings: BrokerSettings(), seed: seed, random: random,
            sessionCount: SimulatedSessionCount(), now: 0)
        var connections: [Connection] = []
        for number in 0..<3 {
            let connect = ConnectPacket(clientIdentifier: EncodedString(Array("client\(number)".utf8)) ?? "client")
            let id = shard.connected(ConnectionInfo(address: "127.0.0.1"))
            ControlPacket.connect(connect).encoded(version: .v5).withUnsafeBytes { shard.received($0, from: id) }
            let connection = shard.connections.find(id)
            connections.append(try #require(connection))
        }
        let sessions = try connections.map { try #require($0.session) }
        var oracle: [Set<TopicFilter>] = [[], [], []]
        let sink = Sink()
        for step in 0..<3000 {
            let client = random.below(3)
            let filters = (0..<1 + random.below(3)).map { _ in universe.filters[random.below(universe.filters.count)] }
            if random.below(10) < ((step / 500) % 2 == 0 ? 7 : 3) {
                let packet = SubscribePacket(packetIdentifier: 1, subscriptions: filters.map { Subscription(filter: $0) })
                shard.subscribing.handleSubscribe(packet, connections[client])
                oracle[client].formUnion(filters)
            } else {
                shard.subscribing.handleUnsubscribe(UnsubscribePacket(packetIdentifier: 1, filters: filters), connections[client])
                oracle[client].subtract(filters)
            }
            if random.oneIn(20) { shard.endTurn(into: sink) { _, _ in } }
            if random.oneIn(30) { Self.check(shard, sessions, oracle) }
        }
        Self.check(shard, sessions, oracle)
        for connection in connections { shard.closed(connection.id) }
        shard.tree.checkInvariants(records: [])
        #expect(shard.statistics.subscriptions == 0)
        #expect(shard.sessions.count == 0)
    }

    private static func check(_ shard: BrokerShard, _ sessions: [Session], _ oracle: [Set<TopicFilter>]) {
        var records: [UInt32] = []
        for (session, filters) in zip(sessions, oracle) {
            var found: [[UInt8]] = []
            var previous = SubscriptionRecord.none
            var record = session.firstSubscription
            while record != SubscriptionRecord.none, found.count <= filters.count {
                let held = shard.tree.records[record]
                #expect(held.previousOfSession == previous)
                #expect(held.subscriber == .session(session.index))
                found.append(shard.tree.filter(of: record))
                records.append(record)
                previous = record
                record = held.nextOfSession
            }
            #expect(found.count == filters.count)
            #expect(Set(found) == Set(filters.map { $0.bytes }))
            #expect(Int(session.subscriptionCount) == filters.count)
        }
        #expect(shard.statistics.subscriptions == records.count)
        shard.tree.checkInvariants(records: records)
    }
}
