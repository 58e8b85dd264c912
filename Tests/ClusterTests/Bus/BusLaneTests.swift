import MQTTCodec
import Testing

@testable import Cluster

/// Writes down what a lane wants.
final class RecordedBus: BusSink {
    var lines: [String] = []
    var replies: [[UInt8]] = []
    private(set) var payloads: [[UInt8]] = []
    private(set) var counts: [Int] = []

    private func text(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: Array(bytes), as: UTF8.self).replacing("martlet.c.", with: "")
    }

    func subscribe(_ subject: [UInt8], identifier: UInt64) { lines.append("SUB \(text(subject)) \(identifier)") }

    func unsubscribe(_ identifier: UInt64) { lines.append("UNSUB \(identifier)") }

    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int) {
        lines.append("PUB \(text(subject))")
        replies.append(Array(reply))
        payloads.append(Array(payload))
        counts.append(count)
    }

    func deliver(_ message: BusMessage, from node: NodeID) {
        let groups = message.hops == 0 ? "" : " to \(message.dispatched?.count ?? 0)"
        lines.append("MSG \(text(message.topic)) \(text(message.payload))\(groups)")
    }

    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt) {
        for one in news { lines.append("LEARN \(one.number) \(text(one.name.filter)) \(one.size.connected)+\(one.size.away)") }
    }

    func forget(_ node: NodeID) { lines.append("FORGET \(node.rawValue)") }

    func confirm(through ticket: UInt64) { lines.append("confirm \(ticket)") }

    func opened() { lines.append("open") }

    func take() -> [String] {
        defer { lines = [] }
        return lines
    }
}

/// Conversations of one lane with an engine of which the test plays the part.
struct BusLaneTests {
    private let space = SubjectSpace(cluster: "c")
    private let bus = RecordedBus()

    private func makeLane(worksDetached: Bool = false) -> BusLane {
        BusLane(node: NodeID(1), space: space, worksDetached: worksDetached)
    }

    private func openLane(with peers: [NodeID] = []) -> BusLane {
        var lane = makeLane()
        lane.live(peers, now: 0, bus)
        lane.attached(now: 0, bus)
        for peer in peers { answer(&lane, from: peer) }
        _ = bus.take()
        return lane
    }

    /// The answer to what the lane has asked last.
    private func answer(
        _ lane: inout BusLane, from node: NodeID, _ nodeMessage: [UInt8] = [], isNobodyThere: Bool = false, now: UInt64 = 0
    ) {
        let reply = bus.replies.last { reply in
            reply.withUnsafeBytes {
                guard case .answer(node, _)? = space.nodeMessage($0)?.nodeMessage else { return false }
                return true
            }
        }
        receive(&lane, reply ?? [], nodeMessage, isNobodyThere: isNobodyThere, now: now)
    }

    private let group = ShareGroupName(shareName: Array("g".utf8), filter: Array("a".utf8))

    /// What a node tells of its members of the group.
    private func nodeMessage(_ number: UInt32, _ size: GroupSize) -> [UInt8] {
        var nodeMessage = GroupUpdate(conversation: 1, after: 0, through: 1)
        nodeMessage.news = [GroupNews(number: number, name: group, size: size)]
        return nodeMessage.encoded
    }

    private func receive(
        _ lane: inout BusLane, _ subject: [UInt8], reply: [UInt8] = [], _ payload: [UInt8] = [], isNobodyThere: Bool = false,
        now: UInt64 = 0
    ) {
        subject.withUnsafeBytes { subject in
            reply.withUnsafeBytes { reply in
                payload.withUnsafeBytes {
                    lane.received(subject: subject, reply: reply, isNobodyThere: isNobodyThere, payload: $0, now: now, bus)
                }
            }
        }
    }

    private func publish(_ lane: inout BusLane, _ topic: String, shares: [GroupShare]? = nil) -> BusLane.Outcome {
        Array(topic.utf8).withUnsafeBytes { topic in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            var message = BusMessage(topic: topic, properties: none, payload: none, qos: .atMostOnce)
            message.shares = shares
            return lane.publish(message, bus)
        }
    }

