import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// Messages of one topic that leave together.
struct BusBatchTests {
    private let space = SubjectSpace(cluster: "c")
    private let sink = RecordedBus()

    private func bus(_ number: UInt64 = 1, payloadBytesMax: Int = .max) -> ClusterBus {
        var bus = ClusterBus(node: NodeID(number), space: space, worksDetached: false)
        bus.live([], now: 0, sink)
        bus.attached(now: 0, payloadBytesMax: payloadBytesMax, sink)
        _ = sink.take()
        return bus
    }

    private func collect(_ bus: inout ClusterBus, _ topic: String, _ payload: String) {
        Array(payload.utf8).withUnsafeBytes { payload in
            withMessage(Array(topic.utf8), payload) { bus.collect($0, now: 0, sink) }
        }
    }

    private func receive(_ bus: inout ClusterBus, _ subject: String, _ payload: [UInt8]) {
        bus.receive(Array("martlet.c.\(subject)".utf8), payload, sink)
    }

    @Test func `what follows on a topic leaves together, and comes message by message`() {
        var (sender, receiver) = (bus(1), bus(2))
        for number in 0..<3 { collect(&sender, "a", "\(number)") }
        #expect(sink.take() == [])
        collect(&sender, "b", "3")
        #expect(sink.take() == ["PUB t.a"])
        sender.sendCollected(sink)
        sender.sendCollected(sink)
        #expect(sink.take() == ["PUB t.b"] && sender.counters.sent == 4 && sink.counts == [3, 1])
        for (subject, payload) in zip(["t.a", "t.b"], sink.payloads) { receive(&receiver, subject, payload) }
        #expect(sink.take() == ["MSG a 0", "MSG a 1", "MSG a 2", "MSG b 3"])
        // A second copy is one of each.
        receive(&receiver, "t.a", sink.payloads[0])
        #expect(sink.take() == [] && receiver.counters.copies == 3 && receiver.counters.illegible == 0)
        #expect(sink.payloads[1].withUnsafeBytes { ClusterMessage.decode($0, now: 0) } != nil, "one alone stands by itself")
    }

    @Test(arguments: [60, 100, .max]) func `no more leaves together than the servers take at once`(bytesMax: Int) {
        var sender = bus(payloadBytesMax: bytesMax)
        for _ in 0..<100 { collect(&sender, "a", String(repeating: "x", count: 30)) }
        sender.sendCollected(sink)
        #expect(
            sink.payloads.allSatisfy { $0.count <= bytesMax }
                && sink.payloads.count == (bytesMax == 60 ? 100 : bytesMax == 100 ? 50 : 1))
        var long = bus()
        for _ in 0..<10 { collect(&long, "a", String(repeating: "x", count: 10_000)) }
        long.sendCollected(sink)
        #expect(sink.payloads.suffix(4).map(\.count).allSatisfy { $0 > 10_000 && $0 <= Limits.batchBytesMax })
        // What fills one alone goes at once, behind what was before.
        for size in [1, 40_000, 1] { collect(&long, "a", String(repeating: "x", count: size)) }
        long.sendCollected(sink)
        #expect(sink.payloads.suffix(3).map { $0.count / 10_000 } == [0, 4, 0] && long.counters.sent == 13)
    }

    @Test func `a message overtakes nothing, and what was not sent is counted when the connection ends`() {
        var sender = bus()
        collect(&sender, "a", "0")
        sender.live([NodeID(2)], now: 1, sink)
        _ = sender.want(Array("b".utf8), now: 1, sink)
        let lines = sink.take().filter { $0.hasPrefix("PUB") }
        #expect(lines.first == "PUB t.a" && lines.count == 2 && sink.counts == [1, 0])
        collect(&sender, "a", "1")
        sender.detached(sink)
        #expect(sender.counters.sent == 1 && sender.counters.dropped == 1)
        sender.attached(now: 2, sink)
        sender.sendCollected(sink)
        #expect(!sink.take().contains("PUB t.a"))
    }

    @Test func `what ends too soon is counted, and what is whole of it comes`() {
        var (sender, receiver) = (bus(1), bus(2))
        for number in 0..<2 { collect(&sender, "a", "\(number)") }
        sender.sendCollected(sink)
        let whole = sink.payloads[0]
        _ = sink.take()
        for count in 1..<whole.count { receive(&receiver, "t.a", Array(whole[..<count])) }
        #expect(
            sink.take() == ["MSG a 0"] && receiver.counters.illegible == UInt64(whole.count - 2), "between two messages it is whole"
        )
        receive(&receiver, "t.a", whole)
        #expect(sink.take() == ["MSG a 1"])
        // An envelope in it that is none stands for itself.
        receive(&receiver, "t.a", [2, 1, 9])
        #expect(receiver.counters.illegible == UInt64(whole.count - 1))
    }
}
