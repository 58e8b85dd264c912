import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Retained messages of a node of a cluster, whose stream and other nodes the test plays.
@Suite struct ClusterRetainedTests {
    private func node(shards: Int = 1, store: SimulatedStore? = nil, change: (inout BrokerSettings) -> Void = { _ in })
        -> SimulatedBroker
    {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change), store: store)
        return joined(broker)
    }

    private func joined(_ broker: SimulatedBroker) -> SimulatedBroker {
        broker.joinCluster()
        return broker
    }

    private struct Told {
        let shard: Int
        let topic: String
        let payload: String
        let change: RetainedChange
        let origin: [UInt8]
        let serial: UInt64
    }

    private func read(_ batch: ShardMessageBatch, _ shard: Int, serial: UInt64 = 0) -> [Told] {
        var told: [Told] = []
        batch.forEachMessage { message in
            told.append(
                Told(
                    shard: shard, topic: String(decoding: message.topic, as: UTF8.self),
                    payload: String(decoding: message.payload, as: UTF8.self), change: message.change,
                    origin: Array(message.origin),
                    serial: serial))
        }
        return told
    }

    /// The changes for the stream.
    private func changes(_ broker: SimulatedBroker) -> [Told] {
        broker.clusterNotes.flatMap { shard, note in
            if case .retained(let batch, let serial) = note { return read(batch, shard, serial: serial) }
            return []
        }
    }

    /// The live messages.
    private func live(_ broker: SimulatedBroker) -> [Told] {
        broker.clusterNotes.flatMap { shard, note in
            if case .messages(let batch) = note { return read(batch, shard) }
            return []
        }
    }

    private func with(
        _ told: (topic: String, payload: String), _ change: RetainedChange, _ origin: [UInt8], _ body: (ClusterMessage) -> Void
    ) {
        ClusterMessage.with(told.topic, told.payload, retain: true) { message in
            origin.withUnsafeBytes { origin in
                (message.change, message.origin) = (change, origin)
                body(message)
            }
        }
    }

    /// The stream has it.
    private func settle(
        _ topic: String, _ payload: String, _ change: RetainedChange, origin: [UInt8] = [], on broker: SimulatedBroker
    ) {
        with((topic, payload), change, origin) { #expect(broker.cores[0].settleRetained($0)) }
        broker.settle()
    }

    /// Another node has told of it.
    private func hear(_ topic: String, _ payload: String, _ change: RetainedChange, on broker: SimulatedBroker) {
        with((topic, payload), change, []) { #expect(broker.cores[0].received($0)) }
        broker.settle()
    }

    private func other(_ number: UInt64) -> RetainedChange { RetainedChange(node: 77, number: number << 8) }

    /// Lets every fence pass, and forgets what was told.
    private func pass(_ broker: SimulatedBroker) {
        broker.passFences()
        broker.clusterNotes = []
    }

    /// What a new subscriber gets.
    private func found(_ filter: TopicFilter, on broker: SimulatedBroker) -> [String] {
        let client = broker.connected("reader")
        client.subscribe(filter, qos: .exactlyOnce)
        pass(broker)
        defer { client.disconnect() }
        return client.messages.map { "\($0.topic) \($0.text)" }.sorted()
    }

    @Test(arguments: [1, 4])
    func `what is retained goes to the stream and to the other nodes under one name, from the shard that keeps it`(
        shards: Int
    ) {
        let broker = node(shards: shards)
        let client = broker.connected("client")
        client.publish("a", "1", retain: true)
        client.publish("b", "2")
        client.publish("a", "", retain: true)
        client.publish("$SYS/broker/connection/client/state", "1", retain: true)
        let told = changes(broker)
        #expect(told.map { "\($0.topic) \($0.payload)" } == ["a 1", "a "] && Set(told.map(\.change)).count == 2)
        #expect(told.allSatisfy { $0.change.node == 0 && !$0.origin.isEmpty && $0.serial == 0 })
        let carried = live(broker)
        #expect(carried.map { "\($0.topic) \($0.payload)" } == ["a 1", "b 2", "a "])
        #expect(carried[0].change == told[0].change && carried[2].change == told[1].change && carried[1].change.number == 0)
        #expect(carried[0].origin == told[0].origin)
    }

    @Test(arguments: [1, 4]) func `it counts at once here, and elsewhere when it is heard of`(shards: Int) {
        let broker = node(shards: shards)
        broker.connected("client").publish("a/own", "1", retain: true)
        hear("a/heard", "2", other(1), on: broker)
        #expect(found("a/#", on: broker) == ["a/heard 2", "a/own 1"])
        // Nothing is told of what others have told.
        #expect(changes(broker).isEmpty)
    }

    @Test(arguments: [1, 4]) func `the stream's order decides, whatever was heard in which order`(shards: Int) {
        let broker = node(shards: shards)
        let client = broker.connected("client")
        client.publish("a", "own", retain: true)
        guard let own = changes(broker).first?.change else {
            Issue.record("nothing was told")
            return
        }
        // Another's stands before it in the stream, and is passed over; then its own comes.
        settle("a", "other 1", other(1), on: broker)
        #expect(found("a", on: broker) == ["a own"])
        settle("a", "own", own, on: broker)
        #expect(found("a", on: broker) == ["a own"])
        // Two that were heard in one order, and stand in the other.
        hear("a", "other 2", other(2), on: broker)
        hear("a", "other 3", RetainedChange(node: 78, number: 1 << 8), on: broker)
        settle("a", "other 3", RetainedChange(node: 78, number: 1 << 8), on: broker)
        #expect(found("a", on: broker) == ["a other 3"])
        settle("a", "other 2", other(2), on: broker)
        #expect(found("a", on: broker) == ["a other 2"])
        // What is heard of late, when the stream has told of it and of a newer one.
        settle("a", "newest", other(4), on: broker)
        hear("a", "late", other(3), on: broker)
        #expect(found("a", on: broker) == ["a newest"])
        settle("a", "", other(5), on: broker)
        #expect(found("a", on: broker) == [])
    }

    @Test func `an acknowledgement waits until the stream has it, and the store`() {
        let broker = node(store: SimulatedStore(seed: 1))
        let client = broker.connected("client")
        client.publish("a", "1", qos: .atLeastOnce, retain: true)
        broker.commit()
        let serial = changes(broker).last?.serial ?? 0
        #expect(serial > 0 && client.acknowledgements(.puback).isEmpty)
        client.publish("b", "2", qos: .exactlyOnce)
        client.publish("c", "3", retain: true)
        broker.commit()
        // They keep their order, and QoS 0 has nothing to wait for.
        #expect(client.acknowledgements(.puback).isEmpty && client.acknowledgements(.pubrec).isEmpty)
        #expect(changes(broker).last?.serial == 0)
        broker.cores[0].received(.retainedIsSafe(serial))
        // A turn that sees it.
        client.publish("turn")
        broker.commit()
        #expect(client.acknowledgements(.puback).count == 1 && client.acknowledgements(.pubrec).count == 1)
        broker.powerOff()
    }

    @Test func `a QoS 2 message that comes again after a crash goes to the stream again before its PUBREC`() {
        let first = node(store: SimulatedStore(seed: 1))
        let client = first.connected("client", expiry: 100)
        client.publish("a", "1", qos: .exactlyOnce, retain: true)
        first.commit()
        #expect(changes(first).count == 1 && client.acknowledgements(.pubrec).isEmpty)
        let second = joined(first.crashed(committing: 100))
        client.broker = second
        client.connect(clean: false, expiry: 100)
        client.resend()
        second.commit()
        let told = changes(second)
        #expect(told.map(\.topic) == ["a"] && client.acknowledgements(.pubrec).isEmpty)
        second.cores[0].received(.retainedIsSafe(told.last?.serial ?? 0))
        client.publish("turn")
        second.commit()
        #expect(client.acknowledgements(.pubrec).count == 1)
        second.powerOff()
    }

    @Test(arguments: [1, 4]) func `all of the stream is read, and what it does not have goes`(shards: Int) {
        let broker = node(shards: shards)
        let client = broker.connected("client")
        for number in 0..<20 { settle("a/\(number)", "old", other(UInt64(number + 1)), on: broker) }
        client.publish("a/own", "x", retain: true)
        hear("a/dead", "never stored", other(50), on: broker)
        broker.cores[0].beginReadingRetained()
        broker.settle()
        for number in 0..<10 { settle("a/\(number)", "old", other(UInt64(number + 1)), on: broker) }
        hear("a/new", "heard", other(51), on: broker)
        sweep(broker, offers: false)
        #expect(found("a/#", on: broker) == ((0..<10).map { "a/\($0) old" } + ["a/new heard", "a/own x"]).sorted())
    }

    @Test(arguments: [1, 4]) func `what a node brings into the cluster is offered, and not what the stream has`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { _ in })
        let client = broker.connected("client")
        for number in 0..<10 { client.publish("a/\(number)", "own", retain: true) }
        _ = joined(broker)
        broker.cores[0].beginReadingRetained()
        broker.settle()
        settle("a/3", "theirs", other(1), on: broker)
        let offered = sweep(broker, offers: true)
        #expect(offered.map(\.topic).sorted() == (0..<10).filter { $0 != 3 }.map { "a/\($0)" })
        #expect(offered.allSatisfy { !$0.origin.isEmpty && $0.change.node == 0 && $0.change.number > 0 })
        #expect(found("a/3", on: broker) == ["a/3 theirs"] && found("a/#", on: broker).count == 10)
    }

    /// Sweeps all shards; returns what they offer.
    @discardableResult
    private func sweep(_ broker: SimulatedBroker, offers: Bool) -> [Told] {
        broker.clusterNotes = []
        for shard in broker.cores.indices {
            broker.cores[0].sweepRetained(of: shard, from: 0, offers: offers, round: 5)
        }
        broker.settle()
        return broker.clusterNotes.flatMap { shard, note in
            guard case .swept(let batch, let next, let round) = note else { return [Told]() }
            #expect(next == nil && round == 5)
            return read(batch, shard)
        }
    }

    @Test func `the store knows of which cluster it has been`() {
        let store = SimulatedStore(seed: 1)
        let first = node(store: store)
        #expect(!first.cores[0].isMember(of: "plant"))
        first.cores[0].becameMember(of: "plant")
        first.settle()
        let second = first.crashed(committing: 100)
        #expect(second.cores[0].isMember(of: "plant") && !second.cores[0].isMember(of: "other"))
        second.cores[0].becameMember(of: "other")
        second.settle()
        let third = second.crashed(committing: 100)
        #expect(third.cores[0].isMember(of: "other"))
        third.powerOff()
    }

    @Test func `nothing is retained that the cluster would not take`() {
        let broker = node()
        let client = broker.connected("client")
        broker.cores[0].received(.retainedBytes(max: 200))
        #expect(
            client.publish("a", String(repeating: "x", count: 300), qos: .atLeastOnce, retain: true)?.reasonCode
                == .implementationSpecificError)
        #expect(client.publish("a", String(repeating: "x", count: 300), qos: .atLeastOnce)?.reasonCode == .success)
        broker.cores[0].received(.retainedIsFull(true))
        #expect(client.publish("a", "x", qos: .atLeastOnce, retain: true)?.reasonCode == .quotaExceeded)
        client.publish("b", "x", retain: true)
        #expect(changes(broker).isEmpty && found("#", on: broker).isEmpty)
        broker.cores[0].received(.retainedIsFull(false))
        #expect(client.publish("a", "x", qos: .atLeastOnce, retain: true)?.reasonCode == .success)
    }

    @Test func `a change that others tell of and do not store is noticed`() {
        let broker = node()
        func isNoticed() -> Bool {
            broker.clusterNotes = []
            broker.cores[0].received(.lookForStaleChanges)
            broker.settle()
            return broker.clusterNotes.contains { if case .staleChanges = $0.note { true } else { false } }
        }
        hear("a", "1", other(1), on: broker)
        hear("b", "2", other(2), on: broker)
        settle("a", "1", other(1), on: broker)
        broker.advance(seconds: 20)
        #expect(!isNoticed())
        broker.advance(seconds: 20)
        #expect(isNoticed())
        settle("b", "2", other(2), on: broker)
        #expect(!isNoticed())
    }

    @Test func `No Local knows a publisher from another node`() {
        let elsewhere = node()
        elsewhere.connected("writer").publish("a", "x", retain: true)
        guard let told = changes(elsewhere).first else {
            Issue.record("nothing was told")
            return
        }
        let broker = node()
        settle("a", "x", other(1), origin: told.origin, on: broker)
        #expect(found("a", on: broker) == ["a x"])
        let writer = broker.connected("writer")
        writer.subscribe("a", noLocal: true)
        pass(broker)
        #expect(writer.messages.isEmpty)
    }

    @Test(arguments: ["", "a/+", "$SYS/x"]) func `what no client may retain is not taken from the stream`(topic: String) {
        let broker = node()
        with((topic, "x"), other(1), []) { #expect(!broker.cores[0].settleRetained($0)) }
        with(("a", "x"), other(1), [9, 9]) { #expect(!broker.cores[0].settleRetained($0)) }
    }
}
