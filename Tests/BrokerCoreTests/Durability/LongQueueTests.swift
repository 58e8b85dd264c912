import BrokerSimulation
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Queues of which memory holds only the front.
@Suite struct LongQueueTests {
    private func settings(_ change: (inout BrokerSettings) -> Void = { _ in }) -> BrokerSettings {
        SimulatedBroker.testSettings {
            $0.queuedMessagesMax = 0
            $0.residentMessagesMax = 8
            change(&$0)
        }
    }

    private func absent(_ broker: SimulatedBroker, _ name: EncodedString = "absent", _ filter: TopicFilter = "#") -> TestClient {
        let client = broker.connected(name, expiry: 1000)
        client.subscribe(filter, qos: .exactlyOnce)
        client.disconnect()
        return client
    }

    private func publish(_ numbers: Range<Int>, _ broker: SimulatedBroker, padding: Int = 0, qos: QoS = .atLeastOnce) {
        let publisher = broker.connected("publisher")
        let rest = String(repeating: "x", count: padding)
        for number in numbers { publisher.publish("t/\(number % 3)", "\(number)\(rest)", qos: qos, until: .sent) }
        broker.settle()
        publisher.disconnect()
    }

    private func queue(_ broker: SimulatedBroker, _ name: EncodedString = "absent") -> SessionQueue? {
        broker.cores[broker.shard(of: name)].sessions.find(name)?.queue
    }

