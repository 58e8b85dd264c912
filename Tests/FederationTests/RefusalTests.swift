import MQTTCodec
import Testing

@testable import Federation

/// What becomes of a message that the other broker does not take, or may not be sent.
@Suite struct RefusalTests {
    private func joined(
        _ answer: ConnackPacket = ConnackPacket(), _ change: (inout BridgeSettings) -> Void = { _ in }
    ) -> LoneBridge {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out, qos: 2)]) {
                $0.notifies = false
                change(&$0)
            })
        lone.join(answer)
        return lone
    }

    private func message(_ identifier: UInt16, _ qos: QoS = .atLeastOnce) -> ControlPacket {
        .publish(PublishPacket(topic: "a", packetIdentifier: qos == .atMostOnce ? nil : identifier, qos: qos, payload: [1]))
    }

    private func answer(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode) -> ControlPacket {
        .acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: reason))
    }

    private func publications(_ packets: [ControlPacket]) -> [PublishPacket] {
        packets.compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
    }

    private func acknowledgements(_ packets: [ControlPacket]) -> [AcknowledgementPacket] {
        packets.compactMap { if case .acknowledgement(let packet) = $0 { packet } else { nil } }
    }

    @Test(arguments: [(QoS.atLeastOnce, PacketType.puback), (.exactlyOnce, .pubrec)])
    func `a message that the other broker has no room for is kept, and sent again on the next connection`(
        qos: QoS, type: PacketType
    ) throws {
        let lone = joined()
        for round in 1...3 {
            lone.here(message(1, qos))
            #expect(publications(try lone.sentThere()).count == 1)
            lone.there(answer(type, 1, .quotaExceeded))
            #expect(acknowledgements(try lone.sentHere()).isEmpty)
            #expect(lone.hangUps == round)
            lone.join()
        }
        #expect(lone.bridge.report.postponedOut == 3 && lone.bridge.report.droppedOut == 0)
        #expect(lone.warnings.filter { $0.contains("no room") }.count == 1)
    }

    @Test func `a packet identifier that the other broker has in use is released there, and the message sent again`() throws {
        let lone = joined()
        lone.here(message(7, .exactlyOnce))
        _ = try lone.sentThere()
        lone.there(answer(.pubrec, 7, .packetIdentifierInUse))
        #expect(acknowledgements(try lone.sentThere()) == [AcknowledgementPacket(type: .pubrel, packetIdentifier: 7)])
        #expect(acknowledgements(try lone.sentHere()).isEmpty)
        #expect(lone.hangUps == 1)
    }

    @Test(arguments: [
        ReasonCode.unspecifiedError, .implementationSpecificError, .notAuthorized, .topicNameInvalid, .payloadFormatInvalid,
    ])
    func `a message that the other broker does not want is done with, and told of once`(_ reason: ReasonCode) throws {
        let lone = joined()
        for identifier in 1...3 as ClosedRange<UInt16> {
            lone.here(message(identifier))
            lone.there(answer(.puback, identifier, reason))
        }
        #expect(acknowledgements(try lone.sentHere()).map(\.reasonCode) == [reason, reason, reason])
        #expect(lone.bridge.report.droppedOut == 3 && lone.hangUps == 0)
        #expect(lone.warnings.count == 1)
    }

    /// [MQTT-3.3.4-9 v5]
    @Test(arguments: [(UInt16(1), QoS.atMostOnce, UInt16(1)), (2, .atLeastOnce, 1), (10, .atLeastOnce, 9), (100, .atLeastOnce, 20)])
    func `the notice counts among what the other broker takes at once`(far: UInt16, qos: QoS, window: UInt16) throws {
        var answer = ConnackPacket()
        answer.properties.receiveMaximum = far
        let lone = joined(answer) { $0.notifies = true }
        #expect(publications(try lone.sentThere()).map(\.qos) == [qos])
        #expect(lone.joins.last?.receiveMaximum == window)
    }

    /// It would be sent again, and end each connection that was made for it.
    @Test func `a message that this broker does not take for its size is answered, and what follows comes in`() throws {
        let lone = LoneBridge(.test(.v311, [BridgedTopic("a", .in, qos: 2)]) { $0.notifies = false })
        var welcome = ConnackPacket(sessionPresent: true)
        welcome.properties.maximumPacketSize = 1000
        lone.join(here: [.connack(welcome)])
        lone.there(.suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS2])))
        _ = (try lone.sentThere(), try lone.sentHere())
        func message(_ identifier: UInt16, _ qos: QoS, _ length: Int) -> [UInt8] {
            let payload = Array(repeating: UInt8(identifier), count: length)
            return ControlPacket.publish(PublishPacket(topic: "a", packetIdentifier: identifier, qos: qos, payload: payload))
                .encoded(version: .v311)
        }
        let bytes = message(1, .atLeastOnce, 5_000) + message(2, .atLeastOnce, 500_000) + message(3, .exactlyOnce, 200_000)
        for start in stride(from: 0, to: bytes.count, by: 30_000) {
            bytes[start..<min(bytes.count, start + 30_000)].withUnsafeBytes { lone.bridge.received($0, now: lone.now) }
        }
        lone.there(.publish(PublishPacket(topic: "a", packetIdentifier: 4, qos: .atLeastOnce, payload: [4])))
        #expect(
            acknowledgements(try lone.sentThere()).map { [$0.type.rawValue, UInt8($0.packetIdentifier)] } == [
                [4, 1], [4, 2], [5, 3],
            ])
        #expect(publications(try lone.sentHere()).map(\.packetIdentifier) == [4])
        #expect(lone.bridge.report.droppedIn == 3 && lone.hangUps == 0)
    }

    @Test func `what a lazy bridge has collected is no larger than what the other broker takes`() throws {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out)]) {
                $0.notifies = false
                $0.start = .lazy(messages: 2, idleMilliseconds: 1000)
            })
        var answer = ConnackPacket()
        answer.properties.maximumPacketSize = 50
        lone.start()
        for length in [100, 10] {
            lone.here(.publish(PublishPacket(topic: "a", qos: .atMostOnce, payload: Array(repeating: 1, count: length))))
        }
        lone.join(answer)
        #expect(publications(try lone.sentThere()).map(\.payload.count) == [10])
    }

    @Test func `a lazy bridge waits before it comes back to a broker that drops it`() {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out, qos: 1)]) {
                $0.notifies = false
                $0.start = .lazy(messages: 1, idleMilliseconds: 60_000)
            })
        lone.start()
        lone.here(message(1))
        lone.join()
        #expect(lone.bridge.report.state == .connected)
        lone.bridge.farEnded("Connection reset by peer", now: lone.now)
        #expect(lone.bridge.nextDeadline ?? 0 > lone.now)
    }

    /// What waits decides, not the pause that is meant for bridges that always connect; see mosquitto.conf(5).
    @Test func `a lazy bridge that has lost its connection connects when the threshold is reached, not after restart_timeout`() {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out, qos: 1)]) {
                $0.notifies = false
                $0.start = .lazy(messages: 2, idleMilliseconds: 60_000)
                $0.restart = .init(base: 3_600_000, cap: nil)
            })
        lone.start()
        for identifier in 1...2 as ClosedRange<UInt16> { lone.here(message(identifier)) }
        lone.join()
        lone.now += 2000
        lone.bridge.farEnded("Connection reset by peer", now: lone.now)
        let pause = (lone.bridge.nextDeadline ?? .max) - lone.now
        #expect((1...1000).contains(pause))
        lone.now += pause
        lone.bridge.advance(now: lone.now)
        lone.enter(LoneBridge.letsIn)
        #expect(lone.bridge.report.state == .idle && lone.bridge.nextDeadline == nil)
        lone.here(message(1))
        #expect(lone.bridge.nextDeadline == nil, "one is fewer than two")
        lone.here(message(2))
        #expect(lone.bridge.nextDeadline == lone.now)
    }

    @Test func `a lazy bridge whose attempts fail waits longer each time, at most for restart_timeout`() {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("a", .out, qos: 1)]) {
                $0.notifies = false
                $0.start = .lazy(messages: 1, idleMilliseconds: 60_000)
                $0.restart = .init(base: 6000, cap: nil)
            })
        lone.start()
        lone.here(message(1))
        var pauses: [UInt64] = []
        for _ in 1...5 {
            lone.bridge.advance(now: lone.now)
            lone.bridge.dialFailed("Connection refused", now: lone.now)
            pauses.append((lone.bridge.nextDeadline ?? .max) - lone.now)
            lone.now = lone.bridge.nextDeadline ?? .max
        }
        #expect(pauses == [1000, 2000, 4000, 6000, 6000])
    }

    @Test
    func `what would begin with a dollar sign without its prefix crosses in neither direction, and is counted and told of once`()
        throws
    {
        let lone = LoneBridge(
            .test(.v5, [BridgedTopic("#", .out, qos: 2, localPrefix: "o/"), BridgedTopic("#", .in, qos: 2, remotePrefix: "i/")]) {
                $0.notifies = false
            })
        lone.join(here: [
            .connack(ConnackPacket(sessionPresent: true)),
            .suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS2])),
        ])
        lone.there(.suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS2])))
        _ = (try lone.sentThere(), try lone.sentHere())
        func message(_ topic: String, _ identifier: UInt16) -> ControlPacket {
            .publish(
                PublishPacket(topic: TopicName(topic)?.text ?? "", packetIdentifier: identifier, qos: .atLeastOnce, payload: [1]))
        }
        for (identifier, name) in zip(UInt16(1)..., ["$CONTROL/dynamic-security/v1", "$SYS/broker/version", "$share/g/x", "a"]) {
            lone.here(message("o/" + name, identifier))
            lone.there(message("i/" + name, identifier))
        }
        let (there, here) = (try lone.sentThere(), try lone.sentHere())
        #expect(publications(there).map(\.topic) == ["a"] && publications(here).map(\.topic) == ["a"])
        #expect(acknowledgements(there).map(\.packetIdentifier) == [1, 2, 3])
        #expect(acknowledgements(here).map(\.packetIdentifier) == [1, 2, 3])
        #expect(lone.bridge.report.droppedOut == 3 && lone.bridge.report.droppedIn == 3)
        #expect(lone.warnings.count == 2 && lone.warnings.allSatisfy { $0.contains("begin with $") })
    }
}
