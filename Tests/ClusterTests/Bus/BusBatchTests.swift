import MQTTCodec
import Testing

@testable import Cluster

/// Messages of one topic that leave together.
struct BusBatchTests {
    private let space = SubjectSpace(cluster: "c")
    private let bus = RecordedBus()

    private func lane(_ number: UInt64 = 1, payloadBytesMax: Int = .max) -> BusLane {
        var lane = BusLane(node: NodeID(number), space: space, worksDetached: false)
        lane.live([], now: 0, bus)
        lane.attached(now: 0, payloadBytesMax: payloadBytesMax, bus)
        _ = bus.take()
        return lane
    }

    private func collect(_ lane: inout BusLane, _ topic: String, _ payload: String) {
        Array(topic.utf8).withUnsafeBytes { topic in
            Array(payload.utf8).withUnsafeBytes { payload in
                let none = UnsafeRawBufferPointer(start: nil, count: 0)
                #expect(lane.collect(BusMessage(topic: topic, properties: none, payload: payload, qos: .atMostOnce), bus) == .sent)
            }
        }
    }

    private func receive(_ lane: inout BusLane, _ subject: String, _ payload: [UInt8]) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        Array("martlet.c.\(subject)".utf8).withUnsafeBytes { subject in
            payload.withUnsafeBytes {
                lane.received(subject: subject, reply: nothing, isNobodyThere: false, payload: $0, now: 0, bus)
            }
        }
    }

    @Test func `what follows on a topic leaves together, and comes message by message`() {
        var (sender, receiver) = (lane(1), lane(2))
        for number in 0..<3 { collect(&sender, "a", "\(number)") }
        #expect(bus.take() == [])
        collect(&sender, "b", "3")
        #expect(bus.take() == ["PUB t.a"])
        sender.sendCollected(bus)
        sender.sendCollected(bus)
        #expect(bus.take() == ["PUB t.b"] && sender.counters.sent == 4 && bus.counts == [3, 1])
        for (subject, payload) in zip(["t.a", "t.b"], bus.payloads) { receive(&receiver, subject, payload) }
        #expect(bus.take() == ["MSG a 0", "MSG a 1", "MSG a 2", "MSG b 3"])
        // A second copy is one of each.
        receive(&receiver, "t.a", bus.payloads[0])
        #expect(bus.take() == [] && receiver.counters.copies == 3 && receiver.counters.illegible == 0)
        #expect(bus.payloads[1].withUnsafeBytes { BusMessage.decode($0) } != nil, "one alone stands by itself")
    }

    @Test(arguments: [60, 100, .max]) func `no more leaves together than the servers take at once`(bytesMax: Int) {
        var sender = lane(payloadBytesMax: bytesMax)
        for _ in 0..<100 { collect(&sender, "a", String(repeating: "x", count: 30)) }
        sender.sendCollected(bus)
        #expect(
            bus.payloads.allSatisfy { $0.count <= bytesMax }
                && bus.payloads.count == (bytesMax == 60 ? 100 : bytesMax == 100 ? 50 : 1))
        var long = lane()
        for _ in 0..<10 { collect(&long, "a", String(repeating: "x", count: 10_000)) }
        long.sendCollected(bus)
        #expect(bus.payloads.suffix(4).map(\.count).allSatisfy { $0 > 10_000 && $0 <= Limits.batchBytesMax })
        // What fills one alone goes at once, behind what was before.
        for size in [1, 40_000, 1] { collect(&long, "a", String(repeating: "x", count: size)) }
        long.sendCollected(bus)
        #expect(bus.payloads.suffix(3).map { $0.count / 10_000 } == [0, 4, 0] && long.counters.sent == 13)
    }

    @Test func `a message overtakes nothing, and what was not sent is counted when the connection ends`() {
        var sender = lane()
        collect(&sender, "a", "0")
        sender.live([NodeID(2)], now: 1, bus)
        _ = sender.want(Array("b".utf8), now: 1, bus)
        let lines = bus.take().filter { $0.hasPrefix("PUB") }
        #expect(lines.first == "PUB t.a" && lines.count == 2 && bus.counts == [1, 0])
        collect(&sender, "a", "1")
        sender.detached(bus)
        #expect(sender.counters.sent == 1 && sender.counters.dropped == 1)
        sender.attached(now: 2, bus)
        sender.sendCollected(bus)
        #expect(!bus.take().contains("PUB t.a"))
    }

    @Test func `what ends too soon is counted, and what is whole of it comes`() {
        var (sender, receiver) = (lane(1), lane(2))
        for number in 0..<2 { collect(&sender, "a", "\(number)") }
        sender.sendCollected(bus)
        let whole = bus.payloads[0]
        _ = bus.take()
        for count in 1..<whole.count { receive(&receiver, "t.a", Array(whole[..<count])) }
        #expect(
            bus.take() == ["MSG a 0"] && receiver.counters.illegible == UInt64(whole.count - 2), "between two messages it is whole")
        receive(&receiver, "t.a", whole)
        #expect(bus.take() == ["MSG a 1"])
        // An envelope in it that is none stands for itself.
        receive(&receiver, "t.a", [3, 1, 9])
        #expect(receiver.counters.illegible == UInt64(whole.count - 1))
    }
}
