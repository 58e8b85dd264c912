import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a share group has dispatched to a member whose session ends with its connection, when the power goes: a member
/// that lasts gets it, as when the broker is stopped.
@Suite struct ShareCrashTests {
    /// How many shards there are before and after.
    static let shardCounts = [(1, 1), (3, 3), (3, 1), (1, 3)]

    /// A broker with a member that passes, and acknowledges nothing by itself.
    private func group(shards: Int, passing: Int = 1, lasting: Int = 1) -> (SimulatedBroker, [TestClient], [TestClient]) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let passers = (0..<passing).map { number in
            let client = broker.client("passing \(number)")
            client.acknowledgement = .manual
            client.connect()
            client.subscribe("$share/g/t/#", qos: .exactlyOnce)
            return client
        }
        let owners = (0..<lasting).map { number in
            let client = broker.client("lasting \(number)")
            client.connect(expiry: 1000)
            client.subscribe("$share/g/t/#", qos: .exactlyOnce)
            return client
        }
        return (broker, passers, owners)
    }

    /// All that lasting members get when they are back.
    private func texts(_ clients: [TestClient], behindCrashOf broker: SimulatedBroker, shards: Int? = nil) -> [String] {
        let next = broker.crashed(shards: shards)
        for client in clients {
            client.acknowledgement = .automatic
            client.comeBack(to: next)
        }
        #expect(next.store?.rows[.entry]?.isEmpty ?? true && next.store?.rows[.flow]?.isEmpty ?? true)
        return clients.flatMap(\.texts)
    }

    @Test(.statement("MQTT-4.3.2-4", .v5), arguments: shardCounts, [1, 3])
    func `what was dispatched to passing members comes to lasting ones, sent or not`(
        shards: (before: Int, after: Int), members: Int
    ) {
        let (broker, passing, lasting) = group(shards: shards.before, passing: members, lasting: members)
        let publisher = broker.connected("publisher")
        for number in 0..<300 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        broker.advance(milliseconds: 100)
        #expect(publisher.unfinished.isEmpty && passing.allSatisfy { $0.messages.count == 20 }, "the window of mosquitto's default")
        let got = texts(lasting, behindCrashOf: broker, shards: shards.after)
        #expect(Set(got) == Set((0..<300).map { "\($0)" }))
        #expect(got.count == 300, "each comes once")
    }

    /// [MQTT-4.8.2-5 v5]
    @Test(arguments: shardCounts)
    func `QoS 2 messages that were not sent come to lasting members once, those that were do not`(shards: (before: Int, after: Int))
    {
        let (broker, passing, lasting) = group(shards: shards.before)
        let publisher = broker.connected("publisher")
        for number in 0..<100 { publisher.publish("t/\(number)", "\(number)", qos: .exactlyOnce) }
        broker.advance(milliseconds: 100)
        #expect(publisher.unfinished.isEmpty && passing[0].messages.count == 20)
        // One of them has come as far as PUBREC.
        if let first = passing[0].messages.first?.packetIdentifier { passing[0].acknowledge(.pubrec, first) }
        let got = texts(lasting, behindCrashOf: broker, shards: shards.after)
        #expect(got.count == Set(got).count)
        #expect(Set(got + passing[0].texts) == Set((0..<100).map { "\($0)" }) && got.count == 80)
    }

    /// Not from a shard to another one, of which each may be the first that is done.
    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce], shardCounts)
    func `a broker that stops leaves each message in one place`(qos: QoS, shards: (before: Int, after: Int)) {
        let (broker, passing, lasting) = group(shards: shards.before, passing: 4)
        lasting[0].disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<200 { publisher.publish("t/\(number)", "\(number)", qos: qos) }
        broker.advance(milliseconds: 100)
        let sent = Set(passing.flatMap(\.texts))
        broker.store?.mode = .paused
        broker.stop()
        for _ in 0..<100 where !broker.isIdle { broker.commit() }
        #expect(broker.isIdle)
        broker.store?.mode = .prompt
        let got = texts(lasting, behindCrashOf: broker, shards: shards.after)
        #expect(Set(got) == Set((0..<200).map { "\($0)" }).subtracting(qos == .atLeastOnce ? [] : sent))
        #expect(got.count == Set(got).count)
    }

    @Test func `with an interval, what has been written comes back`() {
        let settings = SimulatedBroker.testSettings {
            $0.storesAtOnce = false
            $0.listeners[0].holdsAcknowledgements = false
        }
        let broker = SimulatedBroker(settings: settings, store: SimulatedStore())
        let (lasting, passing) = (broker.client("lasting"), broker.client("passing"))
        lasting.connect(expiry: 1000)
        lasting.subscribe("$share/g/t/#", qos: .exactlyOnce)
        lasting.disconnect()
        passing.acknowledgement = .manual
        passing.connect()
        passing.subscribe("$share/g/t/#", qos: .exactlyOnce)
        let publisher = broker.connected("publisher")
        for number in 0..<50 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        #expect(publisher.unfinished.isEmpty && broker.store?.rows[.entry] == nil)
        broker.cores[0].save()
        broker.settle()
        broker.commit()
        for number in 50..<60 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        let next = broker.crashed()
        lasting.comeBack(to: next)
        #expect(Set(lasting.texts) == Set((0..<50).map { "\($0)" }))
    }

    /// What was sent to it with QoS 1 may come to another one, whatever the publisher's QoS was.
    @Test func `QoS 2 messages that a member gets with QoS 1 are lasting ones' too, sent or not`() {
        let broker = SimulatedBroker(store: SimulatedStore())
        let (lasting, passing) = (broker.client("lasting"), broker.client("passing"))
        lasting.connect(expiry: 1000)
        lasting.subscribe("$share/g/t/#", qos: .exactlyOnce)
        lasting.disconnect()
        passing.acknowledgement = .manual
        passing.connect()
        passing.subscribe("$share/g/t/#", qos: .atLeastOnce)
        let publisher = broker.connected("publisher")
        for number in 0..<50 {
            publisher.publish("t/\(number)", "\(number)", qos: .exactlyOnce)
            // The batch waits for what its receiver may acknowledge, and PUBREC for the batch.
            broker.advance(milliseconds: 50)
        }
        #expect(passing.messages.count == 20 && publisher.unfinished.isEmpty)
        #expect(texts([lasting], behindCrashOf: broker).sorted() == (0..<50).map { "\($0)" }.sorted())
    }

    @Test func `what is acknowledged before the batch is given reaches no disk`() {
        let (broker, passing, _) = group(shards: 1)
        passing[0].acknowledgement = .automatic
        let publisher = broker.connected("publisher")
        for number in 0..<20 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        #expect(publisher.unfinished.isEmpty && broker.store?.rows[.entry] == nil)
    }

    @Test func `a group without a lasting member, and one whose last has gone, write nothing`() {
        let (broker, passing, lasting) = group(shards: 1)
        lasting[0].unsubscribe("$share/g/t/#")
        let publisher = broker.connected("publisher")
        for number in 0..<50 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        broker.advance(milliseconds: 100)
        #expect(passing[0].messages.count == 20 && broker.store?.rows[.entry]?.isEmpty ?? true)
    }

    @Test(arguments: [1, 3]) func `a lasting member that comes later gets what was dispatched before it came`(shards: Int) {
        let (broker, passing, _) = group(shards: shards, passing: 2, lasting: 0)
        let publisher = broker.connected("publisher")
        for number in 0..<100 {
            publisher.publish("t/\(number)", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce)
        }
        let late = broker.connected("late", expiry: 1000)
        late.subscribe("$share/g/t/#", qos: .exactlyOnce)
        late.disconnect()
        broker.advance(milliseconds: 100)
        let got = texts([late], behindCrashOf: broker)
        #expect(Set(got + passing.flatMap(\.texts)) == Set((0..<100).map { "\($0)" }))
        #expect(got.count == Set(got).count && got.count >= 60)
    }

    @Test(arguments: [1, 3]) func `a session that lasts no more is a passing member`(shards: Int) {
        let (broker, _, lasting) = group(shards: shards, passing: 0, lasting: 2)
        lasting[0].disconnect()
        lasting[0].acknowledgement = .manual
        lasting[0].connect(clean: false, expiry: 0)
        lasting[1].disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<50 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        broker.advance(milliseconds: 100)
        #expect(lasting[0].messages.count == 20)
        #expect(Set(texts([lasting[1]], behindCrashOf: broker)) == Set((0..<50).map { "\($0)" }))
    }

    @Test(arguments: [1, 3]) func `what a passing member that leaves gives to another one is kept too`(shards: Int) {
        let (broker, passing, lasting) = group(shards: shards, passing: 2)
        lasting[0].disconnect()
        let publisher = broker.connected("publisher")
        for number in 0..<100 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        passing[0].lose()
        passing[1].unsubscribe("$share/g/t/#")
        broker.advance(milliseconds: 100)
        #expect(Set(texts(lasting, behindCrashOf: broker)) == Set((0..<100).map { "\($0)" }))
    }

    /// The publisher was never told that the broker has the message, and sends it again.
    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: 0..<12, [3, 4])
    func `a QoS 2 message that is sent again after the crash is dispatched once`(committing: Int, shards: Int) {
        let broker = SimulatedBroker(shards: shards, seed: UInt64(committing), store: SimulatedStore())
        let lasting = broker.connected("lasting", expiry: 1000)
        lasting.subscribe("$share/g/t", qos: .exactlyOnce)
        lasting.disconnect()
        let publisher = broker.connected("publisher", expiry: 1000)
        for number in 0..<4 {
            let passing = broker.client("passing \(number)")
            passing.acknowledgement = .manual
            // It is sent nothing: one message is on its way to it already.
            passing.connect(properties: .having { $0.receiveMaximum = 1 })
            passing.subscribe("$share/g/t", qos: .exactlyOnce)
        }
        let filler = broker.connected("filler")
        for _ in 0..<4 { filler.publish("t", "filler", qos: .atLeastOnce) }
        broker.store?.mode = .paused
        for number in 0..<4 { publisher.publish("t", "\(number)", qos: .exactlyOnce, until: .sent) }
        for _ in 0..<committing { broker.commit() }
        let next = broker.crashed(committing: committing % 3)
        next.store?.mode = .prompt
        publisher.broker = next
        publisher.resendsAtOnce = true
        publisher.connect(clean: false, expiry: 1000)
        publisher.resend()
        #expect(publisher.unfinished.isEmpty)
        lasting.comeBack(to: next)
        #expect(lasting.texts.filter { $0 != "filler" }.sorted() == ["0", "1", "2", "3"])
    }

    // MARK: From a lasting member to another one

    /// The first names of clients that live on a shard.
    private func names(_ broker: SimulatedBroker, on shard: Int, _ count: Int) -> [EncodedString] {
        Array((0..<50).map { EncodedString("member \($0)") }.filter { broker.shard(of: $0) == shard }.prefix(count))
    }

    /// Everybody may read and write everything, but the user `anna` only reads while `isAllowed` says so.
    private func settings(isAllowed: Bool) -> BrokerSettings {
        func rule(_ permission: AccessPermission) -> AccessRule? {
            AccessFilter(Array("#".utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        return SimulatedBroker.testSettings {
            let all = [rule(.read), rule(.write)].compactMap { $0 }
            $0.listeners[0].accessControl = AccessControl(anonymous: all, users: ["anna": isAllowed ? all : []], patterns: [])
        }
    }

    /// The other shard has them on the disk, and remembers whose they were; the rows of the member's own shard have not
    /// gone.
    @Test(arguments: [2, 1, 3], [true, false])
    func `QoS 2 messages that a lasting member passes on come once, however late its own shard is`(after: Int, ends: Bool) throws {
        let store = SimulatedStore()
        let broker = SimulatedBroker(shards: 2, settings: settings(isAllowed: true), store: store)
        let leaving = broker.client(try #require(names(broker, on: 0, 1).first))
        let successor = broker.client(try #require(names(broker, on: 1, 1).first))
        leaving.acknowledgement = .manual
        leaving.connect(expiry: 1000, userName: "anna", properties: .having { $0.receiveMaximum = 1 })
        leaving.subscribe("$share/g/t", qos: .exactlyOnce)
        let publisher = broker.connected("publisher")
        publisher.publish("t", "first", qos: .atLeastOnce)
        for number in 0..<30 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        #expect(publisher.unfinished.isEmpty && leaving.texts == ["first"])
        let first = try #require(leaving.messages.first?.packetIdentifier)
        successor.connect(expiry: 1000)
        successor.subscribe("$share/g/t", qos: .exactlyOnce)
        successor.disconnect()

        store.lateShard = 0
        if ends {
            leaving.disconnect(expiry: 0)
        } else {
            for core in broker.cores { core.apply(settings(isAllowed: false)) }
            broker.settle()
            leaving.acknowledge(.puback, first)
            broker.settle()
        }
        #expect(store.rows[.relayed]?.count == 30, "the other shard has them")
        let next = broker.crashed(shards: after, settings: settings(isAllowed: true))
        store.lateShard = nil
        _ = leaving.takeMessages()
        for client in [leaving, successor] {
            client.broker = next
            client.acknowledgement = .automatic
            client.connect(clean: false, expiry: 1000, userName: client === leaving ? "anna" : nil)
        }
        next.advance(milliseconds: 100)
        let came = (leaving.texts + successor.texts).filter { $0 != "first" }
        #expect(came.sorted() == (0..<30).map { "\($0)" }.sorted())
        for table in [StoreTable.entry, .flow, .relayed] { #expect(store.rows[table]?.isEmpty ?? true) }
    }

    /// The member on the other shard has gone when they come there, and one of the first shard's takes them after all.
    @Test func `QoS 2 messages that come back to the shard that gave them away leave nothing there`() throws {
        let broker = SimulatedBroker(shards: 2, store: SimulatedStore())
        let own = names(broker, on: 0, 2).map { broker.client($0) }
        let other = broker.client(try #require(names(broker, on: 1, 1).first))
        let publisher = broker.connected("publisher")
        for (number, client) in (own + [other]).enumerated() {
            client.connect(expiry: 1000)
            client.subscribe("$share/g/t", qos: .exactlyOnce)
            client.disconnect()
            guard number == 0 else { continue }
            for number in 0..<10 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        }
        // Neither knows what the other one does.
        broker.cores[1].endLocalSession(of: other.identifier)
        broker.cores[0].endLocalSession(of: own[0].identifier)
        #expect(broker.cores[0].outgoingBytes > 0, "some of them go to the other shard")
        broker.settle()
        own[1].connect(clean: false, expiry: 1000)
        broker.advance(milliseconds: 100)
        #expect(own[1].texts.sorted() == (0..<10).map { "\($0)" })
        #expect(broker.cores.allSatisfy { $0.receipts.isEmpty })
        for table in [StoreTable.entry, .flow, .relayed] { #expect(broker.store?.rows[table]?.isEmpty ?? true) }
    }

    // MARK: Growth

    /// Each message of a passing member is looked at once, however many groups get their first lasting member at the
    /// same time.
    @Test(arguments: [1, 3])
    func `the work for a SUBSCRIBE of a lasting member grows with its groups and what they have dispatched`(shards: Int) {
        func visits(_ count: Int) -> Int {
            let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
            let filters = (0..<count).compactMap { TopicFilter(Array("$share/g/\($0)".utf8)) }
            let subscriptions = filters.map { Subscription(filter: $0, options: SubscriptionOptions(maximumQoS: .atLeastOnce)) }
            let passing = broker.client("passing")
            passing.acknowledgement = .manual
            passing.connect()
            passing.subscribe(subscriptions)
            let publisher = broker.connected("publisher")
            for number in 0..<count {
                publisher.publish(EncodedString("\(number)"), "\(number)", qos: .atLeastOnce, until: .sent)
            }
            broker.settle()
            let lasting = broker.connected("lasting", expiry: 1000)
            #expect(lasting.subscribe(subscriptions)?.reasonCodes.count == count)
            broker.advance(milliseconds: 100)
            #expect(broker.store?.rows[.entry]?.count == count, "all of it is kept")
            return broker.cores.reduce(0) { $0 + $1.groups.newlyLasting.visitCount }
        }
        let (few, many) = (visits(100), visits(200))
        #expect(few >= 100 && many * 10 <= few * 22, "\(few), \(many)")
    }
}
