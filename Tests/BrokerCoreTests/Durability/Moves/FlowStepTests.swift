import BrokerSimulation
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What the cluster's log says of packet identifiers of QoS 2, and what comes of it.
@Suite struct FlowStepTests {
    private let name = Array("publisher".utf8)

    /// A cluster in which nothing is logged or read unless the test says so, and a client that publishes.
    private func quiet(nodes: Int = 3) -> (cluster: MovingCluster, publisher: TestClient, subscriber: TestClient) {
        let cluster = MovingCluster(nodes: nodes) { $0.wallClockOffsetMilliseconds = 1_600_000_000_000 }
        let subscriber = cluster.lasting("subscriber", on: nodes - 1, "t")
        let publisher = cluster.lasting("publisher", on: 0)
        publisher.resendsAtOnce = true
        return (cluster, publisher, subscriber)
    }

    private func publish(_ publisher: TestClient, _ text: String) {
        publisher.publish("t", text, qos: .exactlyOnce)
    }

    @Test func `what was in the log when its node was lost is not taken again`() {
        let (cluster, publisher, subscriber) = quiet()
        cluster.logs = false
        publish(publisher, "1")
        cluster.lose(0, logsSome: true)
        cluster.logs = true
        cluster.connect(publisher, to: 1)
        #expect(publisher.connack?.sessionPresent == true && publisher.unfinished.isEmpty)
        #expect(subscriber.texts == ["1"])
    }

    @Test func `what was in the log when its node was killed is not taken again`() {
        let (cluster, publisher, subscriber) = quiet()
        cluster.logs = false
        publish(publisher, "1")
        cluster.crash(0, committing: 100, logsSome: true)
        // Its client waits until the node has read what it had written.
        cluster.readers = [2]
        cluster.connect(publisher, to: 0)
        #expect(publisher.connack == nil && publisher.unfinished.count == 1)
        (cluster.logs, cluster.readers) = (true, [0, 2])
        cluster.run()
        #expect(publisher.connack?.sessionPresent == true && publisher.unfinished.isEmpty)
        #expect(subscriber.texts == ["1"])
    }

    @Test(arguments: [0, 1]) func `what was in the log when its node lost its lease is not taken again`(node: Int) {
        let cluster = MovingCluster(nodes: 3, dispatches: true) { $0.wallClockOffsetMilliseconds = 1_600_000_000_000 }
        let subscriber = cluster.lasting("subscriber", on: 2, "t")
        let publisher = cluster.lasting("publisher", on: 0)
        publisher.resendsAtOnce = true
        cluster.logs = false
        publish(publisher, "1")
        // The servers have it, and cannot say so.
        cluster.cut(0, logsSome: true)
        cluster.logs = true
        cluster.run()
        cluster.goOn(0)
        #expect(!publisher.isConnected)
        cluster.connect(publisher, to: node)
        // A second later the node asks the log.
        cluster.saveLogPositions()
        cluster.run()
        #expect(publisher.connack?.sessionPresent == true && publisher.unfinished.isEmpty)
        publish(publisher, "2")
        cluster.run()
        #expect(subscriber.texts == ["1", "2"] && publisher.unfinished.isEmpty)
    }

    @Test func `a node that reads the log late opens a session at its first mark, though the mark was written again since`() {
        let (cluster, publisher, subscriber) = quiet()
        cluster.logs = false
        publish(publisher, "1")
        cluster.cut(0, logsSome: true)
        cluster.logs = true
        cluster.run()
        cluster.goOn(0)
        cluster.readers = [1, 2]
        var ends: [Int] = []
        for _ in 0..<3 {
            cluster.saveLogPositions()
            cluster.run()
            ends.append(cluster.records.count)
            cluster.nodes[0].advance(milliseconds: 10_000)
        }
        cluster.connect(publisher, to: 0)
        #expect(Set(ends).count == 3 && publisher.connack == nil)
        cluster.read(0, through: ends[0])
        cluster.run()
        #expect(publisher.connack?.sessionPresent == true)
        cluster.readers = [0, 1, 2]
        cluster.run()
        #expect(publisher.unfinished.isEmpty && subscriber.texts == ["1"])
    }

