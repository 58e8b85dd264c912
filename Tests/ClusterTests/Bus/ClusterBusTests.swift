import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// Writes down what a bus wants.
final class RecordedBus: BusSink {
    var lines: [String] = []
    var replies: [[UInt8]] = []
    private(set) var payloads: [[UInt8]] = []
    private(set) var counts: [Int] = []
    private var lastSubscription: UInt64 = 0

    private func text(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: Array(bytes), as: UTF8.self).replacing("martlet.c.", with: "")
    }

    func subscribe(_ subject: [UInt8]) -> UInt64 {
        lastSubscription += 1
        lines.append("SUB \(text(subject)) \(lastSubscription)")
        return lastSubscription
    }

    func unsubscribe(_ subscription: UInt64) { lines.append("UNSUB \(subscription)") }

    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int) {
        lines.append("PUB \(text(subject))")
        replies.append(Array(reply))
        payloads.append(Array(payload))
        counts.append(count)
    }

    func deliver(_ message: ClusterMessage) {
        let groups = message.dispatched.map { $0.hops == 0 ? "" : " to \($0.names.count)" } ?? ""
        lines.append("MSG \(text(message.topic)) \(text(message.payload))\(groups)")
    }

    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt) {
        for one in news { lines.append("LEARN \(one.number) \(text(one.name.filter)) \(one.size.connected)+\(one.size.away)") }
    }

    func forget(_ node: NodeID) { lines.append("FORGET \(node.rawValue)") }

    func confirm(through ticket: UInt64) { lines.append("confirm \(ticket)") }

    func take() -> [String] {
        defer { lines = [] }
        return lines
    }
}

/// Conversations of one bus with an engine of which the test plays the part.
struct ClusterBusTests {
    private let space = SubjectSpace(cluster: "c")
    private let sink = RecordedBus()

    private func makeBus(worksDetached: Bool = false) -> ClusterBus {
        ClusterBus(node: NodeID(1), space: space, worksDetached: worksDetached)
    }

    private func openBus(with peers: [NodeID] = []) -> ClusterBus {
        var bus = makeBus()
        bus.live(peers, now: 0, sink)
        bus.attached(now: 0, sink)
        for peer in peers { answer(&bus, from: peer) }
        _ = sink.take()
        return bus
    }

    private let group = ShareGroupName(shareName: Array("g".utf8), filter: Array("a".utf8))

    /// The answer of a node that knows what the bus has told it with its last question.
    ///
    /// - Parameter members: the number that the node has given the group, and how many members it has.
    private func answer(
        _ bus: inout ClusterBus, from node: NodeID, _ members: (number: UInt32, size: GroupSize)? = nil,
        isNobodyThere: Bool = false,
        now: UInt64 = 0
    ) {
        let question = sink.replies.lastIndex { reply in
            reply.withUnsafeBytes {
                guard case .answer(node, _)? = space.nodeMessage($0)?.nodeMessage else { return false }
                return true
            }
        }
        guard let question, let told = sink.payloads[question].withUnsafeBytes({ GroupUpdate(reading: $0) }) else {
            Issue.record("\(node) was not asked")
            return
        }
        var answer = GroupUpdate()
        if let members {
            answer = GroupUpdate(conversation: 1, after: 0, through: 1)
            answer.news = [GroupNews(number: members.number, name: group, size: members.size)]
        }
        answer.known = GroupWord(conversation: told.conversation, through: told.through)
        bus.receive(sink.replies[question], answer.encoded, isNobodyThere: isNobodyThere, now: now, sink)
    }

    private func receive(
        _ bus: inout ClusterBus, _ subject: [UInt8], reply: [UInt8] = [], _ payload: [UInt8] = GroupUpdate().encoded
    ) {
        bus.receive(subject, reply: reply, payload, sink)
    }

    private enum Fate {
        case sent
        case held
        case dropped
    }

