import BrokerCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// A session is restored by what the log says of the QoS 2 messages that its client was sent.
@Suite struct SessionRestorationTests {
    private let name = Array("client".utf8)

    private func publish(_ cluster: MovingCluster, _ publisher: TestClient, _ numbers: Range<Int>, topic: EncodedString = "a") {
        cluster.publish(publisher, numbers, topic: topic, qos: .exactlyOnce)
    }

    /// A client on node 0, and one that publishes on the last node.
    private func pair(nodes: Int = 3, filter: TopicFilter = "a") -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let cluster = MovingCluster(nodes: nodes)
        let client = cluster.lasting("client", on: 0, filter)
        return (cluster, client, cluster.lasting("publisher", on: nodes - 1))
    }

    @Test(.statement("MQTT-4.3.3-1", .v5)) func `PUBLISH and PUBREL wait until the log has the flow's step`() {
        let (cluster, client, publisher) = pair()
        client.acknowledgement = .manual
        publisher.publish("a", "0", qos: .exactlyOnce)
        cluster.log()
        cluster.logs = false
        cluster.run()
        #expect(client.texts.isEmpty)
        cluster.log()
        #expect(client.texts == ["0"])
        client.acknowledge(.pubrec, 1)
        cluster.run()
        #expect(client.acknowledgements(.pubrel).isEmpty)
        cluster.log()
        #expect(client.acknowledgements(.pubrel).map(\.packetIdentifier) == [1])
    }

    @Test func `a client is told if the log does not take what it is to be sent, and gets it when it comes again`() {
        let (cluster, client, publisher) = pair()
        publisher.publish("a", "0", qos: .exactlyOnce)
        cluster.log()
        cluster.logs = false
        cluster.run()
        cluster.collect()
        cluster.loseUnlogged()
        cluster.core(0, name).received(.logFailed(through: .max >> 1, FailedBatches(partitions: .max, isRefused: true)))
        cluster.nodes[0].settle()
        #expect(!client.isConnected && client.disconnectReason == .quotaExceeded && client.texts.isEmpty)
        cluster.logs = true
        cluster.connect(client, to: 0)
        #expect(client.texts == ["0"] && client.unreleased.isEmpty)
    }

    @Test func `what was acknowledged does not come again, what was not comes first and with its identifier`() {
        let (cluster, client, publisher) = pair()
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<4)
        client.acknowledge(.pubrec, 2)
        cluster.run()
        cluster.lose(0)
        publish(cluster, publisher, 4..<6)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true)
        #expect(client.publishesOfConnection.map(\.packetIdentifier).prefix(3) == [1, 3, 4])
        #expect(client.publishesOfConnection.map(\.duplicate) == [true, true, true, false, false])
        #expect(client.texts == texts(0..<6) && client.unreleased.isEmpty)
    }

    @Test func `flows that have ended are not released again, but for the last ones`() {
        let (cluster, client, publisher) = pair()
        publish(cluster, publisher, 0..<50)
        #expect(client.texts == texts(0..<50) && client.unreleased.isEmpty)
        cluster.lose(0)
        cluster.connect(client, to: 1)
        #expect(client.acknowledgements(.pubrel).map(\.packetIdentifier) == [50] && client.publishesOfConnection.isEmpty)
        publish(cluster, publisher, 50..<52)
        #expect(client.texts == texts(0..<52) && client.unreleased.isEmpty)
    }

    @Test func `a message that has expired since it was sent is released`() {
        let (cluster, client, publisher) = pair()
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<1)
        cluster.lose(0)
        cluster.forgetRecords(before: cluster.records.count)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.publishesOfConnection.isEmpty && client.unreleased.isEmpty)
        publish(cluster, publisher, 1..<3)
        #expect(client.texts == texts(0..<3))
    }

    @Test func `what the log has no name for is released`() {
        let (cluster, client, publisher) = pair(filter: "b")
        publisher.publish("a", "0", qos: .exactlyOnce, retain: true)
        cluster.run()
        cluster.nodes[0].client("local").connect()
        let local = cluster.nodes[0].connected("another")
        local.publish("r", "kept", qos: .exactlyOnce, retain: true)
        cluster.run()
        client.acknowledgement = .manual
        client.subscribe("r", qos: .exactlyOnce)
        cluster.run()
        #expect(client.texts == ["kept"] && client.unreleased == [1])
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.unreleased.isEmpty)
        publish(cluster, publisher, 1..<3, topic: "b")
        #expect(client.texts == ["kept", "1", "2"])
    }

    @Test func `a session that went to another node and comes back without it has what both have sent`() {
        let (cluster, client, publisher) = pair()
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<2)
        client.acknowledge(.pubrec, 1)
        cluster.run()
        client.lose()
        cluster.connect(client, to: 1)
        publish(cluster, publisher, 2..<4)
        for identifier in client.unreleased.suffix(1) { client.acknowledge(.pubrec, identifier) }
        cluster.run()
        cluster.lose(1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        #expect(client.connack?.sessionPresent == true)
        publish(cluster, publisher, 4..<6)
        #expect(client.texts == texts(0..<6) && client.unreleased.isEmpty)
    }

    /// A client on node 0 that has got and acknowledged some messages before `first`, so that its packet identifiers
    /// are not those of a new session.
    private func advanced(nodes: Int = 4, to first: Int = 5) -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let (cluster, client, publisher) = pair(nodes: nodes)
        publish(cluster, publisher, 0..<first)
        cluster.saveLogPositions()
        client.acknowledgement = .manual
        return (cluster, client, publisher)
    }

    /// The session is on its way to node 1, which has read some of the log for it.
    private func halfRestored(_ records: Int) -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let (cluster, client, publisher) = advanced()
        publish(cluster, publisher, 5..<11)
        for identifier: UInt16 in [6, 7] { client.acknowledge(.pubrec, identifier) }
        cluster.run()
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.replays = false
        cluster.connect(client, to: 1)
        #expect(client.connack == nil)
        cluster.replay(name, at: 1, countMax: records)
        cluster.run()
        return (cluster, client, publisher)
    }

    private func isWhole(_ cluster: MovingCluster, _ client: TestClient, _ publisher: TestClient, through last: Int) {
        publish(cluster, publisher, last..<last + 2)
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<last + 2) && client.unreleased.isEmpty)
    }

    @Test(arguments: [0, 3, 1000]) func `a crash on the way has the session restored anew`(records: Int) {
        let (cluster, client, publisher) = halfRestored(records)
        cluster.saveLogPositions()
        cluster.crash(1, committing: 100)
        cluster.replays = true
        cluster.connect(client, to: 1)
        isWhole(cluster, client, publisher, through: 11)
    }

    @Test(arguments: [0, 3, 1000], [false, true]) func `a session that is wanted elsewhere on its way is restored there`(
        records: Int, isLost: Bool
    ) {
        let (cluster, client, publisher) = halfRestored(records)
        cluster.saveLogPositions()
        if isLost { cluster.lose(1) }
        cluster.replays = true
        cluster.connect(client, to: 2)
        isWhole(cluster, client, publisher, through: 11)
    }

    @Test func `who comes again while the log is awaited is let in when it was read`() {
        let (cluster, client, publisher) = pair()
        publish(cluster, publisher, 0..<2)
        cluster.lose(0)
        // What the node says that it is to be read behind is lost.
        cluster.logs = false
        cluster.connect(client, to: 1)
        cluster.collect()
        cluster.loseUnlogged()
        #expect(client.connack == nil)
        cluster.core(1, name).received(.claimFailed(name, "nobody answers."))
        cluster.logs = true
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<2))
    }

    @Test func `the cluster stores what a session is when it is whole`() {
        let (cluster, client, publisher) = pair()
        publish(cluster, publisher, 0..<2)
        cluster.lose(0)
        cluster.replays = false
        let epoch = cluster.saved[name]?.epoch
        cluster.connect(client, to: 1)
        cluster.core(1, name).received(.claimFailed(name, "nobody answers."))
        cluster.connect(client, to: 1)
        cluster.saveLogPositions()
        #expect(cluster.saved[name]?.epoch == epoch)
        cluster.replays = true
        cluster.core(1, name).received(.claimFailed(name, "nobody answers."))
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true && cluster.saved[name]?.epoch ?? 0 > epoch ?? 0)
    }

    @Test func `what the lost node had read alone is read first`() {
        let (cluster, client, publisher) = advanced()
        // What is published comes to node 0, and what that says of it stays unread.
        cluster.readers = [0, 3]
        publish(cluster, publisher, 5..<9)
        for identifier: UInt16 in [6, 8] { client.acknowledge(.pubrec, identifier) }
        cluster.run()
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.readers = [1, 2, 3]
        cluster.connect(client, to: 1)
        isWhole(cluster, client, publisher, through: 9)
    }

    @Test func `what comes into the log late of a message that is done has it released, and no more`() {
        let (cluster, client, publisher) = advanced()
        var random = SeededGenerator(seed: 1)
        client.acknowledgement = .automatic
        cluster.logs = false
        publisher.publish("a", "5", qos: .exactlyOnce)
        while !publisher.unfinished.isEmpty { cluster.log(someOf: 3, using: &random) }
        cluster.read(0)
        #expect(client.texts == texts(0..<5))
        client.lose()
        cluster.connect(client, to: 1)
        for _ in 0..<4 {
            cluster.read(1)
            cluster.log(someOf: 1, using: &random)
        }
        #expect(client.texts == texts(0..<6) && client.unreleased.isEmpty)
        for _ in 0..<2 { cluster.saveLogPositions() }
        // That node 0 was about to send it comes now.
        cluster.logs = true
        cluster.run()
        cluster.lose(1)
        cluster.connect(client, to: 2)
        isWhole(cluster, client, publisher, through: 6)
    }

    @Test func `a queue that went from node to node keeps its names`() {
        let (cluster, client, publisher) = advanced()
        client.lose()
        publish(cluster, publisher, 5..<9)
        cluster.connect(client, to: 1)
        #expect(client.publishesOfConnection.map(\.packetIdentifier) == [1, 2, 3, 4])
        client.acknowledge(.pubrec, 2)
        cluster.run()
        cluster.lose(1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2)
        #expect(client.publishesOfConnection.map(\.duplicate) == [true, true, true])
        isWhole(cluster, client, publisher, through: 9)
    }

    @Test func `what comes while the rest is read keeps its name`() {
        let (cluster, client, publisher) = halfRestored(1000)
        client.acknowledgement = .manual
        // The messages to be sent again, and then the rest, up to what has come by now.
        for _ in 0..<2 { cluster.replay(name, at: 1) }
        publish(cluster, publisher, 11..<13)
        for _ in 0..<3 where client.connack == nil {
            cluster.replay(name, at: 1)
            cluster.run()
        }
        #expect(client.texts.suffix(2) == ["11", "12"])
        cluster.lose(1)
        client.acknowledgement = .automatic
        cluster.replays = true
        cluster.connect(client, to: 2)
        isWhole(cluster, client, publisher, through: 13)
    }

    @Test func `the log is not asked before the session is on the disk`() {
        let (cluster, client, publisher) = advanced()
        publish(cluster, publisher, 5..<7)
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.nodes[1].store?.mode = .paused
        cluster.connect(client, to: 1)
        #expect(cluster.replayedCount == 0 && client.connack == nil)
        cluster.nodes[1].store?.mode = .prompt
        cluster.nodes[1].settle()
        cluster.run()
        isWhole(cluster, client, publisher, through: 7)
    }

    @Test(arguments: [false, true])
    func `what a share group dispatches to it meanwhile comes behind what it was sent, or to another member`(
        leaves: Bool
    ) {
        let (cluster, client, publisher) = advanced()
        client.subscribe("$share/g/s", qos: .atLeastOnce)
        cluster.run()
        publish(cluster, publisher, 5..<7)
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.replays = false
        cluster.connect(client, to: 1)
        cluster.nodes[1].connected("local").publish("s", "dealt", qos: .atLeastOnce)
        cluster.run()
        cluster.core(1, name).received(.claimFailed(name, "nobody answers."))
        cluster.replays = true
        guard leaves else {
            cluster.connect(client, to: 1)
            #expect(client.publishesOfConnection.map(\.duplicate) == [true, true, false])
            #expect(client.texts == texts(0..<7) + ["dealt"])
            return
        }
        let other = cluster.lasting("other", on: 1, "$share/g/s", qos: .atLeastOnce)
        cluster.connect(client, to: 2)
        #expect(other.texts == ["dealt"])
        isWhole(cluster, client, publisher, through: 7)
    }
}
