import BrokerCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What share groups have dispatched to a session is not lost with its node's disk.
@Suite struct DispatchedStepTests {
    private let name = Array("client".utf8)

    /// A client on node 0 that is the one member of a group, and one that publishes on the last node.
    private func pair(_ qos: QoS, nodes: Int = 3) -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let cluster = MovingCluster(nodes: nodes, dispatches: true)
        let client = cluster.lasting("client", on: 0, "$share/g/s", qos: qos)
        return (cluster, client, cluster.lasting("publisher", on: nodes - 1))
    }

    private func publish(_ cluster: MovingCluster, _ publisher: TestClient, _ numbers: Range<Int>, _ qos: QoS) {
        cluster.publish(publisher, numbers, topic: "s", qos: qos)
    }

    /// A second is over, twice: the nodes have said how far they are done.
    private func tell(_ cluster: MovingCluster) { for _ in 0..<2 { cluster.saveLogPositions() } }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce]) func `what waits for a client that is away comes out of the log`(qos: QoS) {
        let (cluster, client, publisher) = pair(qos)
        publish(cluster, publisher, 0..<2, qos)
        client.lose()
        publish(cluster, publisher, 2..<5, qos)
        tell(cluster)
        cluster.lose(0, successor: 1)
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true)
        // Also of QoS 1 nothing but what its record does not know to be done.
        #expect(client.texts == texts(0..<5) && client.unreleased.isEmpty)
        publish(cluster, publisher, 5..<7, qos)
        #expect(client.texts == texts(0..<7) && client.unreleased.isEmpty)
    }

    @Test func `what comes for a client that has not been back since its node was started comes out of the log`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        cluster.lose(client)
        tell(cluster)
        cluster.crash(0, committing: 100)
        cluster.run()
        publish(cluster, publisher, 0..<3, .atLeastOnce)
        tell(cluster)
        cluster.lose(0, successor: 1)
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<3))
    }

    @Test func `what was sent with QoS 2 comes first, with its identifier, and what was acknowledged not at all`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<3, .exactlyOnce)
        client.acknowledge(.pubrec, 1)
        cluster.run()
        client.lose()
        publish(cluster, publisher, 3..<5, .exactlyOnce)
        tell(cluster)
        cluster.lose(0, successor: 1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.publishesOfConnection.map(\.packetIdentifier).prefix(2) == [2, 3])
        #expect(client.publishesOfConnection.map(\.duplicate) == [true, true, false, false])
        #expect(client.texts == texts(0..<5) && client.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `what goes unsent from one client to another is the other's, whoever takes them up`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        client.lose()
        publish(cluster, publisher, 0..<3, .exactlyOnce)
        let other = cluster.lasting("other", on: 0, "$share/g/s")
        client.acknowledgement = .manual
        cluster.connect(client, to: 0, receiveMaximum: 1)
        cluster.lose(client)
        #expect(client.texts == texts(0..<1) && other.texts == texts(1..<3))
        cluster.lose(0, successor: 1)
        client.acknowledgement = .automatic
        for member in [client, other] { cluster.connect(member, to: 1) }
        #expect(client.publishesOfConnection.map(\.packetIdentifier) == [1] && client.texts == texts(0..<1))
        #expect(other.publishesOfConnection.isEmpty && other.texts == texts(1..<3))
        #expect(client.unreleased.isEmpty && other.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce], [false, true])
    func `what a client has brought and left to another one is the other's, whichever node is lost or back`(qos: QoS, isLost: Bool)
    {
        let (cluster, client, publisher) = pair(qos)
        client.lose()
        // Its clock is ahead of those of the others.
        cluster.nodes[0].advance(seconds: 1)
        publish(cluster, publisher, 0..<2, qos)
        client.acknowledgement = .manual
        let other = cluster.lasting("other", on: 1, "$share/g/s", receiveMaximum: 1)
        other.acknowledgement = .manual
        publish(cluster, publisher, 2..<3, qos)
        cluster.connect(client, to: 1, receiveMaximum: 1)
        #expect(client.texts == texts(0..<1) && other.texts == texts(2..<3))
        cluster.lose(client)
        cluster.connect(client, to: isLost ? 2 : 0, receiveMaximum: 1)
        cluster.lose(client)
        if isLost {
            cluster.lose(1, successor: 2)
        } else {
            cluster.crash(0, committing: 100)
            cluster.run()
        }
        for member in [client, other] {
            member.lose()
            member.acknowledgement = .automatic
            cluster.connect(member, to: isLost ? 2 : member === client ? 0 : 1)
        }
        let all = client.texts + other.texts
        #expect(Set(all) == Set(texts(0..<3)), "\(client.texts) \(other.texts)")
        if qos == .exactlyOnce { #expect(all.filter { $0 == "1" }.count == 1, "\(client.texts) \(other.texts)") }
    }

    @Test(.statement("MQTT-4.4.0-1", .v5))
    func `what was sent so is sent again, though it stands before all that the session lacks of the log`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        let other = cluster.lasting("other", on: 0, "$share/g/s")
        other.lose()
        client.acknowledgement = .manual
        client.lose()
        cluster.connect(client, to: 0, receiveMaximum: 1)
        publish(cluster, publisher, 0..<2, .exactlyOnce)
        // The other one has nothing to do with them so far.
        tell(cluster)
        other.acknowledgement = .manual
        cluster.connect(other, to: 0)
        cluster.lose(client)
        #expect(client.texts == texts(0..<1) && other.texts == texts(1..<2))
        cluster.lose(0, successor: 1)
        other.acknowledgement = .automatic
        cluster.connect(other, to: 1)
        #expect(other.publishesOfConnection.map(\.packetIdentifier) == [1] && other.publishesOfConnection[0].duplicate)
        #expect(other.texts == texts(1..<2) && other.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `what a client was sent with QoS 2 is not dispatched to another when its node is lost`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        let other = cluster.lasting("other", on: 1)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<1, .exactlyOnce)
        tell(cluster)
        other.subscribe("$share/g/s", qos: .exactlyOnce)
        cluster.run()
        cluster.lose(0, successor: 1)
        #expect(other.texts.isEmpty)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2)
        #expect(client.texts == ["0"] && client.publishesOfConnection.map(\.duplicate) == [true])
    }

    @Test func `what the log does not know to be a client's is dispatched again, and waits for who comes`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<3, .atLeastOnce)
        tell(cluster)
        cluster.lose(0, successor: 1)
        // The client was the one member.
        #expect(client.texts == texts(0..<3))
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2)
        #expect(client.publishesOfConnection.map { String(decoding: $0.payload, as: UTF8.self) } == texts(0..<3))
    }

    @Test func `what waits for a member is dispatched by the node itself if that is back`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<1, .atLeastOnce)
        cluster.lose(0, successor: 1)
        cluster.nodes[1].cores[0].received(.dispatchesNoMoreFor(1 << 32 | 1))
        let other = cluster.lasting("other", on: 1, "$share/g/s", qos: .atLeastOnce)
        #expect(other.texts.isEmpty)
    }

    @Test func `who dispatches much again waits for the log`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        client.acknowledgement = .manual
        let long = String(repeating: "x", count: 1 << 20)
        for _ in 0..<5 {
            publisher.publish("s", long, qos: .atLeastOnce)
            cluster.run()
        }
        tell(cluster)
        cluster.lasting("other", on: 1, "$share/g/s").acknowledgement = .manual
        cluster.lose(0)
        let core = cluster.nodes[1].cores[0]
        #expect(core.takesReplays)
        cluster.inherit(0, by: 1, runs: false)
        #expect(!core.takesReplays && core.takesLog)
        cluster.run()
        #expect(core.takesReplays)
    }

    @Test func `until the log has it a message counts as not done with`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        cluster.lose(client)
        publisher.publish("s", "0", qos: .atLeastOnce)
        cluster.log()
        cluster.logs = false
        cluster.run()
        let last = UInt64(cluster.records.count)
        #expect(cluster.nodes[0].cores[0].dispatched(0).through == last - 1)
        // The log does not take it; it is told once more.
        cluster.collect()
        cluster.loseUnlogged()
        cluster.core(0, name).received(.logFailed(through: .max >> 1, FailedBatches(partitions: .max, isRefused: false)))
        cluster.nodes[0].settle()
        #expect(cluster.nodes[0].cores[0].dispatched(0).through == last - 1)
        cluster.log()
        #expect(cluster.nodes[0].cores[0].dispatched(0).through == last)
    }

    @Test func `what waits when a client goes is told then`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<2, .atLeastOnce)
        let last = UInt64(cluster.records.count)
        #expect(cluster.nodes[0].cores[0].dispatched(0).through < last)
        cluster.lose(client)
        tell(cluster)
        #expect(cluster.nodes[0].cores[0].dispatched(0).through >= last)
        cluster.lose(0, successor: 1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.publishesOfConnection.map { String(decoding: $0.payload, as: UTF8.self) } == texts(0..<2))
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [false, true])
    func `what was another's by the time its node came back is not dispatched again by that`(isLate: Bool) {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        publish(cluster, publisher, 0..<4, .exactlyOnce)
        tell(cluster)
        cluster.lose(other)
        cluster.cut(0)
        client.connectionIsGone()
        // Its member is the one that is connected, until its lease ends.
        publish(cluster, publisher, 4..<8, .exactlyOnce)
        cluster.connect(other, to: 1)
        if isLate { cluster.inherit(0, by: 1) }
        cluster.start(0, committing: 100)
        cluster.run()
        cluster.connect(client, to: 0)
        if !isLate { cluster.inherit(0, by: 1) }
        cluster.run()
        #expect((client.texts + other.texts).sorted() == texts(0..<8), "\(client.texts) \(other.texts)")
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `of two groups with a message each gets it once, though both members' node is lost`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        let second = cluster.lasting("second", on: 0, "$share/h/s", qos: .exactlyOnce)
        // Group g has told the log whose the message is, group h has not got so far.
        second.acknowledgement = .manual
        cluster.lose(client)
        publish(cluster, publisher, 0..<1, .exactlyOnce)
        tell(cluster)
        cluster.lose(0)
        let others = [cluster.lasting("other of g", on: 1, "$share/g/s"), cluster.lasting("other of h", on: 1, "$share/h/s")]
        cluster.inherit(0, by: 1)
        second.acknowledgement = .automatic
        for client in [client, second] { cluster.connect(client, to: 2) }
        #expect(client.texts == ["0"] && others[0].texts.isEmpty)
        #expect(Set(second.texts + others[1].texts) == ["0"] && others[1].texts.count <= 1)
    }

    @Test func `a client that two groups have dispatched a message gets it for both, each with its Subscription Identifier`() {
        let cluster = MovingCluster(nodes: 3, dispatches: true)
        let client = cluster.lasting("client", on: 0)
        client.subscribe("$share/g/s", identifier: 1)
        client.subscribe("$share/h/s", identifier: 2)
        cluster.run()
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.lose(client)
        publish(cluster, publisher, 0..<2, .exactlyOnce)
        tell(cluster)
        cluster.lose(0, successor: 1)
        cluster.connect(client, to: 1)
        #expect(client.texts.sorted() == ["0", "0", "1", "1"])
        #expect(client.messages.map(\.properties.subscriptionIdentifiers).sorted { $0[0] < $1[0] } == [[1], [1], [2], [2]])
    }

    @Test func `a message that comes by a group and by a subscription comes twice, as it would have`() {
        let (cluster, client, publisher) = pair(.exactlyOnce)
        client.subscribe("s", qos: .exactlyOnce)
        cluster.run()
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<1, .exactlyOnce)
        #expect(client.texts == ["0", "0"])
        client.acknowledge(.pubrec, 1)
        cluster.run()
        client.lose()
        publish(cluster, publisher, 1..<2, .exactlyOnce)
        tell(cluster)
        cluster.lose(0, successor: 1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.texts.sorted() == ["0", "0", "1", "1"] && client.unreleased.isEmpty)
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `a queue that was read from the store, or came from another node, keeps its names`(
        qos: QoS
    ) {
        let (cluster, client, publisher) = pair(qos, nodes: 4)
        client.lose()
        publish(cluster, publisher, 0..<3, qos)
        tell(cluster)
        cluster.crash(0, committing: 100)
        cluster.run()
        client.acknowledgement = .manual
        cluster.connect(client, to: 1)
        #expect(client.texts == texts(0..<3))
        if qos == .exactlyOnce { client.acknowledge(.pubrec, 2) }
        cluster.run()
        cluster.lose(client)
        tell(cluster)
        cluster.lose(1, successor: 0)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2)
        #expect(client.connack?.sessionPresent == true)
        #expect(client.texts == texts(0..<3) + (qos == .exactlyOnce ? [] : texts(0..<3)) && client.unreleased.isEmpty)
    }

    @Test func `what was dispatched late comes, though the session was done with what the log had behind it`() {
        let (cluster, client, publisher) = pair(.atLeastOnce, nodes: 4)
        let other = cluster.lasting("other", on: 1)
        client.unsubscribe("$share/g/s")
        client.subscribe("a", qos: .atLeastOnce)
        other.subscribe("$share/g/s", qos: .atLeastOnce)
        cluster.run()
        other.acknowledgement = .manual
        publish(cluster, publisher, 0..<2, .atLeastOnce)
        for number in 0..<4 {
            publisher.publish("a", "a\(number)", qos: .atLeastOnce)
            cluster.run()
        }
        tell(cluster)
        // Node 0 dispatches what node 1 had, far behind.
        client.subscribe("$share/g/s", qos: .atLeastOnce)
        cluster.run()
        cluster.lose(client)
        cluster.saveLogPositions()
        cluster.lose(1, successor: 0)
        tell(cluster)
        cluster.lose(0, successor: 2)
        cluster.connect(client, to: 2)
        #expect(Set(client.texts).isSuperset(of: texts(0..<2)))
    }

    @Test func `a group that the client has left meanwhile gives nothing`() {
        let (cluster, client, publisher) = pair(.atLeastOnce)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<2, .atLeastOnce)
        client.lose()
        tell(cluster)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        client.unsubscribe("$share/g/s")
        cluster.run()
        cluster.lose(0, successor: 1)
        cluster.connect(client, to: 1)
        #expect(client.publishesOfConnection.isEmpty)
    }
}
