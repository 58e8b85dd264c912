import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What is recorded of clients, addresses and topics that somebody wants to see.
struct TraceTests {
    /// The records of a trace, one text each.
    private func lines(_ broker: SimulatedBroker, of number: Int = 0) -> [String] {
        broker.traces.flatMap(\.records).filter { $0.traces & 1 << UInt8(number) != 0 }.map { record in
            switch record.event {
            case .packet(let packet):
                let name = PacketType(rawValue: packet.firstByte >> 4).map { "\($0)" } ?? "?"
                return "\(packet.isFromClient ? "in" : "out") \(name) \(packet.clientIdentifier?.description ?? "-")"
            case .message(let message):
                let client = message.clientIdentifier?.description ?? "-"
                let payload = message.payload.isEmpty ? "" : " \(String(decoding: message.payload, as: UTF8.self))"
                return "\(message.fate) \(String(decoding: message.topic, as: UTF8.self)) \(client)\(payload)"
            case .ended(let client, _, _, let words): return "ended \(client?.description ?? "-") \(words)"
            case .outputWaits(let client, _, let count): return "waits \(client?.description ?? "-") \(count > 0)"
            }
        }
    }

    private func begin(_ broker: SimulatedBroker, _ subject: TraceSubject, number: Int = 0, payload: Int = 1024) {
        let wish = TraceWish(number: number, subject, payloadBytesMax: payload)
        for shard in 0..<broker.shardCount { #expect(broker.perform(.beginTrace(wish), of: shard) == .done) }
    }

    @Test(arguments: [1, 3]) func `every packet of a client is recorded from its CONNECT to its end, and nobody else's`(shards: Int)
    {
        let broker = SimulatedBroker(shards: shards)
        begin(broker, .client("seen"))
        let other = broker.connected("other")
        other.subscribe("#", qos: .exactlyOnce)
        let seen = broker.connected("seen")
        seen.subscribe("t", qos: .exactlyOnce)
        seen.publish("t", "x", qos: .exactlyOnce)
        seen.ping()
        seen.disconnect()
        #expect(
            lines(broker) == [
                "in connect seen", "out connack seen", "in subscribe seen", "out suback seen", "in publish seen", "out pubrec seen",
                "out publish seen", "in pubrel seen", "in pubrec seen", "out pubcomp seen", "out pubrel seen", "in pubcomp seen",
                "in pingreq seen", "out pingresp seen", "in disconnect seen", "ended seen the client disconnected",
            ])
    }

    @Test func `a trace sees a client that is there, and no more when it has ended`() {
        let broker = SimulatedBroker()
        let client = broker.connected("client")
        begin(broker, .client("client"))
        client.ping()
        #expect(broker.perform(.endTrace(0)) == .done && broker.perform(.endTrace(0)) == .notFound)
        client.ping()
        #expect(lines(broker) == ["in pingreq client", "out pingresp client"])
        // Another one in its place is of somebody else.
        begin(broker, .client("another"))
        client.ping()
        #expect(lines(broker).count == 2)
    }

    @Test func `an address traces those that are there and those that come`() throws {
        let broker = SimulatedBroker()
        let first = broker.connected("first")
        begin(broker, .address(try #require(AddressRange("192.0.2.0/24"))), number: 3)
        begin(broker, .address(try #require(AddressRange("198.51.100.0/24"))), number: 4)
        let second = broker.connected("second")
        first.ping()
        second.lose()
        #expect(
            lines(broker, of: 3) == [
                "in connect -", "out connack second", "in pingreq first", "out pingresp first",
                "ended second the client closed its connection",
            ])
        #expect(lines(broker, of: 4).isEmpty)
    }

    @Test func `what becomes of a topic's messages is told for each receiver`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 1 })
        let names = [broker.client("here"), broker.client("away")]
        for client in names {
            client.connect(expiry: 100)
            client.subscribe("a/+", qos: .atLeastOnce)
        }
        names[1].lose()
        let publisher = broker.connected("publisher")
        begin(broker, .topic("a/#"), payload: 2)
        publisher.publish("a/b", "xyz", qos: .atLeastOnce)
        publisher.publish("a/b", "2", qos: .atLeastOnce)
        publisher.publish("a/b", "3")
        publisher.publish("a/b/c", "4")
        publisher.publish("b", "5")
        names[1].connect(clean: false, expiry: 100)
        let expected: Set = [
            "published a/b publisher xy", "sent a/b here", "queued a/b away",
            "published a/b publisher 2", "dropped(BrokerModel.DropReason.queueFull) a/b away",
            "published a/b publisher 3", "missed a/b away", "published a/b/c publisher 4", "unmatched a/b/c publisher",
            "sent a/b away",
        ]
        let told = lines(broker)
        #expect(Set(told) == expected)
        #expect(told.count { $0 == "sent a/b here" } == 3 && told.first == "published a/b publisher xy")
        #expect(told.last == "sent a/b away")
        #expect(names[0].messages.count == 3 && names[1].messages.count == 1)
    }

