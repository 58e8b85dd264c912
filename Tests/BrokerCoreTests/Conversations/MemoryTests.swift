import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

/// What a client can make the broker hold.
@Suite struct MemoryTests {
    // MARK: Before the login

    @Test(arguments: [1, 4]) func `a CONNECT that announces too much ends the connection before it is read`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let allowed = broker.open()
        // 128 KiB: 64 KiB, and as much for a Will Payload.
        allowed.send([0x10, 0xff, 0xff, 0x07])
        let refused = broker.open()
        refused.send([0x10, 0x80, 0x89, 0x7a])
        broker.settle()
        #expect(!allowed.isClosed)
        #expect(refused.isClosed)
    }

    @Test(arguments: [1, 4]) func `a CONNECT is bounded without the payload of its will`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.connectBytesMax = 1000 })
        let client = broker.client("a")
        let will = Will(topic: "t", payload: [UInt8](repeating: 1, count: 60_000))
        #expect(client.connect(will: will, userName: "u", password: [UInt8](repeating: 1, count: 900))?.reasonCode == .success)
        client.disconnect()
        #expect(client.connect(userName: "u", password: [UInt8](repeating: 1, count: 1000))?.reasonCode == .packetTooLarge)
    }

    @Test(arguments: [1, 4]) func `user properties of a CONNECT are neither many nor kept`(shards: Int) {
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        broker.authenticate = { _ in nil }
        var properties = Properties()
        properties.userProperties = (0..<257).map { _ in UserProperty(name: "a", value: "b") }
        #expect(broker.client("a").connect(userName: "u", properties: properties)?.reasonCode == .quotaExceeded)
        properties.userProperties.removeLast()
        #expect(broker.client("b").connect(userName: "u", properties: properties) == nil)
        #expect(broker.pendingAuthentications.count == 1)
        #expect(broker.cores.reduce(0) { $0 + $1.policy.memory.ofNewcomers } < 10)
    }

    @Test(arguments: [1, 4]) func `connections that do not log in hold a bounded sum, and beside them one logs in`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].checksPasswords = true
            $0.connectingBytesMax = 1 << 20
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { $0.clientIdentifier == "slow" ? nil : .accepted(userName: nil, data: nil) }
        let slow = broker.client("slow")
        slow.connect(userName: "u", password: [1])
        var attackers: [SimulatedConnection] = []
        for _ in 0..<100 {
            let attacker = broker.open()
            attacker.send([0x10, 0xff, 0xff, 0x06] + [UInt8](repeating: 0, count: 60_000))
            broker.settle()
            attackers.append(attacker)
            #expect(broker.cores.allSatisfy { $0.policy.memory.ofNewcomers <= (1 << 20) / shards })
        }
        #expect(attackers.contains { $0.isClosed } && attackers.contains { !$0.isClosed })
        for pending in broker.pendingAuthentications { broker.answer(pending, .accepted(userName: nil, data: nil)) }
        #expect(slow.isConnected)
        let other = broker.client("other")
        #expect(other.connect(userName: "u")?.reasonCode == .success)
        for attacker in attackers { attacker.close() }
        broker.settle()
        #expect(broker.cores.allSatisfy { $0.policy.memory.ofNewcomers == 0 && $0.policy.memory.inbound == 0 })
    }

    @Test(arguments: [1, 4]) func `what is sent behind a CONNECT that waits for its answer counts, too`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].checksPasswords = true
            $0.connectingBytesMax = 1 << 20
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in nil }
        for number in 0..<40 {
            let client = broker.client("c\(number)")
            client.connect(userName: "u")
            client.send([UInt8](repeating: 0x30, count: 50_000))
            #expect(broker.cores.allSatisfy { $0.policy.memory.ofNewcomers <= (1 << 20) / shards })
        }
        #expect(!broker.isIdle)
    }

    // MARK: memory_limit

    private func name(on shard: Int, of broker: SimulatedBroker) -> EncodedString {
        (0...).lazy.map { "c\($0)" as EncodedString }.first { broker.shard(of: $0) == shard } ?? ""
    }

    /// Two shards of which one holds nothing: the other has all of the bound, and both are full together.
    @Test func `the bound is one for all shards, not a part for each`() {
        let broker = SimulatedBroker(shards: 2, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 3_000_000 })
        let absent = broker.client(name(on: 0, of: broker))
        absent.connect(expiry: .max)
        absent.subscribe("q", qos: .atLeastOnce)
        absent.lose()
        let publisher = broker.connected(name(on: 1, of: broker))
        var count = 0
        while count < 400,
            publisher.publish("q", bytes: [UInt8](repeating: 1, count: 10_000), qos: .atLeastOnce)?.reasonCode.isError == false
        {
            count += 1
        }
        #expect((270..<310).contains(count))
        #expect(broker.cores.allSatisfy { $0.memoryBound.isMemoryFull })
        #expect(broker.client("new").connect(expiry: .max)?.reasonCode == .quotaExceeded)
        absent.connect(clean: false, expiry: .max)
        absent.lose()
        #expect(absent.messages.count == count)
        #expect(publisher.publish("q", "again", qos: .atLeastOnce)?.reasonCode.isError == false)
    }

    /// It waits on a shard where nothing happens.
    @Test func `a client of 3_1_1 that waits for memory hears of what another shard lets go`() {
        let broker = SimulatedBroker(shards: 2, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 100_000 })
        let receiver = broker.client(name(on: 0, of: broker))
        receiver.connect(expiry: .max)
        receiver.subscribe("t")
        receiver.lose()
        let publisher = broker.connected(name(on: 1, of: broker), version: .v311)
        var count = 0
        while count < 100, publisher.publish("t", bytes: Array(repeating: 1, count: 5000), qos: .atLeastOnce) != nil { count += 1 }
        #expect((10..<25).contains(count) && publisher.isConnected)
        receiver.connect(clean: false, expiry: .max)
        broker.advance(seconds: 2)
        #expect(publisher.connection?.isClosed == true)
    }

    @Test(arguments: [1, 4]) func `sessions, however small, are bounded by memory, and one that ends makes room`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 400_000 })
        var clients: [TestClient] = []
        var refusal: ReasonCode?
        for number in 0..<2000 where refusal == nil {
            let client = broker.client("client\(number)")
            let answer = client.connect(expiry: .max)
            if answer?.reasonCode == .success { clients.append(client) } else { refusal = answer?.reasonCode }
        }
        #expect(refusal == .quotaExceeded)
        #expect(clients.count > 100)
        #expect(broker.cores.allSatisfy { $0.heldBytes < 2 * 400_000 / shards })
        // Who has a session comes back to it.
        clients[0].lose()
        #expect(clients[0].connect(clean: false, expiry: .max)?.sessionPresent == true)
        for client in clients { client.disconnect(expiry: 0) }
        #expect(broker.cores.allSatisfy { $0.heldBytes == 0 })
        #expect(broker.client("late").connect()?.reasonCode == .success)
    }

    @Test(arguments: [1, 4]) func `subscriptions are bounded by memory, and unsubscribing makes room`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 400_000 })
        let client = broker.connected("client")
        var count = 0
        while count < 5000, client.subscribe("a/\(count)/b", qos: .atMostOnce)?.reasonCodes == [.success] { count += 1 }
        #expect((50..<5000).contains(count))
        #expect(client.subscribe("another", qos: .atMostOnce)?.reasonCodes == [.quotaExceeded])
        // One that is there is replaced.
        #expect(client.subscribe("a/0/b", qos: .atLeastOnce)?.reasonCodes == [.grantedQoS1])
        for number in 0..<count { client.unsubscribe("a/\(number)/b") }
        #expect(client.subscribe("another", qos: .atMostOnce)?.reasonCodes == [.success])
    }

    @Test func `packets that do not end are bounded by memory`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.keptBytesMax = 4_000_000 })
        for number in 0..<40 {
            let client = broker.connected("c\(number)")
            // A PUBLISH of 2 MB, of which the last part never comes.
            client.send([0x30, 0x80, 0x89, 0x7a] + [UInt8](repeating: 0x61, count: 900_000))
            #expect(broker.cores[0].heldBytes < 6_000_000)
        }
    }

    @Test func `what clients do not read is bounded by memory`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.keptBytesMax = 4_000_000 })
        let readers = (0..<40).map { broker.connected("r\($0)") }
        for (number, reader) in readers.enumerated() {
            reader.subscribe("t/\(number)")
            reader.connection?.isReading = false
        }
        let publisher = broker.connected("publisher")
        for _ in 0..<40 {
            for number in 0..<40 { publisher.publish("t/\(number)", bytes: [UInt8](repeating: 1, count: 10_000)) }
        }
        #expect(broker.cores[0].heldBytes < 6_000_000)
        #expect(broker.statistics().publishDropped > 0)
        for reader in readers { reader.connection?.isReading = true }
        broker.settle()
        #expect(broker.cores[0].heldBytes < 100_000)
        publisher.publish("t/1", "again")
        #expect(readers[1].texts.last == "again")
    }

    @Test(arguments: [1, 4]) func `a retained message can be removed, and a queue read, while memory is short`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.keptBytesMax = 400_000 })
        let publisher = broker.connected("publisher", version: .v5)
        let absent = broker.client("absent")
        absent.connect(expiry: .max)
        absent.subscribe("q", qos: .atLeastOnce)
        absent.lose()
        for _ in 0..<10 { publisher.publish("q", bytes: [UInt8](repeating: 1, count: 1000), qos: .atLeastOnce) }
        var count = 0
        while count < 5000, broker.cores.allSatisfy({ !$0.memoryBound.isMemoryFull }) {
            publisher.publish("r/\(count)", bytes: [UInt8](repeating: 1, count: 1000), qos: .atLeastOnce, retain: true)
            count += 1
        }
        #expect((50..<5000).contains(count))
        for number in count..<count + 2000 {
            publisher.publish("r/\(number)", bytes: [UInt8](repeating: 1, count: 1000), qos: .atLeastOnce, retain: true)
        }
        #expect(broker.cores.allSatisfy { $0.heldBytes < 2 * 400_000 / shards })
        #expect(publisher.acknowledgements(.puback).contains { $0.reasonCode == .quotaExceeded })
        absent.connect(clean: false, expiry: .max)
        #expect(absent.messages.count == 10)
        for number in 0..<count + 2000 { publisher.publish("r/\(number)", "", qos: .atLeastOnce, retain: true) }
        #expect(broker.statistics().retainedMessages == 0)
        #expect(broker.cores.allSatisfy { !$0.memoryBound.isMemoryFull })
        absent.disconnect(expiry: 0)
        publisher.disconnect()
        #expect(broker.cores.allSatisfy { $0.heldBytes == 0 })
    }

    // MARK: Retained messages

    @Test(arguments: [1, 4]) func `a subscriber that does not read holds back no pruning of retained topics`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<500 {
            publisher.publish("kept/\(number)", bytes: [UInt8](repeating: 1, count: 10_000), qos: .atLeastOnce, retain: true)
        }
        let stalled = broker.client("stalled")
        stalled.connect()
        stalled.connection?.isReading = false
        stalled.send(
            .subscribe(
                SubscribePacket(packetIdentifier: 1, subscriptions: [Subscription(filter: "#", options: SubscriptionOptions())])))
        broker.settle()
        #expect(broker.cores.contains { !$0.scans.isEmpty })
        let before = broker.cores.reduce(0) { $0 + $1.retained.nodes.count }
        for number in 0..<1000 {
            publisher.publish("passing/\(number)", "x", qos: .atLeastOnce, retain: true)
            publisher.publish("passing/\(number)", "", qos: .atLeastOnce, retain: true)
        }
        #expect(broker.cores.reduce(0) { $0 + $1.retained.nodes.count } == before)
        stalled.lose()
        #expect(broker.cores.allSatisfy { $0.scans.isEmpty })
        for number in 0..<500 { publisher.publish("kept/\(number)", "", qos: .atLeastOnce, retain: true) }
        #expect(broker.cores.allSatisfy { $0.retained.nodes.count == 1 })
    }
}
