import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// A session outlives its node together with that node's disk, by what the cluster has stored of it and by the log.
@Suite struct LostNodeTests {
    @Test(arguments: [1, 3]) func `a session is restored with its subscriptions and its queue when its node is gone`(shards: Int) {
        let cluster = MovingCluster(nodes: 3, shards: shards)
        let client = cluster.lasting("client", on: 0, "a")
        client.subscribe("b/#", qos: .atLeastOnce)
        cluster.run()
        client.lose()
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.publish(publisher, 0..<20)
        cluster.lose(0)
        cluster.connect(client, to: 2)
        #expect(client.connack?.sessionPresent == true)
        #expect(client.texts == texts(0..<20))
        cluster.publish(publisher, 20..<22)
        cluster.publish(publisher, 22..<24, topic: "b/c")
        #expect(client.texts == texts(0..<24))
    }

    /// Many sessions of a node that have done all of `done` messages, and had them a second ago; the cluster has stored
    /// nothing of them since they began, or since they have subscribed.
    private func many(
        _ count: Int, shards: Int, done: Int, qos: QoS = .atLeastOnce, storesSubscriptions: Bool = false
    ) -> (MovingCluster, clients: [TestClient], publisher: TestClient) {
        let cluster = MovingCluster(shards: shards)
        let clients = (0..<count).map { cluster.lasting(EncodedString(Array("c\($0)".utf8)) ?? "", on: 0, "a") }
        let publisher = cluster.lasting("publisher", on: 1)
        if storesSubscriptions { cluster.saveLogPositions() }
        cluster.storesSaves = false
        cluster.publish(publisher, 0..<done, qos: qos)
        cluster.saveLogPositions()
        return (cluster, clients, publisher)
    }

    /// The clients of a node that is lost come to another one: what each of them gets there.
    private func received(by clients: [TestClient], of cluster: MovingCluster) -> [[String]] {
        cluster.lose(0)
        cluster.storesSaves = true
        return clients.map {
            let again = cluster.connected($0.identifier, on: 1)
            #expect(again.connack?.sessionPresent == true)
            return again.texts
        }
    }

    @Test(arguments: [(1, .atLeastOnce, true), (3, .atLeastOnce, false), (1, .exactlyOnce, false)] as [(Int, QoS, Bool)])
    func `of many sessions none gets again what it had done a second before its node was lost`(
        shards: Int, qos: QoS, remembers: Bool
    ) {
        let (cluster, clients, publisher) = many(120, shards: shards, done: 5, qos: qos)
        cluster.remembersProgress = remembers
        cluster.publish(publisher, 5..<7, qos: qos)
        let wanted = qos == .exactlyOnce ? [] : texts(5..<7)
        #expect(received(by: clients, of: cluster).allSatisfy { $0 == wanted })
    }

    @Test func `of a queue that is never empty the log says each second how much is done`() {
        let (cluster, clients, publisher) = many(1, shards: 1, done: 2)
        clients[0].acknowledgement = .manual
        cluster.publish(publisher, 2..<5)
        cluster.saveLogPositions()
        cluster.publish(publisher, 5..<8)
        for packet in clients[0].publishes.dropFirst(2).prefix(3) {
            clients[0].acknowledge(.puback, packet.packetIdentifier ?? 0)
        }
        cluster.run()
        cluster.saveLogPositions()
        #expect(received(by: clients, of: cluster) == [texts(5..<8)])
    }

    @Test func `what nobody has moved is not written to the log, and what is stuck once`() {
        let (cluster, clients, publisher) = many(10, shards: 1, done: 2)
        func entries() -> Int { cluster.progress().count }
        let count = entries()
        // One beside each subscription, and one of each session that was given something; the publisher's among them,
        // which has come just now.
        #expect(count == 10 + 11)
        publisher.publish("b", "", qos: .atLeastOnce)
        cluster.run()
        for _ in 0..<3 { cluster.saveLogPositions() }
        #expect(entries() == count)
        clients[0].acknowledgement = .manual
        cluster.publish(publisher, 2..<3)
        for _ in 0..<3 { cluster.saveLogPositions() }
        #expect(entries() == count + 9)
        clients[0].acknowledge(.puback, clients[0].publishes.last?.packetIdentifier ?? 0)
        cluster.run()
        for _ in 0..<3 { cluster.saveLogPositions() }
        #expect(entries() == count + 10)
    }

