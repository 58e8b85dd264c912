import MQTTCodec
import Testing

@testable import Federation

/// A bridge by itself, while both sides let it in and afterwards.
@Suite struct JoinTests {
    private func message(_ identifier: UInt16) -> ControlPacket {
        .publish(PublishPacket(topic: "a", packetIdentifier: identifier, qos: .atLeastOnce, payload: [UInt8(identifier)]))
    }

    private func settings(_ version: ProtocolVersion = .v5, _ topics: BridgedTopic...) -> BridgeSettings {
        .test(version, topics.isEmpty ? [BridgedTopic("a", .out, qos: 1)] : topics) { $0.notifies = false }
    }

    /// [MQTT-4.6.0-6 v5]
    @Test func `what came before SUBACK goes out before what comes with it`() throws {
        let lone = LoneBridge(settings())
        let granted = ControlPacket.suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS1]))
        lone.join(here: [.connack(ConnackPacket(sessionPresent: true))])
        _ = try lone.sentThere()
        lone.here(message(1))
        lone.here(granted, message(2), message(3))
        #expect(try lone.sentThere() == [message(1), message(2), message(3)])
    }

    /// [MQTT-3.3.2-9 v5] [MQTT-3.3.2-8 v5]
    @Test func `topics get as many aliases as the other broker allows, anew on each connection`() throws {
        let lone = LoneBridge(settings(.v5, BridgedTopic("#", .out, remotePrefix: "there/")))
        var answer = ConnackPacket()
        answer.properties.topicAliasMaximum = 1
        answer.properties.maximumPacketSize = 40
        for _ in 0..<2 {
            lone.join(answer)
            _ = try lone.sentThere()
            for (topic, length) in [("one", 24), ("one", 1), ("other", 1), ("one", 1)] as [(EncodedString, Int)] {
                lone.here(.publish(PublishPacket(topic: topic, qos: .atMostOnce, payload: Array(repeating: 1, count: length))))
            }
            let sent = try lone.sentThere().compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
            #expect(sent.map(\.topic) == ["there/one", "there/one", "there/other", ""])
            // The first is too large with the alias.
            #expect(sent.map(\.properties.topicAlias) == [nil, 1, nil, 1])
            lone.bridge.farEnded("Connection reset by peer", now: lone.now)
        }
    }

    @Test(arguments: [(0, [nil, nil, nil]), (1, [1, nil, 1]), (10, [1, 2, 1])] as [(UInt16, [UInt16?])])
    func `bridge_max_topic_alias bounds the aliases that the bridge uses too`(maximum: UInt16, aliases: [UInt16?]) throws {
        var settings = settings(.v5, BridgedTopic("#", .out))
        settings.topicAliasMaximum = maximum
        let lone = LoneBridge(settings)
        var answer = ConnackPacket()
        answer.properties.topicAliasMaximum = 7
        lone.join(answer)
        _ = try lone.sentThere()
        for topic in ["house/one", "house/other", "house/one"] as [EncodedString] {
            lone.here(.publish(PublishPacket(topic: topic, qos: .atMostOnce, payload: [1])))
        }
        let sent = try lone.sentThere().compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
        #expect(sent.map(\.properties.topicAlias) == aliases)
    }

    /// [MQTT-3.1.2-24 v5] [MQTT-3.3.2-7 v5]
    @Test func `a message that is left out for its size leaves no alias to rely on`() throws {
        let lone = LoneBridge(settings(.v5, BridgedTopic("#", .out, remotePrefix: "there/")))
        var answer = ConnackPacket()
        answer.properties.topicAliasMaximum = 2
        answer.properties.maximumPacketSize = 40
        lone.join(answer)
        _ = try lone.sentThere()
        let sizes: [(EncodedString, Int)] = [
            ("one", 60), ("one", 1), ("other", 60), ("one", 60), ("one", 2), ("other", 3), ("third", 60),
        ]
        for (topic, length) in sizes {
            lone.here(.publish(PublishPacket(topic: topic, qos: .atMostOnce, payload: Array(repeating: 1, count: length))))
        }
        let sent = try lone.sentThere().compactMap { if case .publish(let packet) = $0 { packet } else { nil } }
        #expect(sent.map(\.topic) == ["there/one", "", "there/other"])
        #expect(sent.map(\.properties.topicAlias) == [1, 1, 2])
        #expect(sent.map(\.payload.count) == [1, 2, 3])
        #expect(lone.bridge.report.droppedOut == 4)
    }

    @Test func `an answer to PINGREQ that is behind others is waited for as long as bytes come, and no longer`() throws {
        let lone = LoneBridge(settings(.v311, BridgedTopic("a", .in)))
        lone.join()
        lone.there(.suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS0])))
        let began = lone.now
        lone.bridge.advance(now: began + 60_000)
        #expect(try lone.sentThere().last == .pingreq)
        for seconds in [80, 110, 140] as [UInt64] {
            lone.now = began + seconds * 1000
            lone.there(.publish(PublishPacket(topic: "a", qos: .atMostOnce, payload: [])))
            lone.bridge.advance(now: lone.now + 29_999)
            #expect(lone.bridge.report.state == .connected)
        }
        lone.bridge.advance(now: lone.now + 30_000)
        #expect(lone.bridge.report.state == .waiting)
    }

    @Test func `what several changes no longer want is unsubscribed from with the next connection`() throws {
        let lone = LoneBridge(settings(.v5, BridgedTopic("a", .in)))
        lone.join()
        lone.bridge.farEnded("Connection reset by peer", now: lone.now)
        for topic in ["b", "c"] {
            lone.bridge.renew(settings(.v5, BridgedTopic(topic, .in)), atOnce: true, now: lone.now)
        }
        _ = try lone.sentThere()
        lone.join(ConnackPacket(sessionPresent: true))
        let unwanted = try lone.sentThere().flatMap { packet -> [TopicFilter] in
            if case .unsubscribe(let packet) = packet { packet.filters } else { [] }
        }
        #expect(unwanted == ["a", "b"])
    }

    @Test func `what a client that was ended here had not answered is not waited for by the next`() throws {
        let lone = LoneBridge(settings())
        lone.bridge.start(now: lone.now)
        lone.enter([.connack(ConnackPacket(sessionPresent: true))], subscribedTo: ["stray"])
        lone.bridge.localClosed(now: lone.now)
        lone.now = max(lone.now, lone.bridge.nextDeadline ?? lone.now)
        lone.join()
        #expect(lone.bridge.report.state == .connected)
    }
}