    private func shares(_ payload: [UInt8]?) -> [GroupShare]? {
        (payload ?? []).withUnsafeBytes { BusMessage.decode($0)?.message.shares }
    }

    @Test func `a node that goes on as another one listens where that is written to`() {
        var lane = openLane(with: [NodeID(2)])
        _ = lane.want(Array("a".utf8), now: 0, bus)
        lane.detached(bus)
        lane.begin(as: NodeID(5))
        _ = bus.take()
        lane.attached(now: 1, bus)
        let lines = bus.take()
        #expect(lines.first?.contains("0000000000000005") == true && lines.contains { $0.hasPrefix("SUB t.a ") })
        #expect(lane.state == .joining)
        // By the list its last incarnation is there still, and another node, of which nobody knows more.
        lane.live([NodeID(1), NodeID(2), NodeID(5)], now: 2, bus)
        #expect(lane.waitingFor == [NodeID(1), NodeID(2)])
        answer(&lane, from: NodeID(2))
        lane.live([NodeID(2), NodeID(5)], now: 3, bus)
        #expect(lane.state == .open)
    }

    @Test func `one that works without servers does not wait for their list to go on as another one`() {
        var lane = makeLane(worksDetached: true)
        lane.live([NodeID(2)], now: 0, bus)
        lane.begin(as: NodeID(5))
        lane.attached(now: 1, bus)
        answer(&lane, from: NodeID(2))
        #expect(lane.state == .open)
    }

    @Test(arguments: [0, 1, 2]) func `what was held for a share group of a node that is gone is dispatched anew`(others: Int) {
        let (gone, there) = (NodeID(2), NodeID(3))
        var lane = makeLane()
        lane.live([gone, there], now: 0, bus)
        lane.attached(now: 0, bus)
        answer(&lane, from: gone, nodeMessage(7, GroupSize(connected: 1)))
        answer(&lane, from: there, others == 1 ? nodeMessage(9, GroupSize(away: 2)) : nodeMessage(9, GroupSize()))
        lane.detached(bus)
        lane.attached(now: 1, bus)
        if others == 2 { _ = lane.members(of: group, part: 0, GroupSize(connected: 1), now: 1, bus) }
        _ = bus.take()
        #expect(publish(&lane, "a", shares: [GroupShare(node: gone, number: 7)]) == .held)
        answer(&lane, from: there)
        #expect(lane.state == .joining)
        lane.live([there], now: 2, bus)
        let lines = bus.take()
        #expect(lines.contains("PUB t.a") && lines.contains("MSG a  to 1") == (others == 2))
        #expect(bus.payloads.lazy.compactMap(shares).last == (others == 1 ? [GroupShare(node: there, number: 9)] : []))
    }

    @Test func `SUBACK waits for members that others have to know of, not for how many there are`() {
        var lane = openLane(with: [NodeID(2)])
        func members(_ connected: Int, away: Int = 0) -> UInt64? {
            lane.members(of: group, part: 0, GroupSize(connected: connected, away: away), now: 0, bus)
        }
        let first = members(1)
        // Who comes as the second one waits for the same.
        #expect(first != nil && members(2) == first)
        answer(&lane, from: NodeID(2))
        #expect(members(3) == nil && lane.want(group.filter, now: 0, bus) == nil)
        answer(&lane, from: NodeID(2))
        // Another filter is asked for, and one that is covered waits for that.
        let other = lane.want(Array("b/#".utf8), now: 0, bus)
        #expect(other != nil && lane.want(Array("b/c".utf8), now: 0, bus) == other && members(2) == nil)
        for _ in 0..<4 { answer(&lane, from: NodeID(2)) }
        #expect(lane.isInForce(lane.lastTicket) && members(0, away: 2) == nil)
        // Connected ones come first, so others have to know of the first.
        #expect(members(1, away: 1) != nil)
    }