    @Test func `messages that nobody is there for, one's own, a will's and refused ones are told too`() {
        var settings = SimulatedBroker.testSettings
        settings.queuesQoS0 = false
        settings.payloadBytesMax = 5
        let broker = SimulatedBroker(settings: settings)
        let away = broker.client("away")
        away.connect(expiry: 100)
        away.subscribe("t")
        away.lose()
        let own = broker.client("own")
        own.connect(will: Will(topic: "t", payload: Array("gone".utf8)))
        own.subscribe("t", noLocal: true)
        begin(broker, .topic("t"))
        own.publish("t", "mine")
        own.publish("t", "too large")
        own.lose()
        let told = lines(broker)
        #expect(
            Set(told) == [
                "published t own mine", "missed t away", "own t own", "dropped(BrokerModel.DropReason.payloadTooLarge) t own",
                "published t own gone",
            ])
    }

    @Test func `messages reach the same clients with a trace as without, also over shards and share groups`() {
        for traced in [false, true] {
            let broker = SimulatedBroker(shards: 3, seed: 7)
            if traced {
                begin(broker, .topic("#"))
                begin(broker, .client("client 1"), number: 1)
            }
            let clients = (0..<6).map { broker.connected("client \($0)") }
            for (index, client) in clients.enumerated() {
                client.subscribe(index < 3 ? "t/#" : "$share/g/t/#", qos: index % 2 == 0 ? .exactlyOnce : .atLeastOnce)
            }
            for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
                for number in 0..<5 { clients[number].publish("t/\(number)", "\(number)", qos: qos) }
            }
            #expect(clients[..<3].allSatisfy { $0.messages.count == 15 })
            #expect(clients[3...].reduce(0) { $0 + $1.messages.count } == 15)
            let told = lines(broker)
            #expect(told.count { $0.hasPrefix("published") } == (traced ? 15 : 0))
            #expect(told.count { $0.hasPrefix("sent") } == (traced ? 60 : 0))
        }
    }

    @Test func `what there is no room for is counted, and batches come one after the other`() throws {
        let tracer = Tracer()
        tracer.add(TraceWish(number: 2, .client("c"), payloadBytesMax: 0))
        let event = TraceRecord.Event.ended("c", ConnectionInfo(address: "192.0.2.1", port: 1), nil, words: "")
        for _ in 0..<Limits.traceRecordsMax + 5 { tracer.add(event, to: 4, at: 0, byteCount: 10) }
        tracer.checkInvariants()
        let batch = try #require(tracer.takeBatch(of: 0))
        #expect(batch.records.count == Limits.traceRecordsMax && batch.lost == [0, 0, 5, 0, 0, 0, 0, 0])
        tracer.add(event, to: 4, at: 0, byteCount: Limits.traceBytesMax)
        #expect(tracer.takeBatch(of: 0) == nil)
        tracer.batchTaken()
        let next = try #require(tracer.takeBatch(of: 0))
        #expect(next.records.count == 1 && next.lost.isEmpty)
        tracer.batchTaken()
        tracer.add(event, to: 4, at: 0, byteCount: Limits.traceBytesMax + 1)
        #expect(tracer.takeBatch(of: 0)?.lost[2] == 1)
    }

    @Test func `packets are found in what is written however it is cut`() {
        let packets: [[UInt8]] = [
            [0xD0, 0], [0x30, 3, 0, 1, 97], [0x31, 0x80, 0x02] + Array(repeating: 7, count: 256), [0x40, 2, 0, 1],
        ]
        let bytes: [UInt8] = [1, 2, 3] + packets.joined()
        for step in 1...bytes.count {
            var frames = OutgoingFrames(skipping: 3)
            var found: [[UInt8]] = []
            for start in stride(from: 0, to: bytes.count, by: step) {
                bytes[start..<min(start + step, bytes.count)].withUnsafeBytes {
                    frames.take($0, bodyBytesMax: 4) { found.append([$0, UInt8(truncatingIfNeeded: $1)] + $2) }
                }
            }
            #expect(found == [[0xD0, 0], [0x30, 3, 0, 1, 97], [0x31, 0, 7, 7, 7, 7], [0x40, 2, 0, 1]], "in steps of \(step)")
        }
    }

    @Test func `a client that is slow when its trace begins is recorded from the next packet on`() {
        let broker = SimulatedBroker()
        let slow = broker.connected("slow")
        slow.subscribe("t")
        slow.connection?.flushBytesMax = 10
        slow.connection?.isReading = false
        let publisher = broker.connected("publisher")
        publisher.publish("t", "0123456789")
        begin(broker, .client("slow"))
        publisher.publish("t", "second")
        #expect(lines(broker) == ["waits slow true"])
        slow.connection?.isReading = true
        broker.settle()
        #expect(lines(broker) == ["waits slow true", "out publish slow"])
        #expect(slow.messages.count == 2)
    }
}