    @Test func `memory knows the front of a queue, and of the rest how much it is`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let client = absent(broker)
        publish(0..<1000, broker)
        #expect(queue(broker)?.waiting == 1000 && queue(broker)?.waitingResident == 8)
        #expect(queue(broker)?.paged?.storedCount == 992)
        #expect(broker.statistics().storedMessages == 8)
        #expect(queue(broker)?.capacity ?? .max < 300)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<1000).map { "\($0)" })
        #expect(queue(broker)?.isEmpty == true && queue(broker)?.paged == nil)
        #expect(broker.store?.rows[.entry]?.isEmpty == true)
    }

    @Test func `bytes bound the front as well, and the largest message goes through`() {
        let broker = SimulatedBroker(settings: settings { $0.residentBytesMax = 1000 }, store: SimulatedStore())
        let client = absent(broker)
        publish(0..<20, broker, padding: 5000)
        #expect(queue(broker)?.waitingResident == 1)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts.map { $0.prefix { $0 != "x" } } == (0..<20).map { "\($0)" })
    }

    @Test func `what several queues share is one row until the last has delivered it, through crashes`() {
        var broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let clients = [absent(broker, "a"), absent(broker, "b"), absent(broker, "c")]
        publish(0..<100, broker, padding: 300)
        #expect(broker.store?.rows[.message]?.count == 100 && broker.store?.rows[.entry]?.count == 300)
        for (place, client) in clients.enumerated() {
            broker = broker.crashed()
            for client in clients { client.broker = broker }
            #expect(broker.store?.rows[.message]?.count == 100)
            client.connect(clean: false, expiry: 1000)
            broker.settle()
            #expect(client.texts.map { $0.prefix { $0 != "x" } } == (0..<100).map { "\($0)" })
            #expect(broker.store?.rows[.entry]?.count == 200 - 100 * place)
        }
        #expect(broker.store?.rows[.message]?.isEmpty == true)
    }

    @Test(arguments: [1, 3]) func `another number of shards takes over queues that share rows`(shards: Int) {
        var broker = SimulatedBroker(shards: 2, settings: settings(), store: SimulatedStore())
        let clients = (0..<4).map { absent(broker, EncodedString("client \($0)")) }
        publish(0..<40, broker, padding: 300)
        broker = broker.crashed(shards: shards)
        for client in clients {
            client.comeBack(to: broker)
            #expect(client.texts.map { $0.prefix { $0 != "x" } } == (0..<40).map { "\($0)" })
        }
        broker.settle()
        #expect(broker.store?.rows[.message]?.isEmpty == true && broker.store?.rows[.entry]?.isEmpty == true)
    }

    @Test func `the oldest gives way wherever it is, and its rows go`() {
        let broker = SimulatedBroker(
            settings: settings {
                $0.queuedMessagesMax = 50
                $0.queueOverflow = .dropsOldest
            }, store: SimulatedStore())
        let client = absent(broker)
        publish(0..<500, broker, padding: 200)
        broker.settle()
        #expect(queue(broker)?.waiting == 50 && broker.store?.rows[.entry]?.count == 50)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts.map { $0.prefix { $0 != "x" } } == (450..<500).map { "\($0)" })
    }

    @Test func `a session that ends, or is purged, leaves nothing in the store`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let count = 300
        let client = absent(broker)
        let other = absent(broker, "other")
        publish(0..<count, broker, padding: 150)
        #expect(broker.store?.rows[.entry]?.count == 2 * count)
        client.connect(clean: true)
        broker.settle()
        #expect(broker.store?.rows[.entry]?.count == count && broker.store?.rows[.message]?.count == count)
        #expect(broker.perform(.purgeQueue(of: "other", matching: nil)) == .removed(count))
        #expect(broker.store?.rows[.entry]?.isEmpty == true && broker.store?.rows[.message]?.isEmpty == true)
        #expect(other.texts.isEmpty && queue(broker, "other")?.isEmpty == true)
    }

    @Test(arguments: [1, 2]) func `QoS 0 messages that wait keep their place, and end with the broker`(shards: Int) {
        let changed = settings { $0.queuesQoS0 = true }
        let broker = SimulatedBroker(settings: changed, store: SimulatedStore())
        let (client, other) = (absent(broker), absent(broker, "other"))
        let publisher = broker.connected("publisher")
        let rest = String(repeating: "x", count: 200)
        for number in 0..<100 {
            publisher.publish("t", "\(number)\(rest)", qos: number % 2 == 0 ? .atMostOnce : .atLeastOnce, until: .sent)
        }
        broker.settle()
        #expect(broker.statistics().storedMessages < 12)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<100).map { "\($0)\(rest)" })
        let next = broker.crashed(shards: shards)
        #expect(next.store?.rows[.entry]?.count == 50 && next.store?.rows[.message]?.count == 50)
        other.comeBack(to: next)
        #expect(other.texts == (0..<100).filter { $0 % 2 == 1 }.map { "\($0)\(rest)" })
        next.settle()
        #expect(next.store?.rows[.message]?.isEmpty == true)
    }

    @Test func `messages expire behind the front too`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let client = absent(broker)
        let publisher = broker.connected("publisher")
        for number in 0..<60 {
            publisher.publish(
                "t", "\(number)", qos: .atLeastOnce,
                properties: .having { if number % 2 == 0 { $0.messageExpiryInterval = 10 } }, until: .sent)
        }
        broker.settle()
        broker.advance(seconds: 20)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<60).filter { $0 % 2 == 1 }.map { "\($0)" })
        #expect(broker.store?.rows[.entry]?.isEmpty == true)
    }

    @Test func `a client that comes and goes gets each message once, in order`() {
        let broker = SimulatedBroker(settings: settings { $0.inFlightMessagesMax = 100 }, store: SimulatedStore())
        let client = absent(broker)
        publish(0..<100, broker, qos: .exactlyOnce)
        for round in 0..<40 {
            client.beginConnect(
                ConnectPacket(
                    version: .v5, cleanStart: false,
                    properties: .having { ($0.sessionExpiryInterval, $0.receiveMaximum) = (1000, 5) },
                    clientIdentifier: "absent"))
            for _ in 0..<(round % 13) { broker.step() }
            publish(100 + round..<101 + round, broker, qos: .exactlyOnce)
            client.lose()
        }
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<140).map { "\($0)" })
    }

    @Test func `what a share group has given stays in memory and in its place, and goes to another member`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let client = broker.connected("absent", expiry: 1000)
        client.subscribe("own", qos: .atLeastOnce)
        client.subscribe("$share/g/shared", qos: .atLeastOnce)
        client.disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<40 {
            publisher.publish(number % 4 == 0 ? "shared" : "own", "\(number)", qos: .atLeastOnce, until: .sent)
        }
        broker.settle()
        let next = broker.crashed()
        client.broker = next
        #expect(queue(next)?.waiting == 40)
        client.acknowledgement = .manual
        client.connect(clean: false, expiry: 1000)
        let member = next.connected("member")
        member.subscribe("$share/g/shared", qos: .atLeastOnce)
        client.disconnect()
        #expect(member.texts == (0..<40).filter { $0 % 4 == 0 }.map { "\($0)" })
        #expect(queue(next)?.waiting == 30)
        client.acknowledgement = .automatic
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts.suffix(30) == (0..<40).filter { $0 % 4 != 0 }.map { "\($0)" })
        #expect(next.store?.rows[.entry]?.isEmpty == true)
    }

    @Test func `a row that cannot be read is told and dropped, and what is behind it goes on`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let client = absent(broker)
        publish(0..<50, broker)
        let batch = JournalBatch()
        let keys = (broker.store?.rows[.entry] ?? [:]).keys.sorted()
        batch.append(JournalRecord(.delete, .entry, key: keys[30], body: UnsafeRawBufferPointer(start: nil, count: 0)))
        broker.store?.write(batch)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<50).filter { $0 != 30 }.map { "\($0)" })
        #expect(broker.logLines.contains { $0.contains("cannot be read from the store") })
        #expect(queue(broker)?.isEmpty == true)
    }

    @Test(.statement("MQTT-4.6.0-1", .v5), arguments: [1, 2])
    func `what was in flight keeps its order after crashes, however large the window was`(crashes: Int) {
        let broker = SimulatedBroker(settings: settings { $0.inFlightMessagesMax = 100 }, store: SimulatedStore())
        let client = absent(broker)
        publish(0..<60, broker)
        publish(60..<61, broker, qos: .exactlyOnce)
        publish(61..<90, broker)
        client.acknowledgement = .manual
        client.connect(clean: false, expiry: 1000)
        broker.settle()
        #expect(client.texts.count == 90)
        var next = broker
        for _ in 0..<crashes { next = next.crashed(settings: settings { $0.inFlightMessagesMax = 10 }) }
        client.acknowledgement = .automatic
        client.comeBack(to: next)
        next.settle()
        // The client takes number 60 once, so its packets are looked at.
        let again = client.packetsOfConnection.compactMap { packet in
            if case .publish(let message) = packet { String(decoding: message.payload, as: UTF8.self) } else { nil }
        }
        #expect(again == (0..<90).map { "\($0)" })
        #expect(queue(next)?.isEmpty == true)
    }

    @Test func `messages of a share group are taken out behind the front wherever they stand, and the rest goes its way`() {
        let broker = SimulatedBroker(settings: settings(), store: SimulatedStore())
        let client = broker.connected("absent", expiry: 1000)
        client.subscribe("own", qos: .atLeastOnce)
        client.subscribe("$share/g/shared", qos: .atLeastOnce)
        client.disconnect()
        let publisher = broker.connected("publisher")
        func send(_ numbers: Range<Int>) {
            for number in numbers {
                publisher.publish(number % 2 == 0 ? "shared" : "own", "\(number)", qos: .atLeastOnce, until: .sent)
            }
            broker.settle()
        }
        send(0..<60)
        #expect(broker.perform(.purgeQueue(of: "absent", matching: "shared")) == .removed(30))
        queue(broker)?.checkInvariants()
        #expect(queue(broker)?.waiting == 30 && broker.store?.rows[.entry]?.count == 30)
        send(60..<80)
        queue(broker)?.checkInvariants()
        let row = broker.ask(ShardQuery(.queue(of: "absent")))
        guard case .queue(let rows, let behind) = row?.rows else { return #expect(Bool(false), "there is no queue") }
        #expect(rows.count + behind == 50 && row?.count == 50 && rows.count < 12)
        client.connect(clean: false, expiry: 1000)
        #expect(client.texts == (0..<60).filter { $0 % 2 == 1 }.map { "\($0)" } + (60..<80).map { "\($0)" })
        #expect(queue(broker)?.paged == nil && broker.store?.rows[.entry]?.isEmpty == true)
    }
}
