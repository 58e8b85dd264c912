import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Section 4.7: topic names and topic filters.
@Suite struct Topic5Tests {
    @Test(
        .statement("MQTT-4.7.1-1", .v5), .statement("MQTT-4.7.1-2", .v5), .statement("MQTT-4.7.3-1", .v5),
        arguments: ["a#", "#a", "#/a", "a/#/b", "a/b#", "##", "a+", "+a", "a/b+", "++", "a/+b/c", ""])
    func `an illegal filter ends the connection with 0x8F`(filter: String) {
        let broker = SimulatedBroker()
        let text = RawPacket.text(filter)
        #expect(broker.ending(after: RawPacket.packet(0x82, [0, 1, 0], text, [0])) == .closed(.topicFilterInvalid))
        #expect(broker.ending(after: RawPacket.packet(0xA2, [0, 1, 0], text)) == .closed(.topicFilterInvalid))
    }

    @Test(
        .statement("MQTT-4.8.2-1", .v5), .statement("MQTT-4.8.2-2", .v5),
        arguments: [
            "$share", "$share/", "$share/g", "$share/g/", "$share//a", "$share/g+/a", "$share/#/a", "$share/+/a", "$share/g/a#",
            "$share/g/#/a",
        ])
    func `a broken shared filter ends the connection with 0x8F`(filter: String) {
        let ending = SimulatedBroker().ending(after: RawPacket.packet(0x82, [0, 1, 0], RawPacket.text(filter), [0]))
        // `$share` alone is an ordinary filter.
        #expect(ending == (filter == "$share" ? .open : .closed(.topicFilterInvalid)))
    }

    private static let players: [EncodedString] = [
        "sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/player1/score/wimbledon",
    ]

    /// Filters, and of all these topics together those that each matches.
    private static let matches: [(filter: TopicFilter, topics: [EncodedString])] = [
        ("sport/tennis/player1/#", players),
        ("sport/#", players + ["sport", "sport/tennis", "sport/", "sport//player1", "sport/tennis/player2"]),
        ("sport/+", ["sport/", "sport/tennis"]), ("+/+", ["/finance", "sport/tennis", "a/", "sport/", "/", "a b/ü"]),
        ("/+", ["/finance", "/"]), ("+", ["finance", "sport", "é", "e\u{301}", "other", "ACCOUNTS", "Accounts"]),
        ("+/tennis/#", players + ["sport/tennis", "sport/tennis/player2", "/tennis/"]),
        ("sport/+/player1", ["sport/tennis/player1", "sport//player1"]), ("$internal/#", ["$internal", "$internal/a"]),
        ("$internal/+", ["$internal/a"]), ("a b/ü", ["a b/ü"]), ("ACCOUNTS", ["ACCOUNTS"]), ("/", ["/"]), ("é", ["é"]),
        ("e\u{301}", ["e\u{301}"]), ("nothing", []),
    ]

    @Test(
        .statement("MQTT-4.7.1-1", .v5), .statement("MQTT-4.7.1-2", .v5), .statement("MQTT-4.7.2-1", .v5),
        .statement("MQTT-4.7.3-4", .v5), .statement("MQTT-3.3.2-3", .v5), arguments: [1, 4])
    func `every filter gets exactly the topics that it matches`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let topics = Set(Self.matches.flatMap(\.topics))
        let dollar: (EncodedString) -> Bool = { $0.bytes.first == UInt8(ascii: "$") }
        var expected = Self.matches.map { (filter: $0.filter, topics: Set($0.topics)) }
        expected.append(("#", topics.filter { !dollar($0) }))
        let publisher = broker.connected("p")
        for topic in topics { publisher.publish(topic, qos: .atLeastOnce, retain: true) }
        for topic in topics { publisher.publish(topic, "x", qos: .atLeastOnce, retain: true) }
        for (filter, wanted) in expected {
            // What is retained, what is published, and what a shared subscription gets, each on its own way.
            let client = broker.connected("a")
            client.subscribe(filter)
            let retained = Set(client.takeMessages().map { EncodedString($0.topic) })
            for topic in topics { publisher.publish(topic) }
            let live = Set(client.takeMessages().map { EncodedString($0.topic) })
            client.unsubscribe(filter)
            client.subscribe("$share/g/\(filter)" as TopicFilter)
            for topic in topics { publisher.publish(topic) }
            let shared = Set(client.takeMessages().map { EncodedString($0.topic) })
            for (got, way) in [(retained, "retained"), (live, "live"), (shared, "shared")] {
                #expect(got == Set(wanted.map { Optional($0) }), "\(way) \(filter)")
            }
        }
    }

    @Test(.statement("MQTT-4.7.3-3", .v5), arguments: [1, 4])
    func `the longest topic is one like any other`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let bytes = Array(repeating: UInt8(ascii: "x"), count: 65_535)
        guard let topic = EncodedString(bytes), let filter = TopicFilter(topic.description) else {
            Issue.record("65,535 bytes are legal")
            return
        }
        let client = broker.connected("a")
        #expect(client.subscribe(filter)?.reasonCodes == [.grantedQoS2])
        broker.connected("p").publish(topic, "x", qos: .exactlyOnce, retain: true)
        #expect(client.messages.map { $0.topic.utf8.count } == [65_535])
        #expect(client.unsubscribe(filter)?.reasonCodes == [.success])
        #expect(EncodedString(bytes + [1]) == nil)
    }
}