    @Test func `a node alone is open as soon as it is connected and knows that it is alone`() {
        var lane = makeLane()
        lane.attached(now: 0, bus)
        #expect(bus.take() == ["SUB n.0000000000000001.> 1", "SUB o 2"])
        #expect(publish(&lane, "a") == .held)
        lane.live([NodeID(1)], now: 5, bus)
        #expect(bus.take() == ["PUB t.a", "open", "confirm 1"])
        #expect(lane.want(Array("a/#".utf8), now: 5, bus) == nil)
        #expect(bus.take() == ["SUB t.a 3", "SUB t.a.> 4", "confirm 2"])
        lane.release(Array("a/#".utf8), bus)
        #expect(bus.take() == ["UNSUB 3", "UNSUB 4"])
        #expect(publish(&lane, "a") == .sent)
    }

    @Test func `interest is confirmed when every other node has answered behind it`() {
        var lane = openLane(with: [NodeID(2), NodeID(3)])
        #expect(lane.want(Array("a".utf8), now: 0, bus) == 2)
        #expect(bus.take() == ["SUB t.a 3", "PUB n.0000000000000002.f", "PUB n.0000000000000003.f"])
        // What comes while a fence is under way needs the next one, and what is covered no subject, but the fence.
        #expect(lane.want(Array("b/#".utf8), now: 0, bus) == 3)
        #expect(lane.want(Array("b/c".utf8), now: 0, bus) == 3)
        answer(&lane, from: NodeID(3))
        #expect(bus.take() == ["SUB t.b 4", "SUB t.b.> 5"])
        answer(&lane, from: NodeID(2))
        #expect(bus.take() == ["PUB n.0000000000000002.f", "PUB n.0000000000000003.f", "confirm 2"])
        answer(&lane, from: NodeID(2))
        answer(&lane, from: NodeID(2))
        #expect(bus.take() == [])
        // One that has no lease any more is not waited for.
        lane.live([NodeID(2)], now: 0, bus)
        #expect(bus.take() == ["confirm 3"])
        #expect(lane.want(Array("b/c".utf8), now: 0, bus) == nil)
    }

    @Test func `who does not answer is asked again each second`() {
        var lane = openLane(with: [NodeID(2)])
        #expect(lane.wakesAt == nil)
        _ = lane.want(Array("a".utf8), now: 100, bus)
        _ = bus.take()
        #expect(lane.wakesAt == 1100)
        lane.tick(now: 1099, bus)
        #expect(bus.take() == [])
        lane.tick(now: 1100, bus)
        #expect(bus.take() == ["PUB n.0000000000000002.f"])
        #expect(lane.wakesAt == 2100)
    }

    @Test func `a node that the engine does not know is waited for until it has said so for three seconds`() {
        var lane = openLane(with: [NodeID(2)])
        _ = lane.want(Array("a".utf8), now: 0, bus)
        answer(&lane, from: NodeID(2), isNobodyThere: true, now: 10)
        answer(&lane, from: NodeID(2), isNobodyThere: true, now: 3009)
        #expect(!bus.take().contains("confirm 2"))
        answer(&lane, from: NodeID(2), isNobodyThere: true, now: 3010)
        #expect(bus.take() == ["confirm 2"])
        // From then on each fence asks once.
        _ = lane.want(Array("b".utf8), now: 4000, bus)
        answer(&lane, from: NodeID(2), isNobodyThere: true, now: 4001)
        #expect(bus.take().last == "confirm 3")
        // After another connection it is another server's word.
        lane.detached(bus)
        lane.attached(now: 5000, bus)
        answer(&lane, from: NodeID(2), isNobodyThere: true, now: 5001)
        #expect(lane.state == .joining)
    }

