import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// A broker that is a node of a cluster with a log, which the test plays: nothing is in it before `log`, and nobody
/// reads it before `give`.
@Suite struct ClusterLogTests {
    final class Node {
        var broker: SimulatedBroker
        /// What the log has, by number.
        var records: [LogRecord] = []
        var payloads: [[UInt8]] { records.flatMap { record in record.messages.map { Array(record.bytes[$0.payload]) } } }
        private var taken = 0
        private var given = 0
        private let partitions: Int

        init(shards: Int = 1, partitions: Int = 1, change: (inout BrokerSettings) -> Void = { _ in }) {
            self.partitions = partitions
            broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings(change), store: SimulatedStore(seed: 1))
            broker.joinCluster(logPartitions: partitions)
            broker.beginLog(partitions: partitions)
        }

        /// A power cut, and a start on what the store has.
        func crash(shards: Int? = nil) {
            broker = broker.crashed(shards: shards)
            (taken, given) = (0, 0)
            broker.joinCluster(logPartitions: partitions)
        }

        /// Puts what was published into the log, or fails to.
        func log(failing isRefused: Bool? = nil) { log(isRefused.map { FailedBatches(partitions: .max, isRefused: $0) }) }

        /// - Parameter failed: what is said of all of it.
        /// - Returns: how many messages were to go into each partition.
        @discardableResult
        func log(_ failed: FailedBatches?) -> [Int: Int] {
            var counts: [Int: Int] = [:]
            for (shard, note) in broker.clusterNotes.dropFirst(taken) {
                guard case .messages(let batch) = note else { continue }
                for part in batch.logged.parts where part.isOfMessage {
                    counts[part.partition, default: 0] += 1
                    guard failed == nil else { continue }
                    var record = LogRecord(partition: 0, sequence: UInt64(records.count + 1))
                    record.append(batch.logged.entries(of: part))
                    records.append(record)
                }
                guard batch.logSerial != 0 else { continue }
                if let failed {
                    broker.cores[shard].received(.logFailed(through: batch.logSerial, failed))
                } else {
                    broker.cores[shard].received(.logged(through: batch.logSerial))
                }
            }
            taken = broker.clusterNotes.count
            broker.settle()
            return counts
        }

        /// Gives all shards what is in the log, from a number on.
        func give(from first: Int? = nil) {
            for number in (first.map { $0 - 1 } ?? given)..<records.count {
                for core in broker.cores { #expect(core.received(records[number]) == 0) }
            }
            given = records.count
            broker.settle()
        }

        func lasting(_ name: EncodedString, _ filter: TopicFilter) -> TestClient {
            let client = broker.connected(name, clean: false, expiry: 1000)
            client.subscribe(filter, qos: .exactlyOnce)
            broker.passFences()
            return client
        }
    }

    @Test(arguments: [1, 4]) func `an acknowledgement comes when the message is in the log, and not before`(shards: Int) {
        let node = Node(shards: shards)
        let client = node.broker.connected("client")
        #expect(client.publish("a", "1", qos: .atLeastOnce) == nil && client.publish("a", "2", qos: .exactlyOnce) == nil)
        client.publish("a", "3")
        node.log()
        #expect(client.unfinished == [] && node.payloads == [[49], [50]])
        // What the cluster need not hear of is not logged.
        #expect(client.publish("$other/b", "4", qos: .atLeastOnce) == nil)
        node.log()
        #expect(client.unfinished == [] && node.records.count == 3)
    }

