import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// A session that moves between two nodes with all that is in it.
@Suite struct SessionMoveTests {
    @Test func `a client whose claim is not answered is not let in because its session has all that it lacked`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        let publisher = cluster.lasting("publisher", on: 1)
        let name = Array("client".utf8)
        let core = cluster.core(0, name)
        // Another node has asked for it, and lets it stay; its client is back before.
        core.received(.sessionLeaves(name))
        cluster.nodes[0].settle()
        cluster.publish(publisher, 0..<3)
        cluster.connect(publisher, to: 1)
        client.connectionIsGone()
        client.connect(clean: false, expiry: 1000)
        core.received(.sessionStays(name))
        cluster.nodes[0].settle()
        cluster.replay(name, at: 0)
        #expect(client.connack == nil)
        let restored = cluster.nodes[0].clusterNotes.contains { if case .restored = $0.note { true } else { false } }
        #expect(!restored)
        cluster.run()
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<3))
    }

    @Test func `a session that ends while its client's next connection waits for it is not given up`() {
        let cluster = MovingCluster()
        let passing = cluster.connected("client", on: 0, clean: true, expiry: 0)
        let next = cluster.nodes[0].client("client")
        next.connect(clean: false, expiry: 1000)
        passing.disconnect()
        cluster.run()
        #expect(next.connack?.sessionPresent == false)
        #expect(cluster.ended.isEmpty)
        #expect(cluster.sessions[Array("client".utf8)]?.owners == [0])
        // Its connection that has gone in vain leaves nothing.
        next.disconnect(expiry: 0)
        cluster.run()
        #expect(cluster.ended.count == 1)
    }

    @Test(arguments: [1, 3], [false, true])
    func `what a share group dispatches to its only member while that moves is given on, or to it if it stays`(
        shards: Int, stays: Bool
    ) {
        let cluster = MovingCluster(shards: shards)
        let client = cluster.lasting("client", on: 0, "$share/g/a")
        let publisher = cluster.lasting("publisher", on: 0)
        let (node, name) = (cluster.nodes[0], Array("client".utf8))
        let core = cluster.core(0, name)
        client.lose()
        publisher.publish("a", "0", qos: .atLeastOnce)
        let count = node.clusterNotes.count
        core.received(.sessionLeaves(name))
        node.settle()
        publisher.publish("a", "1", qos: .atLeastOnce)
        for (_, note) in node.clusterNotes.dropFirst(count) {
            if case .group(_, _, let connected, let away, _) = note { #expect(connected + away > 0) }
        }
        guard !stays else {
            core.received(.sessionStays(name))
            node.settle()
            cluster.connect(client, to: 0)
            #expect(client.texts == ["0", "1"])
            return
        }
        for core in node.cores {
            core.received(
                .group(
                    ClusterGroup(
                        node: 7, number: 3, shareName: Array("g".utf8), filter: Array("a".utf8), connected: 1, away: 0)))
        }
        core.received(.sessionGone(name))
        node.settle()
        var given: [String] = []
        for case (_, .messages(let batch)) in node.clusterNotes {
            batch.forEachMessage { message in
                guard let dispatch = message.dispatch, dispatch.hops > 0 else { return }
                given.append("\(String(decoding: message.payload, as: UTF8.self)) \(dispatch.shares.map(\.node))")
            }
        }
        #expect(given == ["1 [7]"])
    }

    /// A member of a share group on node 0 that has one message of two, and has not acknowledged it.
    private func halfSent() -> (MovingCluster, client: TestClient) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "$share/g/a", receiveMaximum: 1)
        client.acknowledgement = .manual
        let publisher = cluster.lasting("publisher", on: 0)
        for text in ["0", "1"] { publisher.publish("a", text, qos: .atLeastOnce) }
        return (cluster, client)
    }

    @Test(arguments: [false, true])
    func `who has left messages to another, or has got some, leaves when the store knows it`(hasGot: Bool) {
        let (cluster, client) = halfSent()
        let node = cluster.nodes[0]
        let other = cluster.lasting("other", on: 0, "$share/g/a")
        node.store?.mode = .paused
        client.lose()
        #expect(other.texts == ["0", "1"])
        let name = Array((hasGot ? "other" : "client").utf8)
        let count = node.clusterNotes.count
        func hasLeft() -> Bool { node.clusterNotes.dropFirst(count).contains { if case .leaving = $0.1 { true } else { false } } }
        cluster.core(0, name).received(.sessionLeaves(name))
        node.settle()
        #expect(!hasLeft())
        node.store?.mode = .prompt
        node.advance(milliseconds: 100)
        #expect(hasLeft())
    }

    @Test(arguments: [0, 1000] as [UInt32]) func `what is remembered of messages that were passed on ends with the sessions`(
        expiry: UInt32
    ) {
        let (cluster, client) = halfSent()
        let node = cluster.nodes[0]
        let other = node.client("other")
        cluster.connect(other, to: 0, clean: true, expiry: expiry)
        other.subscribe("$share/g/a", qos: .atLeastOnce)
        client.lose()
        #expect(other.texts == ["0", "1"])
        #expect(node.cores[0].sessions.all.contains { $0.passedOnUntil != nil })
        other.disconnect(expiry: expiry == 0 ? nil : 0)
        cluster.connect(client, to: 0)
        client.disconnect(expiry: 0)
        cluster.run()
        #expect(!node.cores[0].sessions.all.contains { $0.passedOnUntil != nil })
    }

    @Test(arguments: [1, 3]) func `a session is found on another node with its subscriptions and its queue`(shards: Int) {
        let cluster = MovingCluster(shards: shards)
        let client = cluster.lasting("client", on: 0, "a")
        client.subscribe("b/#", qos: .atLeastOnce)
        client.lose()
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.publish(publisher, 0..<20)
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == true)
        cluster.publish(publisher, 20..<25)
        publisher.publish("b/c", "other", qos: .atLeastOnce)
        cluster.run()
        #expect(client.texts == texts(0..<25) + ["other"])
        #expect(client.messages.allSatisfy { !$0.duplicate })
        // Nothing of it is left where it was.
        #expect(cluster.nodes[0].cores.allSatisfy { $0.currentStatistics().subscriptions == 0 })
        #expect(cluster.nodes[0].store?.rows[.entry]?.isEmpty ?? true)
        #expect(cluster.nodes[0].store?.rows[.subscription]?.isEmpty ?? true)
        #expect(cluster.nodes[0].store?.rows[.session]?.isEmpty ?? true)
    }

    @Test func `its client's older connection ends with Session taken over`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        let again = cluster.connected("client", on: 1)
        #expect(!client.isConnected && client.disconnectReason == .sessionTakenOver)
        #expect(again.isConnected && again.connack?.sessionPresent == true)
        cluster.publish(cluster.lasting("publisher", on: 0), 0..<3)
        #expect(again.texts == texts(0..<3) && client.texts == [])
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce]) func `what was sent and not acknowledged is sent again with DUP`(qos: QoS) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.acknowledgement = .manual
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<5, qos: qos)
        let identifiers = client.publishes.map(\.packetIdentifier)
        #expect(identifiers.count == 5)
        let again = cluster.nodes[1].client("client")
        again.acknowledgement = .manual
        cluster.connect(again, to: 1)
        #expect(again.publishes.map(\.packetIdentifier) == identifiers)
        #expect(again.publishes.allSatisfy(\.duplicate) && again.texts == texts(0..<5))
    }

    @Test(arguments: 0...3) func `a QoS 2 message to the client is taken once, whichever step it had come to`(step: Int) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.acknowledgement = .manual
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<2, qos: .exactlyOnce)
        guard let first = client.publishes.first?.packetIdentifier else { return #expect(Bool(false), "nothing came") }
        if step > 0 { client.acknowledge(.pubrec, first) }
        if step > 1 { client.acknowledge(.pubcomp, first) }
        if step > 2 { for packet in client.publishes { client.acknowledge(.pubrec, packet.packetIdentifier ?? 0) } }
        client.lose()
        client.acknowledgement = .automatic
        cluster.connect(client, to: 1)
        let sent = client.publishesOfConnection.map { String(decoding: $0.payload, as: UTF8.self) }
        #expect(sent == [["0", "1"], ["1"], ["1"], []][step])
        #expect(client.acknowledgements(.pubrel).count == [2, 2, 1, 1][step])
        #expect(client.texts == ["0", "1"])
    }

    @Test(arguments: [PublishStep.sent, .answered, .complete]) func `a QoS 2 message of the client is taken once`(step: PublishStep)
    {
        let cluster = MovingCluster()
        let receiver = cluster.lasting("receiver", on: 1, "a")
        let client = cluster.lasting("client", on: 0)
        client.publish("a", "1", qos: .exactlyOnce, until: step)
        cluster.nodes[0].settle()
        if step != .sent { cluster.log() }
        client.lose()
        cluster.connect(client, to: 1)
        client.resend()
        cluster.run()
        #expect(client.unfinished == [] && receiver.texts == ["1"])
        // The identifier is free.
        client.publish("a", "2", qos: .exactlyOnce)
        cluster.run()
        #expect(receiver.texts == ["1", "2"])
    }

    @Test func `a session waits with leaving until its client's QoS 2 messages are in the log, but not for ever`() {
        for isLogged in [true, false] {
            let cluster = MovingCluster()
            let receiver = cluster.lasting("receiver", on: 1, "a")
            let client = cluster.lasting("client", on: 0)
            cluster.logs = false
            client.publish("a", "1", qos: .exactlyOnce)
            client.lose()
            client.comeBack(to: cluster.nodes[1])
            cluster.run()
            #expect(client.connack == nil && cluster.pieceCount == 0)
            if isLogged { cluster.log() } else { cluster.loseUnlogged() }
            cluster.nodes[0].advance(seconds: 11)
            cluster.logs = true
            cluster.run()
            #expect(client.connack?.sessionPresent == true)
            client.resend()
            cluster.run()
            #expect(client.unfinished == [] && receiver.texts == ["1"])
        }
    }

    @Test func `a long queue moves in chunks, and memory holds little of it`() {
        let cluster = MovingCluster {
            $0.queuedMessagesMax = 0
            ($0.residentMessagesMax, $0.residentBytesMax) = (20, 100_000)
        }
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        let publisher = cluster.lasting("publisher", on: 1)
        let filler = String(repeating: "x", count: 2000)
        for number in 0..<600 { publisher.publish("a", "\(number) \(filler)", qos: .atLeastOnce) }
        cluster.run()
        cluster.connect(client, to: 1)
        #expect(cluster.pieceCount > 3)
        #expect(client.texts.map { String($0.prefix { $0 != " " }) } == texts(0..<600))
        #expect(client.messages.allSatisfy { !$0.duplicate })
        #expect(cluster.nodes[0].store?.rows[.entry]?.isEmpty ?? true)
    }

    @Test(arguments: [0, 1, 2, 4, 7, 12])
    func `a purge by topic ends when its session moves, which takes along what stays`(steps: Int) {
        let cluster = MovingCluster {
            $0.queuedMessagesMax = 0
            $0.residentMessagesMax = 4
        }
        let client = cluster.lasting("client", on: 0, "#")
        client.lose()
        let publisher = cluster.lasting("publisher", on: 1)
        for number in 0..<150 { publisher.publish(number % 2 == 0 ? "a" : "b", "\(number)", qos: .atLeastOnce) }
        cluster.run()
        let node = cluster.nodes[0]
        #expect(node.cores[0].perform(ShardCommand(.purgeQueue(of: "client", matching: "b"))))
        for _ in 0..<steps { node.stepOnce() }
        cluster.connect(client, to: 1)
        let removed: Int
        let results = node.takeOutcomes(of: 0).map(\.result)
        switch results.first {
        case .removed(let count)?, .removedInPart(let count, .moving)?: removed = count
        default: return #expect(Bool(false), "\(results)")
        }
        let numbers = client.texts.compactMap { Int($0) }
        #expect(numbers == numbers.sorted() && numbers.filter { $0 % 2 == 0 } == (0..<150).filter { $0 % 2 == 0 })
        #expect(numbers.count { $0 % 2 == 1 } + removed == 75)
        #expect(cluster.nodes[0].store?.rows[.entry]?.isEmpty ?? true)
    }

    @Test func `messages that several queues of the old node share move too`() {
        let cluster = MovingCluster { $0.residentMessagesMax = 2 }
        let clients = ["one", "two"].map { cluster.lasting($0, on: 0, "a") }
        for client in clients { client.lose() }
        let filler = String(repeating: "x", count: 500)
        let publisher = cluster.lasting("publisher", on: 1)
        for number in 0..<10 { publisher.publish("a", "\(number)\(filler)", qos: .atLeastOnce) }
        cluster.run()
        for client in clients {
            cluster.connect(client, to: 1)
            #expect(client.texts == texts(0..<10).map { $0 + filler })
        }
        #expect(cluster.nodes[0].store?.rows[.message]?.isEmpty ?? true)
    }

    @Test func `what the new node has read is replayed, and what it has not comes as it is read`() {
        // Who reads the log before the session moves, and how far.
        for (old, new) in [(5, 10), (10, 5), (7, 7), (0, 10), (10, 0)] {
            let cluster = MovingCluster()
            let client = cluster.lasting("client", on: 0, "a")
            client.lose()
            let start = cluster.records.count
            cluster.readers = []
            cluster.publish(cluster.lasting("publisher", on: 1), 0..<10)
            #expect(cluster.records.count == start + 10)
            cluster.read(0, through: start + old)
            cluster.read(1, through: start + new)
            cluster.connect(client, to: 1)
            #expect(client.connack?.sessionPresent == true)
            #expect(client.texts == texts(0..<max(old, new)), "\(old) \(new)")
            #expect(cluster.replayedCount == max(0, new - old))
            cluster.readers = [0, 1]
            cluster.run()
            #expect(client.texts == texts(0..<10), "\(old) \(new)")
        }
    }

    @Test(arguments: [false, true]) func `what comes while a session is replayed waits for its end`(isMuch: Bool) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.readers = []
        cluster.publish(publisher, 0..<6)
        cluster.read(1)
        cluster.replays = false
        client.comeBack(to: cluster.nodes[1])
        cluster.run()
        #expect(client.connack == nil)
        cluster.replay(Array("client".utf8), at: 1, countMax: 2)
        cluster.readers = [1]
        if isMuch {
            let large = String(repeating: "x", count: 1 << 20)
            for _ in 0..<5 { publisher.publish("a", large, qos: .atLeastOnce) }
        }
        cluster.publish(publisher, 6..<9)
        #expect(client.connack == nil)
        cluster.replays = true
        cluster.replay(Array("client".utf8), at: 1)
        cluster.run()
        #expect(client.connack?.sessionPresent == true)
        #expect(client.texts.filter { $0.utf8.count < 10 } == texts(0..<9))
        #expect(client.texts.count == (isMuch ? 14 : 9))
    }

    @Test(arguments: 0..<12) func `a replay that a crash interrupts goes on where it was`(committing: Int) {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        cluster.readers = []
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<12)
        cluster.read(1)
        cluster.replays = false
        client.comeBack(to: cluster.nodes[1])
        cluster.run()
        #expect(client.connack == nil)
        cluster.replay(Array("client".utf8), at: 1, countMax: committing)
        cluster.crash(1)
        cluster.replays = true
        cluster.readers = [0, 1]
        cluster.connect(client, to: 1)
        cluster.run()
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<12))
        #expect(cluster.replayedCount <= 12 + 3)
    }

    @Test func `with clean start nothing moves, and the old session ends`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<3)
        let again = cluster.connected("client", on: 1, clean: true)
        #expect(again.connack?.sessionPresent == false && client.disconnectReason == .sessionTakenOver)
        cluster.publish(cluster.lasting("other", on: 0), 3..<5)
        #expect(again.texts == [])
        #expect(cluster.nodes[0].store?.rows[.session]?.count == 1, "that of the other client")
    }

    @Test func `a session that ends with its connection ends on the node where it was`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, expiry: 0)
        client.subscribe("a")
        let again = cluster.connected("client", on: 1, expiry: 0)
        #expect(client.disconnectReason == .sessionTakenOver && again.connack?.sessionPresent == false && again.isConnected)
        again.disconnect()
        cluster.run()
        #expect(cluster.ended == [Array("client".utf8)])
    }

    @Test func `a session that expires on one node is told, and is new on the other`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, expiry: 10)
        client.subscribe("a", qos: .atLeastOnce)
        client.lose()
        cluster.nodes[0].advance(seconds: 11)
        cluster.run()
        #expect(cluster.ended == [Array("client".utf8)])
        cluster.connect(client, to: 1)
        #expect(client.connack?.sessionPresent == false)
    }

    @Test func `the time that a session has left moves with it`() {
        let cluster = MovingCluster()
        let client = cluster.connected("client", on: 0, expiry: 100)
        client.lose()
        for node in cluster.nodes { node.advance(seconds: 60) }
        // Its client gives up before it is let in.
        client.broker = cluster.nodes[1]
        client.connect(clean: false, expiry: 100)
        cluster.lose(client)
        #expect(cluster.sessions[Array("client".utf8)]?.owners == [1] && cluster.ended == [])
        cluster.nodes[1].advance(seconds: 39)
        cluster.run()
        #expect(cluster.ended == [])
        cluster.nodes[1].advance(seconds: 2)
        cluster.run()
        #expect(cluster.ended == [Array("client".utf8)])
    }

    @Test func `a crash of the new node leaves nothing half, and the old one gives the session again`() {
        for committing in 0..<8 {
            let cluster = MovingCluster { $0.residentMessagesMax = 10 }
            let client = cluster.lasting("client", on: 0, "a")
            client.lose()
            let filler = String(repeating: "x", count: 20_000)
            let publisher = cluster.lasting("publisher", on: 1)
            for number in 0..<40 { publisher.publish("a", "\(number) \(filler)", qos: .atLeastOnce) }
            cluster.run()
            client.comeBack(to: cluster.nodes[1])
            for _ in 0..<committing { cluster.step() }
            cluster.crash(1)
            cluster.connect(client, to: 1)
            #expect(client.connack?.sessionPresent == true)
            #expect(client.texts.map { String($0.prefix { $0 != " " }) } == texts(0..<40), "\(committing)")
        }
    }

    @Test func `a crash of the old node before it has forgotten the session does no harm`() {
        for steps in 0..<8 {
            let cluster = MovingCluster()
            let client = cluster.lasting("client", on: 0, "a")
            client.lose()
            cluster.publish(cluster.lasting("publisher", on: 1), 0..<5)
            client.comeBack(to: cluster.nodes[1])
            for _ in 0..<steps { cluster.step() }
            cluster.crash(0)
            cluster.run()
            cluster.askAgain()
            cluster.publish(cluster.lasting("other", on: 1), 5..<8)
            #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<8), "\(steps)")
        }
    }

    /// What it has been given since the first crash, it does not lack at the second.
    @Test func `two crashes of a node that has a session on its way give it nothing twice`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.publish(publisher, 0..<2)
        let identifier = Array("client".utf8)
        cluster.core(0, identifier).received(.sessionLeaves(identifier))
        cluster.nodes[0].settle()
        for numbers in [2..<5, 5..<8] {
            cluster.crash(0)
            cluster.run()
            cluster.publish(publisher, numbers)
        }
        cluster.connect(client, to: 0)
        cluster.run()
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<8))
    }

    @Test func `a session that stays after all has missed nothing`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.subscribe("$share/group/b", qos: .atLeastOnce)
        let publisher = cluster.lasting("publisher", on: 1)
        cluster.publish(publisher, 0..<2)
        let identifier = Array("client".utf8)
        cluster.core(0, identifier).received(.sessionLeaves(identifier))
        cluster.nodes[0].settle()
        #expect(client.disconnectReason == .sessionTakenOver)
        cluster.publish(publisher, 2..<5)
        cluster.core(0, identifier).received(.sessionStays(identifier))
        cluster.run()
        cluster.publish(publisher, 5..<6)
        cluster.connect(client, to: 0)
        cluster.publish(publisher, 6..<7)
        #expect(client.connack?.sessionPresent == true && client.texts == texts(0..<7))
        cluster.nodes[0].connected("local").publish("b", "shared", qos: .atLeastOnce)
        cluster.run()
        #expect(client.texts.last == "shared")
        // Also after a crash: its rows are as they were.
        cluster.crash(0)
        cluster.connect(client, to: 0)
        cluster.publish(publisher, 7..<8)
        #expect(client.connack?.sessionPresent == true && client.texts.last == "7")
    }

    @Test(arguments: [1, 3]) func `memberships of share groups move, with what the groups gave`(shards: Int) {
        let cluster = MovingCluster(shards: shards)
        let client = cluster.lasting("client", on: 0, "$share/group/a", qos: .atLeastOnce)
        client.lose()
        let publisher = cluster.nodes[0].connected("publisher")
        for number in 0..<4 { publisher.publish("a", "\(number)", qos: .atLeastOnce) }
        cluster.run()
        cluster.connect(client, to: 1)
        #expect(client.texts == texts(0..<4))
        let other = cluster.nodes[1].connected("other")
        other.publish("a", "4", qos: .atLeastOnce)
        publisher.publish("a", "nobody's", qos: .atLeastOnce)
        cluster.run()
        #expect(client.texts == texts(0..<5))
    }

    @Test func `a will without delay is published when its client goes to another node, one with delay is not`() {
        for (delay, isPublished) in [(0 as UInt32, true), (5, false)] {
            let cluster = MovingCluster()
            let listener = cluster.lasting("listener", on: 1, "will")
            let client = cluster.nodes[0].client("client")
            var will = Will(topic: "will", payload: [49], qos: .atLeastOnce)
            will.properties.willDelayInterval = delay
            cluster.connect(client, to: 0, will: will)
            cluster.connected("client", on: 1)
            for node in cluster.nodes { node.advance(seconds: 10) }
            cluster.run()
            #expect(listener.texts == (isPublished ? ["1"] : []))
        }
    }

    @Test func `a will that waits goes with the session when its client is not let in`() {
        let cluster = MovingCluster()
        let listener = cluster.lasting("listener", on: 0, "will")
        let client = cluster.nodes[0].client("client")
        var will = Will(topic: "will", payload: [49], qos: .atLeastOnce)
        will.properties.willDelayInterval = 5
        cluster.connect(client, to: 0, will: will)
        client.lose()
        client.comeBack(to: cluster.nodes[1])
        cluster.lose(client)
        cluster.nodes[0].advance(seconds: 6)
        cluster.run()
        #expect(listener.texts == [])
        cluster.nodes[1].advance(seconds: 6)
        cluster.run()
        #expect(listener.texts == ["1"])
    }

    @Test(arguments: 1...40) func `pieces that are damaged leave nothing behind, and do no harm`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.acknowledgement = .withoutPubcomp
        client.subscribe("$share/group/b", qos: .atLeastOnce)
        client.publish("c", "1", qos: .exactlyOnce, until: .answered)
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<3, qos: .exactlyOnce)
        client.lose()
        cluster.publish(cluster.lasting("other", on: 1), 3..<5)
        let identifier = Array("client".utf8)
        cluster.core(0, identifier).received(.sessionLeaves(identifier))
        cluster.nodes[0].settle()
        guard case .leaving(_, let piece)? = cluster.nodes[0].clusterNotes.last?.note else { return #expect(Bool(false)) }
        let core = cluster.core(1, identifier)
        for _ in 0..<20 {
            var damaged = piece
            switch Int.random(in: 0..<3, using: &random) {
            case 0: damaged.bytes.removeLast(Int.random(in: 1..<damaged.bytes.count, using: &random))
            case 1:
                damaged.bytes.insert(.random(in: 0...255, using: &random), at: .random(in: 0..<damaged.bytes.count, using: &random))
            default:
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    damaged.bytes[Int.random(in: 0..<damaged.bytes.count, using: &random)] = .random(in: 0...255, using: &random)
                }
            }
            core.received(.sessionClaimed(identifier, .arriving, epoch: 7))
            core.received(.sessionArrives(identifier, damaged))
            cluster.nodes[1].settle()
            core.received(.sessionGone(identifier))
            cluster.nodes[1].settle()
            #expect(cluster.nodes[1].store?.rows[.session]?.count == 2, "those of the publishers")
            #expect(cluster.nodes[1].store?.rows[.entry]?.isEmpty ?? true)
            #expect(cluster.nodes[1].store?.rows[.received]?.isEmpty ?? true)
        }
    }

    @Test func `of two that claim on one node the newer one comes in`() {
        let cluster = MovingCluster()
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        cluster.publish(cluster.lasting("publisher", on: 1), 0..<2)
        let (first, second) = (cluster.nodes[1].client("client"), cluster.nodes[1].client("client"))
        first.connect(clean: false, expiry: 1000)
        second.connect(clean: false, expiry: 1000)
        cluster.run()
        #expect(first.connack?.reasonCode == .serverUnavailable && !first.isConnected)
        #expect(second.connack?.sessionPresent == true && second.texts == texts(0..<2))
    }

    @Test func `who waits too long, or cannot be told who keeps the session, is refused`() {
        let cluster = MovingCluster()
        let (first, second) = (cluster.nodes[0].client("first"), cluster.nodes[0].client("second", version: .v311))
        for client in [first, second] { client.connect(clean: false) }
        cluster.core(0, Array("second".utf8)).received(.claimFailed(Array("second".utf8), "nobody knows."))
        cluster.nodes[0].settle()
        #expect(second.connack?.returnCode == .serverUnavailable)
        cluster.nodes[0].advance(seconds: 60)
        #expect(first.connack?.reasonCode == .serverUnavailable)
    }

    @Test func `without a cluster, clients come to the sessions that are here`() {
        let cluster = MovingCluster { $0.refusesWithoutCluster = false }
        let client = cluster.lasting("client", on: 0, "a")
        client.lose()
        for core in cluster.nodes[0].cores { core.received(.isAway(true)) }
        client.connect(clean: false, expiry: 1000)
        #expect(client.connack?.sessionPresent == true)
    }
}