    private func publish(_ bus: inout ClusterBus, _ topic: String, shares: [GroupShare]? = nil) -> Fate {
        withMessage(Array(topic.utf8), UnsafeRawBufferPointer(start: nil, count: 0)) { message in
            message.dispatch = shares.map { GroupDispatch(shares: $0, hops: 0) }
            let before = bus.counters
            bus.collect(message, now: 0, sink)
            bus.sendCollected(sink)
            return bus.counters.sent > before.sent ? .sent : bus.counters.dropped > before.dropped ? .dropped : .held
        }
    }

    private func shares(_ payload: [UInt8]?) -> [GroupShare]? {
        (payload ?? []).withUnsafeBytes { ClusterMessage.decode($0, now: 0)?.message.dispatch?.shares }
    }

    @Test func `a node that goes on as another one listens where that is written to`() {
        var bus = openBus(with: [NodeID(2)])
        _ = bus.want(Array("a".utf8), now: 0, sink)
        bus.detached(sink)
        bus.begin(as: NodeID(5))
        _ = sink.take()
        bus.attached(now: 1, sink)
        let lines = sink.take()
        #expect(lines.first?.contains("0000000000000005") == true && lines.contains { $0.hasPrefix("SUB t.a ") })
        #expect(bus.state == .joining)
        // By the list its last incarnation is there still, and another node, of which nobody knows more.
        bus.live([NodeID(1), NodeID(2), NodeID(5)], now: 2, sink)
        #expect(bus.waitingFor == [NodeID(1), NodeID(2)])
        answer(&bus, from: NodeID(2))
        bus.live([NodeID(2), NodeID(5)], now: 3, sink)
        #expect(bus.state == .open)
    }

    @Test func `one that works without servers does not wait for their list to go on as another one`() {
        var bus = makeBus(worksDetached: true)
        bus.live([NodeID(2)], now: 0, sink)
        bus.begin(as: NodeID(5))
        bus.attached(now: 1, sink)
        answer(&bus, from: NodeID(2))
        #expect(bus.state == .open)
    }

    @Test(arguments: [0, 1, 2]) func `what was held for a share group of a node that is gone is dispatched anew`(others: Int) {
        let (gone, there) = (NodeID(2), NodeID(3))
        var bus = makeBus()
        bus.live([gone, there], now: 0, sink)
        bus.attached(now: 0, sink)
        answer(&bus, from: gone, (7, GroupSize(connected: 1)))
        answer(&bus, from: there, (9, GroupSize(away: others == 1 ? 2 : 0)))
        bus.detached(sink)
        bus.attached(now: 1, sink)
        if others == 2 { _ = bus.members(of: group, part: 0, GroupSize(connected: 1), now: 1, sink) }
        _ = sink.take()
        #expect(publish(&bus, "a", shares: [GroupShare(node: gone.rawValue, number: 7)]) == .held)
        answer(&bus, from: there)
        #expect(bus.state == .joining)
        bus.live([there], now: 2, sink)
        let lines = sink.take()
        #expect(lines.contains("PUB t.a") && lines.contains("MSG a  to 1") == (others == 2))
        #expect(sink.payloads.lazy.compactMap(shares).last == (others == 1 ? [GroupShare(node: there.rawValue, number: 9)] : []))
    }

    @Test func `SUBACK waits for members that others have to know of, not for how many there are`() {
        var bus = openBus(with: [NodeID(2)])
        func members(_ connected: Int, away: Int = 0) -> UInt64? {
            bus.members(of: group, part: 0, GroupSize(connected: connected, away: away), now: 0, sink)
        }
        let first = members(1)
        // Who comes as the second one waits for the same.
        #expect(first != nil && members(2) == first)
        answer(&bus, from: NodeID(2))
        #expect(members(3) == nil && bus.want(group.filter, now: 0, sink) == nil)
        answer(&bus, from: NodeID(2))
        // Another filter is asked for, and one that is covered waits for that.
        let other = bus.want(Array("b/#".utf8), now: 0, sink)
        #expect(other != nil && bus.want(Array("b/c".utf8), now: 0, sink) == other && members(2) == nil)
        for _ in 0..<4 { answer(&bus, from: NodeID(2)) }
        #expect(bus.isInForce(bus.lastTicket) && members(0, away: 2) == nil)
        // Connected ones come first, so others have to know of the first.
        #expect(members(1, away: 1) != nil)
    }

