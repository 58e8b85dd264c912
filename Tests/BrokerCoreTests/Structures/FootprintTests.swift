import MQTTCodec
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a client costs that is connected and does nothing: there may be a hundred thousand of them.
@Suite struct FootprintTests {
    @Test func `a session and a connection without anything special take 320 bytes each at most, with the allocator's own`() {
        #expect(instanceSize(Session.self) <= 312)
        #expect(instanceSize(Connection.self) <= 312)
    }

    @Test func `a session has extras from when there is something to keep in them`() {
        let session = Session(index: 0, generation: 0, key: 1, clientIdentifier: "client", publisherKey: 1)
        // What each connection and its end say of every session.
        (session.will, session.willName, session.willDueAt, session.mountPoint) = (nil, nil, .max, [])
        (session.retainedSource, session.owed, session.topicPart, session.logFloor) = (nil, nil, nil, nil)
        (session.reportedDrops, session.retainedAhead, session.stepFloor) = (0, 0, .start)
        #expect(session.groups.isEmpty && session.drops.total == 0)
        #expect(session.extras == nil)
        session.drops[.queueFull] += 1
        #expect(session.extras != nil && session.drops[.queueFull] == 1)
    }

    @Test func `what a session has in its extras is what was put there, and goes again`() {
        let session = Session(index: 0, generation: 0, key: 1, clientIdentifier: "client", publisherKey: 1)
        session.will = Will(topic: "t", payload: [1], qos: .atMostOnce, retain: false)
        (session.willDueAt, session.mountPoint, session.retainedAhead, session.reportedDrops) = (5, [1], 2, 3)
        session.stepFloor = FlowStep.Place(epoch: 1, number: 2)
        session.topicPart = TopicPart(index: 1, count: 2, publisher: "p")
        session.groups.append(GroupMembership(name: GroupName(shareName: "g", filter: Array("f".utf8)), group: 7))
        #expect(session.will?.payload == [1] && session.willDueAt == 5 && session.mountPoint == [1])
        #expect(session.retainedAhead == 2 && session.reportedDrops == 3 && session.topicPart?.count == 2)
        #expect(session.stepFloor == FlowStep.Place(epoch: 1, number: 2) && session.groups.first?.group == 7)
        session.will?.topic = "u"
        #expect(session.will?.topic == "u")
        (session.will, session.willDueAt, session.mountPoint, session.topicPart) = (nil, .max, [], nil)
        session.groups.removeAll()
        #expect(session.will == nil && session.willDueAt == .max && session.mountPoint.isEmpty && session.topicPart == nil)
        #expect(session.groups.isEmpty)
    }

    @Test func `the listener of a session may be none`() {
        let session = Session(index: 0, generation: 0, key: 1, clientIdentifier: "client", publisherKey: 1)
        #expect(session.owner.listener == nil)
        session.owner.listener = 3
        #expect(session.owner.listener == 3)
        session.owner.listener = nil
        #expect(session.owner.listener == nil)
    }
}

/// The bytes of an instance, which the runtime keeps in a word of the class, behind its kind, its superclass, its flags
/// and an offset.
private func instanceSize(_ type: AnyClass) -> Int {
    Int(unsafeBitCast(type, to: UnsafeRawPointer.self).load(fromByteOffset: 24, as: UInt32.self))
}