    @Test func `after a new connection all interest is asked for again, and nothing leaves before the others have answered`() {
        var lane = openLane(with: [NodeID(2)])
        _ = lane.want(Array("b".utf8), now: 0, bus)
        _ = lane.want(Array("a".utf8), now: 0, bus)
        lane.detached(bus)
        _ = bus.take()
        #expect(publish(&lane, "x") == .dropped)
        #expect(lane.want(Array("c".utf8), now: 0, bus) == 3)
        lane.attached(now: 50, bus)
        #expect(
            bus.take() == [
                "SUB n.0000000000000001.> 5", "SUB o 6", "SUB t.a 7", "SUB t.b 8", "SUB t.c 9", "PUB n.0000000000000002.j",
            ])
        #expect(publish(&lane, "y") == .held)
        // An answer to what was asked on the connection before says nothing of this one.
        receive(&lane, space.answer(to: NodeID(1), from: NodeID(2), fence: 2))
        #expect(lane.state == .joining)
        answer(&lane, from: NodeID(2))
        #expect(bus.take() == ["PUB t.y", "open", "confirm 3"])
    }

    @Test func `a node that works detached confirms at once while it is`() {
        var lane = makeLane(worksDetached: true)
        #expect(lane.want(Array("a".utf8), now: 0, bus) == nil)
        lane.live([NodeID(2)], now: 0, bus)
        lane.attached(now: 0, bus)
        #expect(lane.want(Array("b".utf8), now: 0, bus) == 2)
        _ = bus.take()
        lane.detached(bus)
        #expect(bus.take() == ["confirm 2"])
    }

    @Test func `a fence is answered, and one who arrives is asked again what it may have lost`() {
        var lane = openLane(with: [NodeID(2)])
        let asked = space.answer(to: NodeID(2), from: NodeID(1), fence: 9)
        receive(&lane, space.fence(to: NodeID(1)), reply: asked)
        #expect(bus.take() == ["PUB n.0000000000000002.a.0000000000000001.0000000000000009"])
        _ = lane.want(Array("a".utf8), now: 0, bus)
        _ = bus.take()
        receive(&lane, space.arrival(to: NodeID(1)), reply: asked)
        #expect(bus.take() == ["PUB n.0000000000000002.a.0000000000000001.0000000000000009", "PUB n.0000000000000002.f"])
        // Who arrives before the list names it is asked too.
        receive(&lane, space.arrival(to: NodeID(1)), reply: space.answer(to: NodeID(3), from: NodeID(1), fence: 1))
        answer(&lane, from: NodeID(2))
        _ = lane.want(Array("b".utf8), now: 0, bus)
        #expect(lane.waitingFor == [NodeID(2), NodeID(3)])
        // What is no fence is counted.
        receive(&lane, space.fence(to: NodeID(1)), reply: [])
        #expect(lane.counters.illegible == 1)
    }

    @Test func `each message comes once, by whichever filters`() {
        var lane = openLane(with: [NodeID(2)])
        func message(_ sequence: UInt64, _ node: UInt64) -> [UInt8] {
            var bytes: [UInt8] = []
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            let text = Array("\(sequence)".utf8)
            text.withUnsafeBytes {
                BusMessage(topic: none, properties: none, payload: $0, qos: .atMostOnce)
                    .encode(from: NodeID(node), sequence: sequence, withTopic: false, into: &bytes)
            }
            return bytes
        }
        let subject = Array("martlet.c.t.a".utf8)
        for (sequence, node) in [(1, 2), (1, 2), (3, 2), (2, 2), (1, 3), (4, 1)] as [(UInt64, UInt64)] {
            receive(&lane, subject, message(sequence, node))
        }
        #expect(bus.take() == ["MSG a 1", "MSG a 3", "MSG a 1"])
        #expect(lane.counters.copies == 2 && lane.counters.received == 3)
        receive(&lane, subject, [1, 2, 3])
        receive(&lane, Array("martlet.c.t.a%2B".utf8), message(9, 2))
        receive(&lane, space.overflow, message(9, 2))
        #expect(lane.counters.illegible == 3)
    }
}
