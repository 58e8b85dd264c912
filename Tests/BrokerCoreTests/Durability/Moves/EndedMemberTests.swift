import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// A member of a share group whose node is lost, and whose session ends elsewhere: what was dispatched to it goes to
/// the other members.
@Suite struct EndedMemberTests {
    private let name = Array("client".utf8)
    private let all = (0..<6).map { "\($0)" }

    /// A client of node 0 has been dispatched six messages, of which it has acknowledged two and was sent two more; its
    /// node is lost. Another member has come since.
    private func lost(_ qos: QoS) -> (MovingCluster, client: TestClient, other: TestClient) {
        let cluster = MovingCluster(nodes: 3, dispatches: true)
        let client = cluster.lasting("client", on: 0, "$share/g/s", qos: qos, receiveMaximum: 2)
        let publisher = cluster.lasting("publisher", on: 2)
        for text in all {
            if text == "2" { client.acknowledgement = .manual }
            publisher.publish("s", text, qos: qos)
            cluster.run()
        }
        client.lose()
        for _ in 0..<2 { cluster.saveLogPositions() }
        cluster.lose(0, successor: 1)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        #expect(client.texts == Array(all[..<4]) && other.texts.isEmpty)
        return (cluster, client, other)
    }

    /// What was sent with QoS 2 is nobody else's, not even when its session ends. [MQTT-4.8.2-5 v5]
    private func rest(_ qos: QoS) -> [String] { Array(all[(qos == .exactlyOnce ? 4 : 2)...]) }

    @Test(.statement("MQTT-4.8.2-5", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce], [0, 1000] as [UInt32])
    func `with Clean Start on another node`(qos: QoS, expiry: UInt32) {
        let (cluster, client, other) = lost(qos)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2, clean: true, expiry: expiry)
        #expect(client.connack?.sessionPresent == false && client.publishesOfConnection.isEmpty)
        #expect(Set(other.texts).isSuperset(of: rest(qos)))
        if qos == .exactlyOnce { #expect(other.texts == rest(qos)) }
    }

    @Test(.statement("MQTT-4.8.2-5", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `by its expiry, which another node sees to`(qos: QoS) {
        let (cluster, _, other) = lost(qos)
        cluster.expire(name, at: 1)
        #expect(Set(other.texts).isSuperset(of: rest(qos)))
        if qos == .exactlyOnce { #expect(other.texts == rest(qos)) }
        #expect(cluster.ended.contains(name))
        #expect(cluster.nodes[1].statistics().clientsExpired == 1)
    }

    @Test func `by its expiry, when its client comes while it is restored`() {
        let (cluster, client, other) = lost(.exactlyOnce)
        cluster.logs = false
        cluster.expire(name, at: 1)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(client.connack == nil)
        cluster.logs = true
        cluster.run()
        #expect(client.connack?.sessionPresent == false)
        #expect(other.texts == rest(.exactlyOnce))
    }

    @Test func `nothing of a session is over before all of it is here`() {
        let (cluster, _, other) = lost(.exactlyOnce)
        cluster.logs = false
        cluster.expire(name, at: 1)
        cluster.nodes[1].advance(milliseconds: 5000)
        #expect(cluster.ended.isEmpty && other.texts.isEmpty)
        cluster.logs = true
        cluster.run()
        cluster.nodes[1].advance(milliseconds: 5000)
        cluster.run()
        #expect(other.texts == rest(.exactlyOnce))
    }

    @Test func `a stored session tells whether it is a member`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a/+")
        let state = { cluster.saved[name]?.state ?? [] }
        #expect(!state().isEmpty && !SavedSession.isMember(state: state()))
        client.subscribe("$share/g/b", qos: .atLeastOnce)
        cluster.run()
        #expect(SavedSession.isMember(state: state()))
        client.unsubscribe("$share/g/b")
        cluster.run()
        #expect(!SavedSession.isMember(state: state()))
        #expect(!SavedSession.isMember(state: []) && !SavedSession.isMember(state: [9, 9]))
    }
}