    @Test(arguments: [1, 4]) func `acknowledgements keep the order of their connection, and others do not wait`(shards: Int) {
        let node = Node(shards: shards)
        let (first, second) = (node.broker.connected("first"), node.broker.connected("second"))
        for number in 0..<5 { first.publish("a", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
        node.log()
        second.publish("a", "x", qos: .atLeastOnce)
        #expect(first.unfinished == [] && second.unfinished.count == 1)
        let answers = first.packetsOfConnection.compactMap { packet -> UInt16? in
            if case .acknowledgement(let answer) = packet, answer.type != .pubcomp { answer.packetIdentifier } else { nil }
        }
        #expect(answers == answers.sorted() && answers.count == 5)
        node.log()
        #expect(second.unfinished == [])
    }

    @Test(arguments: [1, 4]) func `what has the number of a record that the servers have lost is no repeat of that`(shards: Int) {
        let node = Node(shards: shards)
        let client = node.lasting("lasting", "a")
        let publisher = node.broker.connected("publisher")
        for text in ["1", "2", "3"] { publisher.publish("a", text, qos: .atLeastOnce) }
        node.log()
        node.give()
        node.records.removeLast(2)
        for core in node.broker.cores { core.received(.logIsCut(0, at: 1)) }
        #expect(node.broker.cores.allSatisfy { $0.logPositions[0]?.sequence == 1 })
        for text in ["4", "5"] { publisher.publish("a", text, qos: .atLeastOnce) }
        node.log()
        node.give(from: 1)
        #expect(client.texts == ["1", "2", "3", "4", "5"])
    }

    @Test(arguments: [1, 4]) func `sessions that last get it from the log, and the others at once`(shards: Int) {
        let node = Node(shards: shards)
        let lasting = (0..<4).map { node.lasting("lasting \($0)", "a/#") }
        let passing = (0..<4).map { node.broker.connected("passing \($0)") }
        for client in passing { client.subscribe("a/#", qos: .exactlyOnce) }
        node.broker.passFences()
        let publisher = node.broker.connected("publisher")
        publisher.publish("a/b", "1", qos: .atLeastOnce)
        publisher.publish("a/b", "2", qos: .exactlyOnce)
        publisher.publish("a/b", "3")
        for client in lasting { #expect(client.texts == ["3"]) }
        for client in passing { #expect(client.texts == ["1", "2", "3"]) }
        node.log()
        node.give()
        node.give(from: 1)
        for client in lasting { #expect(client.texts == ["3", "1", "2"], "a record that comes twice counts once") }
        for client in passing { #expect(client.texts.count == 3) }
    }

    @Test func `what comes from another node goes one of both ways`() {
        let node = Node()
        let (lasting, passing) = (node.lasting("lasting", "a"), node.broker.connected("passing"))
        passing.subscribe("a", qos: .atLeastOnce)
        node.broker.passFences()
        func deliver(_ text: String, isLogged: Bool) {
            ClusterMessage.with("a", text) { message in
                message.isLogged = isLogged
                let isTaken = node.broker.cores[0].received(message)
                #expect(isTaken)
            }
            node.broker.settle()
        }
        deliver("logged", isLogged: true)
        deliver("of a node without a log", isLogged: false)
        #expect(passing.texts == ["logged", "of a node without a log"] && lasting.texts == ["of a node without a log"])
    }

    @Test func `No Local holds for what comes back from the log`() {
        let node = Node()
        let client = node.broker.connected("client", clean: false, expiry: 1000)
        client.subscribe("a", noLocal: true)
        node.broker.passFences()
        client.publish("a", "own", qos: .atLeastOnce)
        node.broker.connected("other").publish("a", "other's", qos: .atLeastOnce)
        node.log()
        node.give()
        #expect(client.texts == ["other's"])
    }

    @Test(arguments: [true, false]) func `who waits for what does not get into the log is closed without an acknowledgement`(
        isRefused: Bool
    ) {
        let node = Node(shards: 4)
        let clients = (0..<4).map { node.broker.client("client \($0)") }
        for client in clients {
            client.connect(clean: false, expiry: 1000)
            client.publish("a", "1", qos: .atLeastOnce)
            client.publish("a", "2", qos: .exactlyOnce)
        }
        let other = node.broker.connected("other")
        node.log(failing: isRefused)
        for client in clients {
            #expect(!client.isConnected && client.unfinished.count == 2)
            #expect(client.disconnectReason == (isRefused ? .quotaExceeded : .implementationSpecificError))
            client.connect(clean: false, expiry: 1000)
            client.resend()
        }
        #expect(other.isConnected && node.records.isEmpty)
        node.log()
        #expect(node.records.count == 8, "QoS 2 messages count as received no more")
        for client in clients { #expect(client.unfinished == []) }
    }

    @Test(arguments: [1, 3]) func `after a crash reading goes on where the queues end, also on other shards`(shards: Int) {
        let node = Node(shards: 2)
        for number in 0..<6 { node.lasting("client \(number)", "a").lose() }
        let publisher = node.broker.connected("publisher")
        for number in 0..<4 { publisher.publish("a", "\(number)", qos: .atLeastOnce) }
        node.log()
        node.broker.store?.lateShard = 1
        node.give()
        node.crash(shards: shards)
        node.broker.store?.lateShard = nil
        #expect(node.broker.cores.allSatisfy { $0.logPositions[0]?.stream == 5 })
        node.give(from: 1)
        for number in 0..<6 {
            let client = node.broker.client("client \(number)")
            client.connect(clean: false, expiry: 1000)
            #expect(client.texts == ["0", "1", "2", "3"])
        }
        node.broker.powerOff()
    }

    @Test func `a QoS 2 message that was not in the log before a crash is taken again`() {
        let node = Node()
        let client = node.broker.connected("client", clean: false, expiry: 1000)
        client.publish("a", "1", qos: .exactlyOnce)
        node.broker.commit()
        node.crash()
        let again = node.broker.connected("client", clean: false, expiry: 1000)
        let packet = PublishPacket(
            topic: "a", packetIdentifier: 1, qos: .exactlyOnce, duplicate: true, payload: [49])
        again.send(.publish(packet))
        node.broker.settle()
        node.log()
        #expect(node.records.count == 1)
        // In the log it counts as received.
        again.send(.publish(packet))
        node.broker.settle()
        node.log()
        #expect(node.records.count == 1)
        node.broker.powerOff()
    }

    @Test func `while the log takes nothing more, publishers are told so or wait`() {
        let node = Node()
        let (client, early) = (node.broker.connected("client"), node.broker.connected("early", version: .v311))
        node.broker.cores[0].received(.logIsFull(true))
        #expect(client.publish("a", "1", qos: .atLeastOnce)?.reasonCode == .quotaExceeded)
        #expect(early.publish("a", "1", qos: .atLeastOnce) == nil)
        client.publish("a", "2")
        #expect(client.isConnected && early.isConnected)
        node.broker.cores[0].received(.logIsFull(false))
        node.broker.settle()
        #expect(!early.isConnected, "it may send again what was not taken")
        #expect(client.publish("a", "3", qos: .atLeastOnce) == nil)
    }

    @Test(arguments: [1, 3], [QoS.atLeastOnce, .exactlyOnce])
    func `who publishes beside somebody whose partition has no room does not notice`(shards: Int, qos: QoS) {
        let node = Node(shards: shards, partitions: 2)
        let clients = (0..<16).map { node.broker.connected("client-\($0)") }
        for (number, client) in clients.enumerated() { client.publish("topic/\(number)", "x", qos: qos) }
        let counts = node.log(FailedBatches(partitions: 0b10, isRefused: true, isForRoom: true))
        let refused = clients.filter { !$0.isConnected }
        #expect(refused.count == counts[1] && refused.allSatisfy { $0.disconnectReason == .quotaExceeded })
        #expect(counts[0] == clients.count - refused.count && counts[0] != 0)
        #expect(clients.filter(\.isConnected).allSatisfy { $0.unfinished == [] })
    }

    @Test(arguments: [1, 3]) func `while a partition of the log has no room, publishers to it are told so or wait`(shards: Int) {
        let node = Node(shards: shards)
        let (client, early) = (node.broker.connected("client"), node.broker.connected("early", version: .v311))
        #expect(client.publish("a", "0", qos: .atLeastOnce) == nil)
        node.log(failing: true)
        #expect(!client.isConnected && client.disconnectReason == .quotaExceeded)
        for core in node.broker.cores { core.received(.logLacksRoom(0b10)) }
        node.broker.settle()
        let again = node.broker.connected("again")
        #expect(again.publish("a", "1", qos: .atLeastOnce) == nil, "another partition has none")
        node.log()
        for core in node.broker.cores { core.received(.logLacksRoom(0b1)) }
        node.broker.settle()
        for qos in [QoS.atLeastOnce, .exactlyOnce] {
            #expect(again.publish("a", "2", qos: qos)?.reasonCode == .quotaExceeded)
            #expect(early.publish("a", "2", qos: qos) == nil)
        }
        again.publish("a", "3")
        #expect(again.isConnected && early.isConnected)
        for core in node.broker.cores { core.received(.logLacksRoom(0)) }
        node.broker.settle()
        #expect(again.isConnected && !early.isConnected, "it may send again what was not taken")
        #expect(again.publish("a", "4", qos: .atLeastOnce) == nil)
        node.log()
        #expect(again.unfinished == [] && node.payloads == [[49], [52]])
    }

    @Test func `a will is logged`() {
        let node = Node()
        let client = node.broker.client("client")
        client.connect(will: Will(topic: "will", payload: [1], qos: .atLeastOnce))
        client.lose()
        node.log()
        #expect(node.payloads == [[1]])
    }
}