    @Test func `who waits for the log is refused when the session leaves or the lease ends, and may come again`() {
        let (cluster, publisher, subscriber) = quiet()
        publish(publisher, "1")
        for isFenced in [false, true] {
            cluster.crash(0, committing: 100)
            cluster.readers = [2]
            cluster.connect(publisher, to: 0)
            #expect(publisher.connack == nil)
            if isFenced {
                cluster.core(0, name).received(.fenceClients("the lease has ended"))
            } else {
                cluster.connect(cluster.nodes[1].client("publisher"), to: 1)
            }
            cluster.nodes[0].settle()
            #expect(publisher.connack?.reasonCode == .serverUnavailable)
            cluster.readers = [0, 1, 2]
            cluster.connect(publisher, to: 0)
            #expect(publisher.connack?.sessionPresent == true && publisher.unfinished.isEmpty)
        }
        #expect(subscriber.texts == ["1"])
    }

    @Test func `what was not in the log is taken when it comes again`() {
        let (cluster, publisher, subscriber) = quiet()
        cluster.logs = false
        publish(publisher, "1")
        cluster.saveLogPositions()
        cluster.lose(0)
        cluster.logs = true
        cluster.connect(publisher, to: 1)
        #expect(publisher.unfinished.isEmpty && subscriber.texts == ["1"])
    }

    @Test func `a record knows what was received before its places`() {
        let (cluster, publisher, subscriber) = quiet()
        let count = cluster.records.count
        cluster.logs = false
        publish(publisher, "1")
        publisher.lose()
        cluster.log()
        cluster.read(0)
        cluster.saveLogPositions()
        #expect(cluster.records.count == count + 1 && cluster.replayedCount == 0)
        cluster.lose(0)
        cluster.logs = true
        cluster.connect(publisher, to: 1)
        #expect(publisher.connack?.sessionPresent == true && publisher.unfinished.isEmpty)
        #expect(cluster.firstReplayed ?? .max > UInt64(count + 1) && subscriber.texts == ["1"])
    }

    @Test func `PUBCOMP waits until the log has the release, and the identifier is free then on whatever node`() {
        let (cluster, publisher, subscriber) = quiet()
        publisher.packetIdentifierMax = 1
        cluster.logs = false
        publish(publisher, "same")
        cluster.log()
        // PUBREC has come, and PUBREL has gone.
        #expect(publisher.unfinished == [1])
        cluster.log()
        #expect(publisher.unfinished == [])
        cluster.lose(0)
        cluster.logs = true
        cluster.connect(publisher, to: 1)
        publish(publisher, "same")
        cluster.run()
        #expect(publisher.unfinished.isEmpty && subscriber.texts == ["same", "same"])
    }

    @Test func `of an identifier the newest step counts, whatever partition it stands in`() {
        let store = SimulatedStore(seed: 1)
        var broker = SimulatedBroker(shards: 1, settings: SimulatedBroker.testSettings, store: store)
        func join() { broker.joinCluster(logPartitions: 2, claimsSessions: true) }
        func step(_ kind: FlowStep.Kind, _ number: UInt64, partition: Int, sequence: UInt64, epoch: UInt64 = 1) {
            let step = FlowStep(kind, 7, at: FlowStep.Place(epoch: epoch, number: number << 8))
            var record = LogRecord(partition: partition, sequence: sequence)
            record.append(step, of: name)
            #expect(broker.cores[0].received(record) == 0)
            broker.settle()
        }
        func known() -> Int { broker.cores[0].sessions.find("publisher")?.receivedIdentifiers.count ?? -1 }
        join()
        broker.beginLog(partitions: 2)
        broker.connected("publisher", clean: false, expiry: 1000)
        broker.cores[0].received(.sessionClaimed(name, .nowhere, epoch: 1))
        broker.settle()
        // Nobody learns what is news to nobody.
        step(.received(digest: 5), 1, partition: 0, sequence: 1)
        #expect(known() == 0)
        broker = broker.crashed(committing: 100)
        join()
        // What the client is sent has identifiers of the broker's.
        step(.sent(.none), 30, partition: 0, sequence: 2)
        step(.acknowledged, 31, partition: 0, sequence: 3)
        step(.received(digest: 5), 9, partition: 0, sequence: 4)
        #expect(known() == 1)
        step(.released, 6, partition: 1, sequence: 1)
        step(.received(digest: 5), 20, partition: 1, sequence: 2, epoch: 0)
        #expect(known() == 1)
        // The store knows which step it was.
        broker = broker.crashed(committing: 100)
        join()
        step(.released, 7, partition: 1, sequence: 3)
        #expect(known() == 1)
        step(.released, 10, partition: 1, sequence: 4)
        #expect(known() == 0)
        broker.cores[0].received(.logIsCurrent(0))
        broker.cores[0].received(.logIsCurrent(1))
        step(.received(digest: 5), 12, partition: 0, sequence: 5)
        #expect(known() == 0)
    }
}