    @Test func `a node alone is open as soon as it is connected and knows that it is alone`() {
        var bus = makeBus()
        bus.attached(now: 0, sink)
        #expect(sink.take() == ["SUB n.0000000000000001.> 1", "SUB o 2"])
        #expect(publish(&bus, "a") == .held)
        bus.live([NodeID(1)], now: 5, sink)
        #expect(sink.take() == ["PUB t.a", "confirm 1"] && bus.state == .open)
        #expect(bus.want(Array("a/#".utf8), now: 5, sink) == nil)
        #expect(sink.take() == ["SUB t.a 3", "SUB t.a.> 4", "confirm 2"])
        bus.release(Array("a/#".utf8), sink)
        #expect(sink.take() == ["UNSUB 3", "UNSUB 4"])
        #expect(publish(&bus, "a") == .sent)
    }

    @Test func `interest is confirmed when every other node has answered behind it`() {
        var bus = openBus(with: [NodeID(2), NodeID(3)])
        #expect(bus.want(Array("a".utf8), now: 0, sink) == 2)
        #expect(sink.take() == ["SUB t.a 3", "PUB n.0000000000000002.f", "PUB n.0000000000000003.f"])
        // What comes while a fence is under way needs the next one, and what is covered no subject, but the fence.
        #expect(bus.want(Array("b/#".utf8), now: 0, sink) == 3)
        #expect(bus.want(Array("b/c".utf8), now: 0, sink) == 3)
        answer(&bus, from: NodeID(3))
        #expect(sink.take() == ["SUB t.b 4", "SUB t.b.> 5"])
        answer(&bus, from: NodeID(2))
        #expect(sink.take() == ["PUB n.0000000000000002.f", "PUB n.0000000000000003.f", "confirm 2"])
        answer(&bus, from: NodeID(2))
        answer(&bus, from: NodeID(2))
        #expect(sink.take() == [])
        // One that has no lease any more is not waited for.
        bus.live([NodeID(2)], now: 0, sink)
        #expect(sink.take() == ["confirm 3"])
        #expect(bus.want(Array("b/c".utf8), now: 0, sink) == nil)
    }

    @Test func `who does not answer is asked again each second`() {
        var bus = openBus(with: [NodeID(2)])
        #expect(bus.wakesAt == nil)
        _ = bus.want(Array("a".utf8), now: 100, sink)
        _ = sink.take()
        #expect(bus.wakesAt == 1100)
        bus.tick(now: 1099, sink)
        #expect(sink.take() == [])
        bus.tick(now: 1100, sink)
        #expect(sink.take() == ["PUB n.0000000000000002.f"])
        #expect(bus.wakesAt == 2100)
    }

    @Test func `a node that the engine does not know is waited for until it has said so for three seconds`() {
        var bus = openBus(with: [NodeID(2)])
        _ = bus.want(Array("a".utf8), now: 0, sink)
        answer(&bus, from: NodeID(2), isNobodyThere: true, now: 10)
        answer(&bus, from: NodeID(2), isNobodyThere: true, now: 3009)
        #expect(!sink.take().contains("confirm 2"))
        answer(&bus, from: NodeID(2), isNobodyThere: true, now: 3010)
        #expect(sink.take() == ["confirm 2"])
        // From then on each fence asks once.
        _ = bus.want(Array("b".utf8), now: 4000, sink)
        answer(&bus, from: NodeID(2), isNobodyThere: true, now: 4001)
        #expect(sink.take().last == "confirm 3")
        // After another connection it is another server's word.
        bus.detached(sink)
        bus.attached(now: 5000, sink)
        answer(&bus, from: NodeID(2), isNobodyThere: true, now: 5001)
        #expect(bus.state == .joining)
    }

