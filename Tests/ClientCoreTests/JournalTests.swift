import ClientCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@Suite struct JournalTests {
    private func journaled() -> Conversation {
        Conversation {
            $0.cleanStart = false
            $0.isJournaled = true
        }
    }

    @Test func `changes tell each step of what is published`() throws {
        var talk = journaled()
        let early = try talk.publish("early", qos: .atLeastOnce)
        #expect(talk.session.takeChanges().isEmpty, "what waits is its owner's to store")
        talk.connect()
        let ticket = try talk.publish("a", qos: .exactlyOnce)
        let first = talk.session.takeChanges()
        #expect(
            first == [
                .sent(early, packetIdentifier: 1, Publication("early", qos: .atLeastOnce)),
                .sent(ticket, packetIdentifier: 2, Publication("a", qos: .exactlyOnce)),
            ])
        talk.serverSends(Conversation.acknowledgement(.pubrec, 2))
        talk.serverSends(Conversation.acknowledgement(.puback, 1, .quotaExceeded))
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 2))
        let second = talk.session.takeChanges()
        #expect(second == [.released(ticket), .done(early, .quotaExceeded), .done(ticket, .success)])
    }

    @Test func `changes tell of messages of QoS 2 that came, and of no others`() {
        var talk = journaled()
        talk.connect()
        talk.serverSends(.publish(PublishPacket(topic: "a")))
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 1, qos: .atLeastOnce)))
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 2, qos: .exactlyOnce)))
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 2, qos: .exactlyOnce, duplicate: true)))
        talk.serverSends(Conversation.acknowledgement(.pubrel, 2))
        talk.serverSends(Conversation.acknowledgement(.pubrel, 2))
        let changes = talk.session.takeChanges()
        #expect(changes == [.received(packetIdentifier: 2), .forgotten(packetIdentifier: 2)])
    }

    @Test func `without a journal there is nothing to take`() throws {
        var talk = Conversation()
        talk.connect()
        try talk.publish("a", qos: .atLeastOnce)
        #expect(talk.session.takeChanges().isEmpty)
    }

    @Test(.statement("MQTT-4.1.0-1", .v5), .statement("MQTT-4.4.0-1", .v5))
    func `a session goes on after a crash from what is stored`() throws {
        var before = journaled()
        before.connect()
        let sent = try before.publish("sent", [1], qos: .exactlyOnce)
        let released = try before.publish("released", [2], qos: .exactlyOnce)
        before.serverSends(Conversation.acknowledgement(.pubrec, 2))
        before.serverSends(.publish(PublishPacket(topic: "down", packetIdentifier: 7, qos: .exactlyOnce)))
        var stored = StoredClientSession()
        for change in before.session.takeChanges() { stored.apply(change) }

        var talk = journaled()
        talk.session = ClientSession(talk.session.options, restoring: stored)
        let next = try talk.publish("next", [3], qos: .atLeastOnce)
        #expect(next > released, "tickets go on")
        #expect(talk.session.unacknowledgedCount == 3)
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket(sessionPresent: true)))
        let packets = talk.sent()
        #expect(
            packets == [
                Conversation.acknowledgement(.pubrel, 2),
                .publish(
                    PublishPacket(topic: "sent", packetIdentifier: 1, qos: .exactlyOnce, duplicate: true, payload: [1])),
                .publish(PublishPacket(topic: "next", packetIdentifier: 3, qos: .atLeastOnce, payload: [3])),
            ])
        _ = talk.events()
        talk.serverSends(.publish(PublishPacket(topic: "down", packetIdentifier: 7, qos: .exactlyOnce, duplicate: true)))
        talk.serverSends(Conversation.acknowledgement(.pubrel, 7))
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 2))
        #expect(talk.events() == [.published(released, .success)], "the message is not told again")
        #expect(talk.sent() == [Conversation.acknowledgement(.pubrec, 7), Conversation.acknowledgement(.pubcomp, 7)])
        #expect(sent < released)
    }

    @Test func `a session that the server has forgotten is stored as what is to be sent as new`() throws {
        var talk = journaled()
        talk.connect()
        var stored = StoredClientSession()
        let first = try talk.publish("first", [1], qos: .exactlyOnce)
        let second = try talk.publish("second", [2], qos: .exactlyOnce)
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1))
        talk.serverSends(.publish(PublishPacket(topic: "down", packetIdentifier: 7, qos: .exactlyOnce)))
        for change in talk.session.takeChanges() { stored.apply(change) }
        talk.session.transportClosed()
        talk.connect()
        let changes = talk.session.takeChanges()
        let publication = Publication("second", [2], qos: .exactlyOnce)
        #expect(changes == [.done(first, .success), .startedOver, .sent(second, packetIdentifier: 1, publication)])
        for change in changes.prefix(2) { stored.apply(change) }
        let waiting = StoredClientSession.Outgoing(ticket: second, packetIdentifier: nil, publication: publication)
        #expect(stored == StoredClientSession(outgoing: [waiting], received: [], lastTicket: second))
        var restored = journaled()
        restored.session = ClientSession(talk.session.options, restoring: stored)
        #expect(restored.withdraw(second) == false)
        restored.session.transportOpened(now: 0)
        _ = restored.sent()
        restored.serverSends(.connack(ConnackPacket(sessionPresent: true)))
        #expect(restored.sentMessages().map(\.duplicate) == [false])
    }

    /// What the world comes to, whatever the faults.
    private func expectDelivered(_ world: ModelWorld, forgetful: Bool, _ faults: some Any) {
        #expect(world.isDone, "\(faults)")
        for (messages, sent) in [(world.server.taken, Self.publishing), (world.inbox, Self.receiving)] {
            var firsts: [[UInt8]] = []
            for message in messages where !firsts.contains(message) { firsts.append(message) }
            #expect(firsts == sent.map { [$0.payload] }, "in order, none lost: \(faults)")
            guard !forgetful else { continue }
            for (payload, qos) in sent where qos == .exactlyOnce {
                #expect(messages.count { $0 == [payload] } == 1, "\(payload) once: \(faults)")
            }
        }
    }

    private static let publishing: [(payload: UInt8, qos: QoS)] = [
        (1, .exactlyOnce), (2, .atLeastOnce), (3, .exactlyOnce), (4, .atLeastOnce),
    ]
    private static let receiving: [(payload: UInt8, qos: QoS)] = [(11, .exactlyOnce), (12, .atLeastOnce), (13, .exactlyOnce)]

    private func run(_ faults: [Int: ModelWorld.Fault], window: Int, choose: () -> Int) -> ModelWorld {
        var world = ModelWorld(publishing: Self.publishing, receiving: Self.receiving, window: window)
        var pending = faults
        for _ in 0..<2000 {
            if let fault = pending.removeValue(forKey: world.stepCount) { world.suffer(fault) }
            if !world.step(preferring: choose()) { break }
        }
        return world
    }

    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: [1, 4])
    func `a crash at any point, with any prefix of the changes stored, loses and repeats nothing`(window: Int) {
        let length = run([:], window: window) { 0 }.stepCount
        for point in 0...length {
            for stored in 0...4 {
                for arrives in [false, true] {
                    for second in [point + 1, point + 5] {
                        let faults: [Int: ModelWorld.Fault] = [
                            point: .crash(stored: stored, arrives: arrives), second: .crash(stored: stored / 2, arrives: !arrives),
                        ]
                        expectDelivered(run(faults, window: window) { 0 }, forgetful: false, faults)
                    }
                }
            }
        }
    }

    @Test(arguments: 0..<150)
    func `cuts, crashes and a forgetful server in any interleaving lose nothing`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var faults: [Int: ModelWorld.Fault] = [:]
        let mayForget = seed % 3 == 0
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            let fault: ModelWorld.Fault =
                switch Int.random(in: 0..<(mayForget ? 3 : 2), using: &generator) {
                case 0: .cut
                case 1: .crash(stored: .random(in: 0...6, using: &generator), arrives: .random(using: &generator))
                default: .forgetful
                }
            faults[Int.random(in: 0...60, using: &generator)] = fault
        }
        let window = Int.random(in: 1...4, using: &generator)
        let world = run(faults, window: window) { Int.random(in: 0...5, using: &generator) }
        expectDelivered(world, forgetful: mayForget, faults)
    }
}
