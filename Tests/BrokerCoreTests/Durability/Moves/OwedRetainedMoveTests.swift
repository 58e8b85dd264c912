import BrokerCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Retained messages that a session waits for are in no log: whoever has it next asks for them again.
@Suite struct OwedRetainedMoveTests {
    private let count = 200

    /// Nodes that all have the same retained messages, and a client of the first one that has asked for them and has
    /// acknowledged none.
    private func asked(shards: Int, count: Int? = nil, receiveMaximum: UInt16? = nil) -> (MovingCluster, TestClient) {
        let cluster = MovingCluster(nodes: 3, shards: shards)
        for number in 0..<(count ?? self.count) { cluster.retain("r/\(number)", "\(number)") }
        let client = cluster.lasting("client", on: 0, receiveMaximum: receiveMaximum)
        client.acknowledgement = .manual
        client.subscribe("r/+", qos: .atLeastOnce)
        cluster.run()
        return (cluster, client)
    }

    private var all: Set<String> { Set((0..<count).map { "\($0)" }) }

    private func comeBack(_ client: TestClient, to node: Int, of cluster: MovingCluster) {
        client.acknowledgement = .automatic
        cluster.connect(client, to: node)
        #expect(client.connack?.sessionPresent == true)
    }

    @Test(.statement("MQTT-3.3.1-9", .v5), arguments: [1, 3])
    func `what a session waits for comes from the node that takes it up when its own is lost`(shards: Int) {
        let (cluster, client) = asked(shards: shards)
        #expect(client.messages.count < count)
        cluster.lose(0)
        comeBack(client, to: 1, of: cluster)
        #expect(Set(client.texts) == all)
    }

    /// What a client does after it has asked, of which only the log has that.
    enum Then: CaseIterable { case nothing, asksForNoneAgain, endsAndAsksForNone }

    @Test(arguments: Then.allCases, [false, true])
    func `what a session waits for is known of the log, if its record does not say so yet`(then: Then, crashes: Bool) {
        let cluster = MovingCluster(nodes: 3)
        for number in 0..<count { cluster.retain("r/\(number)", "\(number)") }
        let client = cluster.lasting("client", on: 0, receiveMaximum: 5)
        client.acknowledgement = .manual
        cluster.storesSaves = false
        client.subscribe("r/+", qos: .atLeastOnce)
        cluster.run()
        #expect(client.messages.count > 0)
        if then == .endsAndAsksForNone { client.unsubscribe("r/+") }
        if then != .nothing {
            let options = SubscriptionOptions(maximumQoS: .atLeastOnce, retainHandling: .doNotSend)
            client.beginSubscribe([Subscription(filter: "r/+", options: options)])
        }
        cluster.run()
        cluster.lose(0)
        cluster.storesSaves = true
        let again = cluster.nodes[1].client("client")
        if crashes {
            again.acknowledgement = .manual
            cluster.connect(again, to: 1, receiveMaximum: 5)
            cluster.crash(1, committing: 100)
        }
        comeBack(again, to: 1, of: cluster)
        // What was in flight when the subscription ended, nobody but the lost node knew.
        #expect(Set(again.texts) == (then == .endsAndAsksForNone ? [] : all))
    }

    @Test(arguments: [1, 3]) func `what was queued and not acknowledged comes again, also if its node was killed before`(
        shards: Int
    ) {
        let (cluster, client) = asked(shards: shards, count: 30)
        cluster.saveLogPositions()
        cluster.crash(0, committing: 100)
        cluster.connect(client, to: 0)
        cluster.saveLogPositions()
        cluster.lose(0)
        let again = cluster.nodes[1].client("client")
        comeBack(again, to: 1, of: cluster)
        #expect(Set(again.texts) == Set((0..<30).map { "\($0)" }))
    }

    @Test(arguments: [1, 3]) func `what was acknowledged before the places were saved does not come again`(shards: Int) {
        let (cluster, client) = asked(shards: shards)
        client.acknowledgement = .automatic
        for packet in client.publishes { client.acknowledge(.puback, packet.packetIdentifier ?? 0) }
        cluster.run()
        #expect(Set(client.texts) == all)
        cluster.saveLogPositions()
        cluster.lose(0)
        let again = cluster.nodes[1].client("client")
        comeBack(again, to: 1, of: cluster)
        #expect(again.texts.isEmpty)
    }

    @Test(arguments: [1, 3]) func `a session that moves takes along what it waits for`(shards: Int) {
        let (cluster, client) = asked(shards: shards)
        client.acknowledgement = .automatic
        // Nobody waits for its queue to become shorter.
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true)
        #expect(Set(client.texts) == all)
    }

    @Test func `what has moved unacknowledged comes again when the node that it has moved to is lost`() {
        let (cluster, client) = asked(shards: 1, count: 30)
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true)
        cluster.saveLogPositions()
        cluster.lose(1)
        let again = cluster.nodes[2].client("client")
        comeBack(again, to: 2, of: cluster)
        #expect(Set(again.texts) == Set((0..<30).map { "\($0)" }))
    }
}