    @Test(arguments: [false, true]) func `a session is read from where it was a second ago, and not from what is stored`(
        remembers: Bool
    ) {
        let (cluster, clients, publisher) = many(1, shards: 1, done: 300, storesSubscriptions: true)
        cluster.remembersProgress = remembers
        cluster.publish(publisher, 300..<303)
        #expect(received(by: clients, of: cluster) == [texts(300..<303)])
        // Three readings of what came since, of which the log has some records more; the first one is of all since the
        // session was stored where nobody knows better.
        #expect(cluster.replayedCount <= 3 * 8 + (remembers ? 0 : 310))
    }

    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: [false, true])
    func `what the lost node had sent is not taken for another message of its packet identifier`(restarts: Bool) {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0, "a")
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.publish(publisher, 0..<2, qos: .exactlyOnce)
        cluster.saveLogPositions()
        // The client has received what has identifiers 3 and 4, and does not learn that it may release them.
        client.acknowledgement = .withoutPubcomp
        cluster.publish(publisher, 2..<4, qos: .exactlyOnce)
        #expect(client.messages.suffix(2).map(\.packetIdentifier) == [3, 4])
        cluster.lose(0)
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        if restarts {
            cluster.crash(1, committing: 100)
            cluster.connect(client, to: 1)
        }
        #expect(client.connack?.sessionPresent == true)
        cluster.publish(publisher, 4..<9, qos: .exactlyOnce)
        #expect(client.texts == texts(0..<9) && client.unreleased.isEmpty)
        #expect(client.messages.suffix(5).contains { $0.packetIdentifier == 3 || $0.packetIdentifier == 4 })
    }

    @Test func `places stay before a message that is not done, whatever is done behind it`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.acknowledgement = .manual
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.publish(publisher, 0..<4)
        cluster.saveLogPositions()
        for packet in client.publishes.dropFirst() { client.acknowledge(.puback, packet.packetIdentifier ?? 0) }
        cluster.publish(publisher, 4..<6)
        cluster.saveLogPositions()
        cluster.saveLogPositions()
        cluster.lose(0)
        let again = cluster.connected("client", on: 1)
        #expect(again.texts.contains("0") && again.texts.suffix(2) == ["4", "5"])
    }

    @Test func `SUBACK and UNSUBACK of share groups wait until the cluster has stored what they say`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0)
        cluster.storesSaves = false
        client.subscribe("$share/g/a", qos: .atLeastOnce)
        cluster.run()
        #expect(client.subscriptionAnswers == [0, 0])
        // One is under way at a time.
        let count = cluster.savedCount
        client.subscribe("$share/g/b", qos: .atLeastOnce)
        client.unsubscribe("$share/g/b")
        cluster.run()
        #expect(cluster.savedCount == count)
        cluster.storeSaves()
        #expect(client.subscriptionAnswers == [2, 1])
        #expect(cluster.savedCount == count + 1)
    }

    @Test func `SUBACK and UNSUBACK wait for the log, and no record is written for them`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0)
        let count = cluster.savedCount
        cluster.logs = false
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        client.subscribe("b", qos: .atLeastOnce)
        client.unsubscribe("a")
        cluster.run()
        #expect(client.subscriptionAnswers == [0, 0])
        cluster.logs = true
        cluster.run()
        #expect(client.subscriptionAnswers == [2, 1] && cluster.savedCount == count)
        // The record has it with the next positions, once.
        cluster.saveLogPositions()
        #expect(cluster.savedCount == count + 1)
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<2, topic: "b")
        #expect(client.texts == texts(0..<2))
    }

    @Test func `what the log does not take of a subscription waits for the record`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0)
        (cluster.logs, cluster.storesSaves) = (false, false)
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        cluster.collect()
        cluster.loseUnlogged()
        cluster.core(0, name).received(.logFailed(through: .max >> 1, FailedBatches(partitions: .max, isRefused: true)))
        cluster.run()
        #expect(client.subscriptionAnswers == [0, 0] && client.isConnected)
        cluster.storeSaves()
        #expect(client.subscriptionAnswers == [1, 0])
        cluster.logs = true
        cluster.lose(0)
        let again = cluster.connected("client", on: 1)
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<2)
        #expect(again.texts == texts(0..<2))
    }

    @Test(arguments: [1, 3], [false, true])
    func `subscriptions that are acknowledged are there when the node and its record of them are gone`(
        shards: Int, remembers: Bool
    ) {
        let cluster = MovingCluster(nodes: 3, shards: shards)
        cluster.remembersProgress = remembers
        let client = cluster.lasting("client", on: 0)
        let publisher = cluster.lasting("publisher", on: 1)
        // Of all that follows nothing comes into the record.
        cluster.storesSaves = false
        for filter in ["a", "b/#", "c"] as [TopicFilter] { client.subscribe(filter, qos: .atLeastOnce) }
        client.unsubscribe("c")
        cluster.run()
        #expect(client.subscriptionAnswers == [3, 1])
        cluster.publish(publisher, 0..<3)
        // The log says that these are done, which stands behind the subscriptions.
        for _ in 0..<2 { cluster.saveLogPositions() }
        client.unsubscribe("b/#")
        client.subscribe("d", qos: .exactlyOnce)
        cluster.run()
        cluster.publish(publisher, 3..<5)
        cluster.lose(0)
        cluster.storesSaves = true
        let again = cluster.connected("client", on: 2)
        #expect(again.connack?.sessionPresent == true && again.texts == texts(3..<5))
        for (number, topic) in (["a", "b/x", "c", "d"] as [EncodedString]).enumerated() {
            cluster.publish(publisher, 5 + number..<6 + number, topic: topic)
        }
        #expect(again.texts == ["3", "4", "5", "8"])
    }

    @Test func `a node has again what it had put into the log, when the session is lost with the one that had it since`() {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0)
        // Of all that follows nothing comes into the record.
        cluster.storesSaves = false
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        #expect(client.subscriptionAnswers == [1, 0])
        client.lose()
        cluster.connect(client, to: 1)
        cluster.lose(1)
        cluster.storesSaves = true
        cluster.connect(client, to: 0)
        #expect(client.connack?.sessionPresent == true)
        cluster.publish(cluster.lasting("publisher", on: 2), 0..<1)
        #expect(client.texts == ["0"])
    }

    @Test func `SUBACK waits for the record too where that is of an earlier claim, or to have what the log has not`() {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0)
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<2)
        cluster.lose(client)
        cluster.storesSaves = false
        cluster.connect(client, to: 0)
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        #expect(client.isConnected && client.subscriptionAnswers == [0, 0])
        cluster.storeSaves()
        #expect(client.subscriptionAnswers == [1, 0])
        // One packet with both: the record is under way when the log has its part.
        (cluster.logs, cluster.storesSaves) = (false, false)
        client.subscribe(
            (["b", "$share/g/c"] as [TopicFilter]).map {
                Subscription(filter: $0, options: SubscriptionOptions(maximumQoS: .atLeastOnce))
            })
        cluster.run()
        cluster.logs = true
        cluster.run()
        #expect(client.subscriptionAnswers == [1, 0])
        cluster.storeSaves()
        #expect(client.subscriptionAnswers == [2, 0])
        // By the new subscription nothing comes that was published before it.
        cluster.lose(0)
        let again = cluster.connected("client", on: 2)
        #expect(again.connack?.sessionPresent == true && again.texts.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a session that has moved, or was about to, is where it was though its queue is not done`(stays: Bool) {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0, "a")
        let publisher = cluster.lasting("publisher", on: 2)
        // Of all that the client does before it moves nothing comes into the record.
        cluster.storesSaves = false
        cluster.publish(publisher, 0..<3)
        cluster.publish(publisher, 3..<5, topic: "b")
        cluster.saveLogPositions()
        client.acknowledgement = .manual
        cluster.publish(publisher, 5..<6)
        (cluster.storesSaves, cluster.unstored) = (true, [])
        if stays {
            cluster.core(0, name).received(.sessionLeaves(name))
            cluster.nodes[0].settle()
            cluster.core(0, name).received(.sessionStays(name))
            cluster.run()
        }
        cluster.connect(client, to: stays ? 0 : 1)
        client.subscribe("b", qos: .atLeastOnce)
        cluster.run()
        #expect(client.subscriptionAnswers == [2, 0])
        cluster.lose(stays ? 0 : 1)
        let again = cluster.connected("client", on: 2)
        #expect(again.connack?.sessionPresent == true && again.texts == ["5"])
    }

    @Test func `a subscription that the log has alone is there, though its session was about to move`() {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0)
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.saveLogPositions()
        cluster.storesSaves = false
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        // The session has done all up to behind its subscription, and the log does not say so.
        cluster.publish(publisher, 0..<1, topic: "b")
        cluster.saveLogPositions()
        cluster.core(0, name).received(.sessionLeaves(name))
        cluster.nodes[0].settle()
        cluster.core(0, name).received(.sessionStays(name))
        cluster.run()
        cluster.publish(publisher, 0..<2)
        cluster.saveLogPositions()
        (cluster.storesSaves, cluster.unstored) = (true, [])
        cluster.lose(0)
        let again = cluster.connected("client", on: 1)
        #expect(again.connack?.sessionPresent == true && again.texts == texts(0..<2))
    }

    @Test(arguments: [false, true]) func `what the servers have lost of subscriptions is in the record`(isOtherStream: Bool) {
        let cluster = MovingCluster()
        cluster.lasting("client", on: 0, "a", qos: .atLeastOnce)
        let count = cluster.savedCount
        let core = cluster.core(0, name)
        core.received(isOtherStream ? .logBegins(0, after: LogPositions.Place(sequence: 0, stream: 6)) : .logIsCut(0, at: 0))
        cluster.nodes[0].settle()
        cluster.collect()
        #expect(cluster.savedCount == count + 1)
        core.received(.logIsCut(0, at: 0))
        cluster.nodes[0].settle()
        cluster.collect()
        #expect(cluster.savedCount == count + 1)
    }

    @Test func `while the log has no room, SUBACK waits for the record`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0)
        cluster.core(0, name).received(.logLacksRoom(1))
        let (records, saved) = (cluster.records.count, cluster.savedCount)
        cluster.storesSaves = false
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        #expect(client.subscriptionAnswers == [0, 0] && cluster.records.count == records && cluster.savedCount == saved + 1)
        cluster.storeSaves()
        #expect(client.subscriptionAnswers == [1, 0])
    }

    @Test func `a subscription of an earlier session of the client does not come back`() {
        let cluster = MovingCluster(nodes: 3)
        let client = cluster.lasting("client", on: 0)
        cluster.storesSaves = false
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        client.lose()
        cluster.storesSaves = true
        cluster.connect(client, to: 1, clean: true)
        client.subscribe("b", qos: .atLeastOnce)
        cluster.run()
        cluster.lose(1)
        let again = cluster.connected("client", on: 2)
        #expect(again.connack?.sessionPresent == true)
        let publisher = cluster.lasting("publisher", on: 2)
        cluster.publish(publisher, 0..<1)
        cluster.publish(publisher, 1..<2, topic: "b")
        #expect(again.texts == ["1"])
    }

    @Test func `CONNACK of a new session waits for the cluster, one of a session that is known or that ends does not`() {
        let cluster = MovingCluster()
        cluster.storesSaves = false
        let client = cluster.connected("client", on: 0)
        #expect(client.connack == nil)
        cluster.storeSaves()
        #expect(client.connack?.sessionPresent == false)
        client.lose()
        cluster.storesSaves = false
        cluster.connect(client, to: 0)
        #expect(client.connack?.sessionPresent == true)
        let passing = cluster.connected("passing", on: 0, clean: true, expiry: 0)
        #expect(passing.connack != nil)
        // Another expiry is stored first, none as well.
        for expiry: UInt32 in [2000, 0] {
            client.lose()
            cluster.storesSaves = false
            cluster.connect(client, to: 0, expiry: expiry)
            #expect(client.connack == nil)
            cluster.storeSaves()
            #expect(client.connack?.sessionPresent == true)
        }
        #expect(cluster.saved[name] == nil)
    }

    @Test(arguments: [0, 1000] as [UInt32]) func `nothing comes back of a session that ended with Clean Start`(expiry: UInt32) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        cluster.connect(client, to: 0, clean: true, expiry: expiry)
        #expect(client.isConnected)
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<3)
        cluster.lose(0)
        let again = cluster.connected("client", on: 1)
        #expect(again.connack?.sessionPresent == (expiry > 0))
        #expect(again.texts.isEmpty)
    }

    // MARK: Wills

    private func will(_ text: String, delay: UInt32 = 0) -> Will {
        var will = Will(topic: "will", payload: Array(text.utf8), qos: .atLeastOnce)
        will.properties.willDelayInterval = delay
        return will
    }

    private let name = Array("client".utf8)

    @Test(arguments: [0, 1000] as [UInt32]) func `CONNACK of a client with a will waits until the cluster has that`(expiry: UInt32)
    {
        let cluster = MovingCluster()
        let client = cluster.nodes[0].client("client")
        cluster.storesSaves = false
        cluster.connect(client, to: 0, clean: expiry == 0, expiry: expiry, will: will("1"))
        #expect(client.connack == nil)
        cluster.storeSaves()
        #expect(client.connack != nil)
        #expect(cluster.wills[name]?.withMessage { Array($0.payload) } == [49] && cluster.awaySince[name] == 0)
        let first = cluster.wills[name]?.name
        // The next connection has a will of its own.
        cluster.lose(client)
        cluster.storesSaves = false
        cluster.connect(client, to: 0, clean: expiry == 0, expiry: expiry, will: will("2"))
        #expect(client.connack == nil)
        cluster.storeSaves()
        #expect(cluster.wills[name]?.withMessage { Array($0.payload) } == [50] && cluster.wills[name]?.name != first)
    }

    @Test func `a will is out of the record when it was published, or taken back by DISCONNECT`() {
        let cluster = MovingCluster()
        let listener = cluster.lasting("listener", on: 1, "will")
        let client = cluster.connected("client", on: 0, will: will("1"))
        cluster.lose(client)
        #expect(listener.texts == ["1"] && cluster.wills[name] == nil && cluster.awaySince[name] ?? 0 > 0)
        cluster.connect(client, to: 0, will: will("2"))
        client.disconnect()
        cluster.run()
        #expect(listener.texts == ["1"] && cluster.wills[name] == nil && cluster.awaySince[name] ?? 0 > 0)
        // One that waits stays there.
        cluster.connect(client, to: 0, will: will("3", delay: 5))
        cluster.lose(client)
        #expect(cluster.wills[name]?.delayInterval == 5 && cluster.awaySince[name] ?? 0 > 0)
        cluster.nodes[0].advance(seconds: 6)
        cluster.run()
        #expect(listener.texts == ["1", "3"] && cluster.wills[name] == nil)
    }

    @Test func `the will of a session that ends is given before the end of it is told`() {
        let cluster = MovingCluster()
        let listener = cluster.lasting("listener", on: 1, "will")
        let passing = cluster.nodes[0].connected("passing")
        passing.subscribe("will", qos: .atLeastOnce)
        cluster.run()
        let client = cluster.connected("client", on: 0, clean: true, expiry: 0, will: will("1", delay: 60))
        cluster.lose(client)
        #expect(listener.texts == ["1"] && passing.texts == ["1"] && cluster.ended == [name])
        #expect(cluster.dueWills.map(\.identifier) == [name])
    }

    @Test(arguments: [true, false]) func `a node that was started again does not say whether its sessions' wills are due`(
        isElsewhere: Bool
    ) {
        let cluster = MovingCluster()
        let listener = cluster.lasting("listener", on: 1, "will")
        cluster.connected("client", on: 0, will: will("1"))
        let given = cluster.wills[name]?.name
        cluster.crash(0, committing: 100)
        cluster.run()
        cluster.nodes[0].advance(seconds: 1)
        cluster.run()
        #expect(cluster.woken.map(\.identifier) == [name] && cluster.dueWills.isEmpty)
        // It asks until it is told.
        cluster.nodes[0].advance(seconds: 6)
        cluster.run()
        #expect(cluster.woken.count == 2)
        let core = cluster.core(0, name)
        if isElsewhere {
            core.received(.sessionIsElsewhere(name))
        } else {
            core.received(.sessionAssumed(name, epoch: 77, from: 0))
            cluster.nodes[0].advance(seconds: 6)
        }
        cluster.run()
        cluster.nodes[0].advance(seconds: 6)
        cluster.run()
        #expect(cluster.woken.count == 2 && cluster.adoptions.map(\.will) == (isElsewhere ? [] : [given]))
        // By the name that it had: who has published it for this node meanwhile did so by the same.
        #expect(cluster.dueWills.map(\.will.name) == (isElsewhere ? [] : [given]) && listener.texts == (isElsewhere ? [] : ["1"]))
    }

    @Test func `a session whose will was seen to elsewhere stays with its queue`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        cluster.connect(client, to: 0, will: will("1", delay: 2))
        client.lose()
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<3)
        cluster.crash(0, committing: 100)
        for seconds: UInt64 in [3, 7] {
            cluster.nodes[0].advance(seconds: seconds)
            cluster.run()
            #expect(cluster.woken.map(\.identifier) == [name])
            cluster.core(0, name).received(.sessionWillIsElsewhere(name))
        }
        cluster.connect(client, to: 0)
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<3))
        #expect(cluster.dueWills.isEmpty)
    }

    @Test func `what a node has of a session counts if nobody has kept it since, and is its own if the cluster has lost all`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, expiry: 5, will: will("1"))
        cluster.crash(0, committing: 100)
        let core = cluster.core(0, name)
        core.received(.sessionAssumed(name, epoch: 77, from: 5))
        cluster.run()
        #expect(cluster.adoptions.map(\.isHere) == [false])
        core.received(.sessionAssumed(Array("nobody".utf8), epoch: 1, from: 0))
        cluster.run()
        #expect(cluster.adoptions.map(\.isHere) == [false, false])
        core.received(.sessionIsUnknown(name))
        cluster.nodes[0].advance(seconds: 6)
        cluster.run()
        // As on a broker that is alone.
        #expect(cluster.dueWills.isEmpty && cluster.woken.isEmpty)
        cluster.connect(client, to: 0, expiry: 5)
        #expect(client.connack?.sessionPresent == false)
    }

    @Test func `the cluster is told of a will that is not to be published any more`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, will: will("1"))
        var given = [cluster.wills[name]?.name]
        client.disconnect()
        cluster.run()
        #expect(cluster.endedWills == given)
        // Its client is back before the delay is over, and begins anew.
        for clean in [false, true] {
            cluster.connect(client, to: 0, clean: clean, will: will("2", delay: 60))
            given.append(cluster.wills[name]?.name)
            client.lose()
        }
        cluster.connect(client, to: 0)
        #expect(cluster.endedWills == given && cluster.dueWills.isEmpty)
        // One that is due is none of them.
        cluster.connect(client, to: 0, will: will("3"))
        cluster.lose(client)
        #expect(cluster.endedWills == given && cluster.dueWills.count == 1)
    }

    @Test func `a client that has stayed without a lease is asked for, and has its session by the new claim`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, will: will("1"))
        let away = cluster.lasting("away", on: 0)
        away.lose()
        _ = cluster.nodes[0].connected("unclaimed")
        let given = cluster.wills[name]?.name
        let core = cluster.core(0, name)
        core.received(.leaseBegins)
        cluster.run()
        #expect(cluster.woken.map(\.identifier) == [name])
        cluster.sessions[name]?.epoch = 77
        core.received(.sessionAssumed(name, epoch: 77, from: 0))
        cluster.run()
        // Others may have published the will by its earlier name.
        #expect(cluster.adoptions.map(\.will) == [given] && cluster.wills[name]?.name.epoch == 77)
        client.subscribe("a", qos: .atLeastOnce)
        cluster.run()
        #expect(client.subscriptionAnswers == [1, 0] && client.isConnected)
        cluster.lose(client)
        #expect(cluster.dueWills.map(\.will.name.epoch) == [77])
    }

    @Test func `clients that are fenced leave their wills to whoever keeps their sessions next`() {
        let cluster = MovingCluster()
        for (client, expiry) in [("client", 1000), ("passing", 0)] as [(EncodedString, UInt32)] {
            cluster.connect(cluster.nodes[0].client(client), to: 0, clean: expiry == 0, expiry: expiry, will: will("1", delay: 3))
        }
        let ends = cluster.ended.count
        cluster.core(0, name).received(.fenceClients("the lease has ended"))
        cluster.run()
        cluster.nodes[0].advance(seconds: 4)
        cluster.run()
        // That of the session that has ended nobody takes who keeps no sessions; its record stays.
        #expect(cluster.ended.count == ends && cluster.woken.map(\.identifier) == [name])
        #expect(cluster.wills[name] != nil && cluster.wills[Array("passing".utf8)] != nil)
    }

    @Test(arguments: Seeds.parts(40, perPart: 10))
    func `nothing acknowledged is missing, whichever nodes are lost`(seeds: ClosedRange<UInt64>) {
        for seed in seeds { loseNodes(seed: seed) }
    }

    private func loseNodes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let cluster = MovingCluster(nodes: 4)
        var client = cluster.lasting("client", on: 0, "a")
        let publisher = cluster.lasting("publisher", on: 3)
        var (at, next, seen) = (0, 0, Set<String>())
        for node in [1, 2] {
            for _ in 0..<10 {
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    client.lose()
                case 1:
                    if !client.isConnected { cluster.connect(client, to: at) }
                case 2:
                    cluster.saveLogPositions()
                default:
                    cluster.publish(publisher, next..<next + 3)
                    next += 3
                }
            }
            seen.formUnion(client.texts)
            cluster.lose(at)
            at = node
            client = cluster.nodes[at].client("client")
            cluster.connect(client, to: at)
            #expect(client.connack?.sessionPresent == true, "\(Seeds.replay(seed))")
        }
        seen.formUnion(client.texts)
        #expect(seen == Set(texts(0..<next)), "\(Seeds.replay(seed))")
    }
}
