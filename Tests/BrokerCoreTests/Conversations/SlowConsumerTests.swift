import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

/// Receivers that do not keep up.
@Suite struct SlowConsumerTests {
    @Test(arguments: [1, 4]) func `QoS 0 to a client that does not read is bounded in bytes, and others are not affected`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.outputBytesMax = 65_536 })
        let slow = broker.connected("slow")
        slow.subscribe("t")
        slow.connection?.isReading = false
        let fast = broker.connected("fast")
        fast.subscribe("t")
        let publisher = broker.connected("publisher")
        let payload = [UInt8](repeating: 1, count: 1024)
        for _ in 0..<500 { publisher.publish("t", bytes: payload) }
        #expect(fast.messages.count == 500)
        let dropped = Int(broker.statistics().publishDropped)
        #expect(dropped > 400)
        #expect((32_768...65_536).contains(broker.statistics().outputBytes))
        let before = slow.connection?.receivedByteCount ?? 0
        slow.connection?.isReading = true
        broker.settle()
        #expect(slow.messages.count == 500 - dropped)
        #expect(broker.statistics().outputBytes == 0)
        #expect((slow.connection?.receivedByteCount ?? 0) - before <= 65_536)
        publisher.publish("t", "again")
        #expect(slow.texts.last == "again")
        #expect(broker.logLines.filter { $0.contains("being dropped for client slow") }.count == 1)
    }

    @Test(arguments: [1, 4]) func `QoS 1 to a client that does not read is bounded in messages`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let slow = broker.connected("slow")
        slow.subscribe("t")
        slow.connection?.isReading = false
        let publisher = broker.connected("publisher", version: .v311)
        for number in 0..<2000 { publisher.publish("t", "\(number)", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        #expect(publisher.unfinished == [])
        #expect(broker.statistics().storedMessages == 1020)
        #expect(broker.statistics().publishDropped == 980)
        slow.connection?.isReading = true
        broker.settle()
        #expect(slow.texts == (0..<1020).map(String.init))
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(arguments: [1, 4]) func `a client that takes little at a time gets all, in order`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let slow = broker.connected("slow")
        slow.subscribe("t", qos: .atLeastOnce)
        slow.connection?.flushBytesMax = 7
        let publisher = broker.connected("publisher", version: .v311)
        for number in 0..<300 {
            publisher.publish(
                "t", bytes: [UInt8](repeating: UInt8(number & 255), count: number * 3),
                qos: number % 3 == 0 ? .atLeastOnce : .atMostOnce,
                until: .sent)
        }
        broker.settle()
        // Each QoS keeps its own order: those of QoS 1 wait for acknowledgements.
        for qos in [QoS.atMostOnce, .atLeastOnce] {
            let counts = slow.messages.filter { $0.qos == qos }.map(\.payload.count)
            #expect(counts == (0..<300).filter { ($0 % 3 == 0) == (qos == .atLeastOnce) }.map { $0 * 3 })
        }
        #expect(slow.messages.allSatisfy { message in message.payload.allSatisfy { $0 == UInt8(message.payload.count / 3 & 255) } })
    }

    @Test(arguments: [1, 4]) func `a client that never reads and goes leaves no memory behind`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for _ in 0..<5 {
            let slow = broker.connected("slow")
            slow.subscribe("t")
            slow.connection?.isReading = false
            let publisher = broker.connected("publisher")
            for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
                for _ in 0..<50 { publisher.publish("t", bytes: [UInt8](repeating: 1, count: 5000), qos: qos) }
            }
            slow.lose()
            publisher.disconnect()
        }
        #expect(broker.isIdle)
        #expect(broker.statistics().storedMessages == 0)
        #expect(broker.statistics().storedBytes == 0)
        #expect(broker.statistics().subscriptions == 0)
    }

    @Test func `readers that do not read hold what waits for them, not what lies beside it`() {
        let broker = SimulatedBroker()
        let stalled = (0..<4).map { broker.connected("stalled\($0)") }
        for client in stalled {
            client.subscribe("rare")
            client.connection?.isReading = false
        }
        let (fast, publisher) = (broker.connected("fast"), broker.connected("publisher"))
        fast.subscribe("much")
        broker.connected("second").subscribe("much")
        for _ in 0..<150 {
            for _ in 0..<3 { publisher.publish("much", bytes: [UInt8](repeating: 1, count: 100_000)) }
            publisher.publish("rare", bytes: [UInt8](repeating: 2, count: 400))
            _ = fast.messages
        }
        #expect(broker.statistics().outputBytes > 4 * 150 * 400)
        #expect(
            broker.cores[0].arena.byteCount <= (Limits.idleChunksMax + 1) * Limits.arenaChunkBytes + 4
                * broker.statistics().outputBytes
        )
        for client in stalled { client.connection?.isReading = true }
        broker.settle()
        for client in stalled { #expect(client.messages.count == 150) }
        #expect(broker.cores[0].arena.byteCount <= (Limits.idleChunksMax + 1) * Limits.arenaChunkBytes)
    }
}
