import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// A node was killed and is back with its store: what share groups had dispatched to it.
@Suite struct EarlierDispatchesTests {
    private func publish(_ cluster: MovingCluster, _ publisher: TestClient, _ numbers: Range<Int>, _ qos: QoS = .exactlyOnce) {
        cluster.publish(publisher, numbers, topic: "s", qos: qos)
    }

    /// A client on node 0 that takes one message at a time, has one and waits for another, of which the log does not
    /// know whose they are; and who publishes.
    private func pair(shards: Int = 1) -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let cluster = MovingCluster(nodes: 3, shards: shards, dispatches: true)
        let client = cluster.nodes[0].client("client")
        client.connect(clean: false, expiry: 1000, properties: .having { $0.receiveMaximum = 1 })
        cluster.run()
        client.subscribe("$share/g/s")
        cluster.run()
        let publisher = cluster.lasting("publisher", on: 2)
        client.acknowledgement = .manual
        publish(cluster, publisher, 0..<2)
        return (cluster, client, publisher)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [1, 3])
    func `a client waits until it is known whether what waits for it is its own`(shards: Int) {
        let (cluster, client, publisher) = pair(shards: shards)
        #expect(client.texts == ["0"])
        cluster.settlesEarlierDispatches = false
        cluster.crash(0, committing: 100)
        cluster.connect(client, to: 0)
        #expect(!client.isConnected)
        client.acknowledgement = .automatic
        cluster.settlesEarlierDispatches = true
        cluster.run()
        #expect(client.isConnected && client.connack?.sessionPresent == true)
        // The one that it had comes again, with its packet identifier, and the other one.
        #expect(client.publishesOfConnection.map(\.packetIdentifier) == [1, 2])
        #expect(client.publishesOfConnection.map(\.duplicate) == [true, false])
        publish(cluster, publisher, 2..<4)
        #expect(client.texts == texts(0..<4) && client.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `what another node has dispatched meanwhile does not come, and what the client was sent does`() {
        let (cluster, client, _) = pair()
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.cut(0)
        client.connectionIsGone()
        cluster.inherit(0, by: 1)
        #expect(other.texts == ["1"])
        cluster.start(0, committing: 100)
        cluster.run()
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        #expect(client.texts == ["0"] && client.publishesOfConnection.map(\.duplicate) == [true] && other.texts == ["1"])
    }

    /// It stands in the log, from which it is dispatched again; a row of the store beside that would bring it twice.
    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce], [1, 3])
    func `what a client had whose session has ended with the crash is another's, once`(qos: QoS, shards: Int) {
        let cluster = MovingCluster(nodes: 3, shards: shards, dispatches: true)
        let other = cluster.lasting("other", on: 0, "$share/g/s")
        other.disconnect()
        cluster.run()
        let passing = cluster.connected("passing", on: 0, clean: true, expiry: 0, receiveMaximum: 1)
        passing.subscribe("$share/g/s", qos: qos)
        passing.acknowledgement = .manual
        cluster.run()
        publish(cluster, cluster.lasting("publisher", on: 2), 0..<4, qos)
        #expect(passing.texts == ["0"])
        cluster.crash(0, committing: 100)
        cluster.run()
        cluster.connect(other, to: 0)
        // The log does not know what was sent to a session that does not last.
        #expect(other.texts.sorted() == texts(0..<4))
    }

    // MARK: A lease that has ended

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [1, 3])
    func `a node that has lost its lease drops what another one has dispatched meanwhile, and dispatches none of it`(shards: Int) {
        let (cluster, client, publisher) = pair(shards: shards)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.cut(0)
        // For either of them.
        publish(cluster, publisher, 2..<6)
        cluster.inherit(0, by: 1)
        #expect(other.texts.sorted() == texts(1..<6))
        cluster.goOn(0)
        #expect(!client.isConnected)
        cluster.run()
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        // The one that it had comes again.
        #expect(client.texts == ["0"] && client.publishesOfConnection.map(\.duplicate) == [true])
        publish(cluster, publisher, 6..<10)
        #expect((client.texts + other.texts).sorted() == texts(0..<10) && client.texts.count > 1)
        #expect(client.unreleased.isEmpty && cluster.nodes[0].cores.allSatisfy { $0.unsettledEarlierDispatches == nil })
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `a node that has lost its lease, and is the first that would dispatch for it, dispatches all of it`() {
        let (cluster, client, publisher) = pair()
        cluster.cut(0)
        publish(cluster, publisher, 2..<4)
        cluster.goOn(0)
        cluster.run()
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        cluster.inherit(0, by: 1)
        publish(cluster, publisher, 4..<6)
        #expect(client.texts.sorted() == texts(0..<6) && client.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5))
    func `what was said of a session when the lease had ended does not count`() {
        let (cluster, client, publisher) = pair()
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.cut(0)
        cluster.inherit(0, by: 1)
        // It would be sent the next one, of which the log is told in vain.
        client.acknowledge(.pubrec, 1)
        client.acknowledge(.pubcomp, 1)
        cluster.nodes[0].settle()
        client.lose()
        cluster.nodes[0].settle()
        cluster.goOn(0)
        cluster.run()
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        publish(cluster, publisher, 2..<6)
        #expect((client.texts + other.texts).sorted() == texts(0..<6), "\(client.texts) \(other.texts)")
    }

    @Test func `clients that may stay go if they would be sent what may be another's`() {
        let (cluster, client, publisher) = pair()
        let idle = cluster.lasting("idle", on: 0, "other")
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.cut(0)
        cluster.inherit(0, by: 1)
        #expect(other.texts == ["1"])
        cluster.goOn(0, staying: true)
        #expect(!client.isConnected && idle.isConnected)
        publisher.publish("other", "x", qos: .atLeastOnce)
        cluster.run()
        #expect(idle.texts == ["x"])
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        #expect(client.texts == ["0"] && client.unreleased.isEmpty && other.texts == ["1"])
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), .statement("MQTT-4.8.2-5", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce], [0, 1000])
    func `what is dispatched to a client that has stayed, and whose session is elsewhere, is another's`(qos: QoS, expiry: UInt32) {
        let cluster = MovingCluster(nodes: 3, dispatches: true)
        let client = cluster.connected("client", on: 0, clean: expiry == 0, expiry: expiry, receiveMaximum: 1)
        client.subscribe("$share/g/s", qos: qos)
        client.acknowledgement = .manual
        cluster.run()
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.cut(0)
        cluster.goOn(0, staying: true)
        cluster.run()
        publish(cluster, publisher, 0..<3, qos)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.core(0, name).received(.sessionGone(name))
        cluster.run()
        #expect(!client.isConnected && client.texts == ["0"])
        // What it was sent with QoS 2 is nobody else's.
        #expect(other.texts == texts((qos == .atLeastOnce ? 0 : 1)..<3))
    }

    /// A node that was killed while its group had members, and has none when it is back: with others on node 1, or with
    /// none at all.
    private func back(others: Bool) -> (MovingCluster, client: TestClient, other: TestClient?) {
        let (cluster, client, publisher) = pair()
        let other = others ? cluster.lasting("other", on: 1, "$share/g/s") : nil
        cluster.readers.remove(0)
        publish(cluster, publisher, 2..<5)
        client.unsubscribe("$share/g/s")
        cluster.collect()
        cluster.settlesEarlierDispatches = false
        cluster.crash(0, committing: 100)
        cluster.run()
        cluster.logs = false
        cluster.settlesEarlierDispatches = true
        cluster.run()
        return (cluster, client, other)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5)) func `what a node passes on of what they left, and its lease ends, is passed on once`() {
        let (cluster, _, other) = back(others: true)
        cluster.cut(0)
        cluster.logs = true
        cluster.goOn(0)
        cluster.run()
        let texts = (other?.texts ?? []).sorted()
        #expect(texts.count == Set(texts).count && texts.suffix(3) == ["2", "3", "4"], "\(texts)")
    }

    @Test(.statement("MQTT-4.8.2-4", .v5)) func `what a node holds of what they left, and its lease ends, comes once`() {
        let (cluster, _, _) = back(others: false)
        cluster.cut(0)
        cluster.logs = true
        cluster.goOn(0)
        cluster.run()
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.run()
        let texts = other.texts.sorted()
        #expect(texts.count == Set(texts).count && texts.suffix(3) == ["2", "3", "4"], "\(texts)")
    }

    @Test(.statement("MQTT-4.8.2-4", .v5)) func `what was about to be passed on when the lease ended is not`() {
        let (cluster, client, publisher) = pair()
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        cluster.readers.remove(0)
        publish(cluster, publisher, 2..<4)
        // It has no member any more when it reads what is its own.
        client.unsubscribe("$share/g/s")
        cluster.collect()
        cluster.logs = false
        cluster.read(0)
        cluster.cut(0)
        cluster.logs = true
        cluster.inherit(0, by: 1)
        cluster.goOn(0)
        cluster.run()
        #expect(other.texts.sorted() == texts(1..<4) || other.texts.sorted() == texts(0..<4), "\(other.texts)")
    }

    // MARK: A start

    @Test func `a session leaves for another node when it is known what is its own`() {
        let (cluster, client, _) = pair()
        cluster.settlesEarlierDispatches = false
        cluster.crash(0, committing: 100)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        #expect(!client.isConnected)
        cluster.settlesEarlierDispatches = true
        cluster.run()
        cluster.nodes[0].advance(seconds: 1)
        cluster.run()
        #expect(client.isConnected && client.texts == texts(0..<2))
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce], [false, true])
    func `what is dispatched to a session that has given its queue away is another's after a crash, or a loss`(
        qos: QoS, isLost: Bool
    ) {
        let (cluster, _, publisher) = leaving(qos)
        publish(cluster, publisher, 1..<2, qos)
        if isLost {
            cluster.lose(0, successor: 2)
        } else {
            cluster.crash(0, committing: 100)
        }
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        if !isLost {
            cluster.core(0, name).received(.sessionGone(name))
            cluster.run()
        }
        #expect(other.texts == texts(1..<2))
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce], [false, true])
    func `what is dispatched after a start to a session that is elsewhere by now is another's`(qos: QoS, isStored: Bool) {
        let (cluster, _, publisher) = leaving(qos, isStored: isStored)
        cluster.crash(0)
        cluster.run()
        publish(cluster, publisher, 1..<3, qos)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        // It may be told to leave first.
        if qos == .exactlyOnce { cluster.core(0, name).received(.sessionLeaves(name)) }
        cluster.core(0, name).received(.sessionGone(name))
        cluster.run()
        #expect(other.texts == texts(1..<3))
    }

    private let name = Array("client".utf8)

    /// The same with a client that is away, and for which one message waits: its queue has been given to another node,
    /// which has not said so.
    ///
    /// - Parameter isStored: whether that one is on the disk.
    private func leaving(
        _ qos: QoS, isStored: Bool = true
    ) -> (MovingCluster, client: TestClient, publisher: TestClient) {
        let cluster = MovingCluster(nodes: 3, dispatches: true)
        let client = cluster.lasting("client", on: 0, "$share/g/s")
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.lose(client)
        if !isStored { cluster.nodes[0].store?.mode = .paused }
        publish(cluster, publisher, 0..<1, qos)
        cluster.core(0, name).received(.sessionLeaves(name))
        cluster.run()
        return (cluster, client, publisher)
    }

    @Test func `what the log says to be a session's comes, though the store has not got so far`() {
        let (cluster, client, publisher) = pair()
        cluster.lose(client)
        cluster.nodes[0].store?.mode = .paused
        publish(cluster, publisher, 2..<5)
        // The log knows, and the disk does not.
        cluster.crash(0)
        cluster.nodes[0].store?.mode = .prompt
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        #expect(client.texts.sorted() == texts(0..<5) && client.unreleased.isEmpty)
    }

    @Test func `what goes to a group's member once more comes to others once`() {
        let (cluster, _, publisher) = pair()
        // Subscribes like the group, without being in it, on the node that takes the group's part over and another one.
        let others = [1, 2].map { cluster.lasting("other \($0)", on: $0, "s") }
        let heir = cluster.lasting("heir", on: 1, "$share/g/s")
        let moved = cluster.lasting("moved", on: 0, "s")
        publish(cluster, publisher, 2..<4)
        cluster.lose(0, successor: 1)
        publish(cluster, publisher, 4..<6)
        #expect(others.map(\.texts) == [texts(2..<6), texts(2..<6)])
        #expect(heir.texts.contains("5"))
        // Nor to one that was on the lost node, and comes to another one.
        cluster.connect(moved, to: 2)
        #expect(moved.isConnected)
        #expect(moved.texts == texts(2..<6))
    }

    @Test func `a node that is killed again before its leases have ended has the past of both`() {
        let (cluster, client, publisher) = pair()
        cluster.cut(0)
        client.connectionIsGone()
        cluster.start(0, committing: 100)
        cluster.run()
        // To the first run, whose members others know still.
        publish(cluster, publisher, 2..<4)
        cluster.cut(0)
        cluster.start(0)
        cluster.run()
        publish(cluster, publisher, 4..<6)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 0)
        cluster.inherit(0, by: 1)
        publish(cluster, publisher, 6..<8)
        #expect(client.texts.sorted() == texts(0..<8) && client.unreleased.isEmpty)
        #expect(cluster.nodes[0].cores[0].unsettledEarlierDispatches == nil)
    }

    @Test func `a store for another number of loops has the past of all`() {
        let rows = [
            StoredDispatches(parts: [.init(incarnation: 1, done: [5, 9], successor: 8), .init(incarnation: 2, done: [7, 7])]),
            StoredDispatches(parts: [.init(incarnation: 2, done: [6, 8]), .init(incarnation: 3, done: [1, 1])]),
        ]
        for row in rows { #expect(row.encoded().withUnsafeBytes { StoredDispatches(decoding: $0) } == row) }
        let bytes = rows[0].encoded()
        for count in 0..<bytes.count where (count - 1) % 32 != 0 {
            #expect(bytes[..<count].withUnsafeBytes { StoredDispatches(decoding: $0) } == nil, "\(count)")
        }
        let cluster = MovingCluster(nodes: 2, shards: 3, dispatches: true)
        let client = cluster.lasting("client", on: 0, "$share/g/s")
        cluster.lose(client)
        cluster.settlesEarlierDispatches = false
        cluster.crash(0, committing: 100)
        #expect(cluster.nodes[0].cores.allSatisfy { $0.unsettledEarlierDispatches?.parts.map(\.incarnation) == [1 << 32 | 1] })
    }

    @Test func `what was dispatched to a run is known if the node is killed before the next one has begun`() {
        let cluster = MovingCluster(nodes: 2, dispatches: true)
        let client = cluster.lasting("client", on: 0, "$share/g/s")
        cluster.lose(client)
        for core in cluster.nodes[0].cores {
            _ = core.endClusterIncarnation(next: 1 << 32 | 2)
            core.received(.saveLogPositions)
        }
        cluster.nodes[0].settle()
        cluster.settlesEarlierDispatches = false
        cluster.crash(0, committing: 100)
        #expect(cluster.nodes[0].cores.allSatisfy { $0.unsettledEarlierDispatches?.parts.map(\.incarnation) == [1 << 32 | 1] })
    }

    // MARK: No member left

    @Test(arguments: [true, false])
    func `what is published while the only member's node is gone waits for its session, here or there`(isBack: Bool) {
        let (cluster, client, publisher) = pair()
        client.acknowledge(.pubrec, 1)
        cluster.run()
        cluster.saveLogPositions()
        if isBack { cluster.cut(0) } else { cluster.lose(0) }
        client.connectionIsGone()
        cluster.inherit(0, by: 1)
        publish(cluster, publisher, 2..<4)
        publish(cluster, publisher, 4..<6, .atLeastOnce)
        client.acknowledgement = .automatic
        if isBack {
            cluster.start(0, committing: 100)
            cluster.run()
        }
        cluster.connect(client, to: isBack ? 0 : 2)
        #expect(client.texts.sorted() == texts(0..<6), "\(client.texts)")
        publish(cluster, publisher, 6..<8)
        #expect(client.texts.sorted() == texts(0..<8) && client.unreleased.isEmpty)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [true, false])
    func `what was under way to who has come arrives, though the node that held it has lost its lease`(isLogged: Bool) {
        let (cluster, _, publisher) = pair()
        cluster.lose(0, successor: 1)
        publish(cluster, publisher, 2..<4)
        let other = cluster.lasting("other", on: 2)
        cluster.logs = false
        other.subscribe("$share/g/s")
        cluster.run()
        cluster.cut(1, logsSome: isLogged)
        cluster.logs = true
        cluster.run()
        #expect(other.texts == (isLogged ? texts(1..<4) : []))
        cluster.inherit(1, by: 2)
        cluster.goOn(1)
        cluster.run()
        #expect(other.texts == texts(1..<4) && other.unreleased.isEmpty)
    }

    @Test(arguments: [1, 3]) func `what is published on a node that has started since waits too`(shards: Int) {
        let (cluster, client, publisher) = pair(shards: shards)
        cluster.lose(0, successor: 1)
        // It knows of the group by the node that dispatches.
        cluster.crash(2, committing: 100)
        cluster.connect(publisher, to: 2)
        publish(cluster, publisher, 2..<4)
        publish(cluster, publisher, 4..<6, .atLeastOnce)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 2)
        #expect(client.texts.sorted() == texts(0..<6), "\(client.texts)")
        #expect(client.unreleased.isEmpty)
        cluster.lose(client)
        publish(cluster, publisher, 6..<8)
        cluster.connect(client, to: 2)
        #expect(client.texts.sorted() == texts(0..<8))
    }

    @Test(arguments: [1, 3]) func `a node stands for members that are gone until they are back, or for ten minutes`(shards: Int) {
        for isBack in [true, false] {
            let (cluster, client, _) = pair(shards: shards)
            cluster.cut(0)
            client.connectionIsGone()
            cluster.inherit(0, by: 1)
            #expect(cluster.membersTold(of: 1) == ["s": 1] && cluster.membersTold(of: 2).values.reduce(0, +) == 0)
            if isBack {
                cluster.goOn(0)
            } else {
                cluster.nodes[1].advance(seconds: 601)
                for core in cluster.nodes[1].cores { core.received(.saveLogPositions) }
                cluster.nodes[1].settle()
            }
            cluster.collect()
            #expect(cluster.membersTold(of: 1) == ["s": 0])
        }
    }

    @Test func `it waits for ten minutes`() {
        let (cluster, _, publisher) = pair()
        cluster.lose(0, successor: 1)
        publish(cluster, publisher, 2..<4)
        for node in 1...2 {
            cluster.nodes[node].advance(seconds: 601)
            for core in cluster.nodes[node].cores { core.received(.saveLogPositions) }
        }
        cluster.run()
        publish(cluster, publisher, 4..<6)
        let other = cluster.lasting("other", on: 1, "$share/g/s")
        #expect(other.texts.isEmpty)
        publish(cluster, publisher, 6..<8)
        #expect(other.texts == texts(6..<8))
    }
}