    @Test func `after a new connection all interest is asked for again, and nothing leaves before the others have answered`() {
        var bus = openBus(with: [NodeID(2)])
        _ = bus.want(Array("b".utf8), now: 0, sink)
        _ = bus.want(Array("a".utf8), now: 0, sink)
        bus.detached(sink)
        _ = sink.take()
        #expect(publish(&bus, "x") == .dropped)
        #expect(bus.want(Array("c".utf8), now: 0, sink) == 3)
        bus.attached(now: 50, sink)
        #expect(
            sink.take() == [
                "SUB n.0000000000000001.> 5", "SUB o 6", "SUB t.a 7", "SUB t.b 8", "SUB t.c 9", "PUB n.0000000000000002.j",
            ])
        #expect(publish(&bus, "y") == .held)
        // An answer to what was asked on the connection before says nothing of this one.
        receive(&bus, space.answer(to: NodeID(1), from: NodeID(2), fence: 2))
        #expect(bus.state == .joining)
        answer(&bus, from: NodeID(2))
        #expect(sink.take() == ["PUB t.y", "confirm 3"] && bus.state == .open)
    }

    @Test func `a node that works detached confirms at once while it is`() {
        var bus = makeBus(worksDetached: true)
        #expect(bus.want(Array("a".utf8), now: 0, sink) == nil)
        bus.live([NodeID(2)], now: 0, sink)
        bus.attached(now: 0, sink)
        #expect(bus.want(Array("b".utf8), now: 0, sink) == 2)
        _ = sink.take()
        bus.detached(sink)
        #expect(sink.take() == ["confirm 2"])
    }

    @Test func `a fence is answered, and one who arrives is asked again what it may have lost`() {
        var bus = openBus(with: [NodeID(2)])
        let asked = space.answer(to: NodeID(2), from: NodeID(1), fence: 9)
        receive(&bus, space.fence(to: NodeID(1)), reply: asked)
        #expect(sink.take() == ["PUB n.0000000000000002.a.0000000000000001.0000000000000009"])
        _ = bus.want(Array("a".utf8), now: 0, sink)
        _ = sink.take()
        receive(&bus, space.arrival(to: NodeID(1)), reply: asked)
        #expect(sink.take() == ["PUB n.0000000000000002.a.0000000000000001.0000000000000009", "PUB n.0000000000000002.f"])
        // Who arrives before the list names it is asked too.
        receive(&bus, space.arrival(to: NodeID(1)), reply: space.answer(to: NodeID(3), from: NodeID(1), fence: 1))
        answer(&bus, from: NodeID(2))
        _ = bus.want(Array("b".utf8), now: 0, sink)
        #expect(bus.waitingFor == [NodeID(2), NodeID(3)])
        // What is no fence is counted.
        receive(&bus, space.fence(to: NodeID(1)), reply: [])
        #expect(bus.counters.illegible == 1)
    }

    @Test func `each message comes once, by whichever filters`() {
        var bus = openBus(with: [NodeID(2)])
        func message(_ sequence: UInt64, _ node: UInt64) -> [UInt8] {
            var bytes: [UInt8] = []
            Array("\(sequence)".utf8).withUnsafeBytes { text in
                withMessage([], text) { $0.encode(from: NodeID(node), sequence: sequence, withTopic: false, now: 0, into: &bytes) }
            }
            return bytes
        }
        let subject = Array("martlet.c.t.a".utf8)
        for (sequence, node) in [(1, 2), (1, 2), (3, 2), (2, 2), (1, 3), (4, 1)] as [(UInt64, UInt64)] {
            receive(&bus, subject, message(sequence, node))
        }
        #expect(sink.take() == ["MSG a 1", "MSG a 3", "MSG a 1"])
        #expect(bus.counters.copies == 2 && bus.counters.received == 3)
        receive(&bus, subject, [1, 2, 3])
        receive(&bus, Array("martlet.c.t.a%2B".utf8), message(9, 2))
        receive(&bus, space.overflow, message(9, 2))
        #expect(bus.counters.illegible == 3)
    }
}
