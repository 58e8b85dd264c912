import BrokerCore
import BrokerModel
import MQTTCodec

/// What a client can make large: each does work for an input of `size` parts.
enum GrowthScenario: String, CaseIterable {
    case equalFilters, equalFiltersOnThreeShards, filters, filtersOnThreeShards, filtersBehindAStall, unsubscribing
    case identifiers, shareGroups, shareGroupsOfQoS2, shareGroupMembers, absentMembers, fullQueue, sessions, retained, takeovers
    case userProperties, packetInPieces, acknowledgements, storedSubscriptions, dealtMessages, membersThatLeave
    case deepFilters, endsOfSessions, presence, vanishingClients

    func run(_ size: Int) {
        switch self {
        case .equalFilters: Self.subscribe(shards: 1) { Array(repeating: "r/+", count: size) }
        case .equalFiltersOnThreeShards: Self.subscribe(shards: 3) { Array(repeating: "r/+", count: size) }
        case .filters: Self.subscribe(shards: 1) { (0..<size).map { "r/\($0)/+" } }
        case .filtersOnThreeShards: Self.subscribe(shards: 3) { (0..<size).map { "r/\($0)" } }
        case .filtersBehindAStall: Self.filtersBehindAStall(size)
        case .unsubscribing: Self.unsubscribing(size)
        case .identifiers: Self.identifiers(size)
        case .shareGroups: Self.shareGroups(size)
        case .shareGroupsOfQoS2: Self.shareGroupsOfQoS2(size)
        case .shareGroupMembers: Self.shareGroupMembers(size)
        case .absentMembers: Self.absentMembers(size)
        case .fullQueue: Self.fullQueue(size)
        case .sessions: Self.sessions(size)
        case .retained: Self.retained(size)
        case .takeovers: Self.takeovers(size)
        case .userProperties: Self.userProperties(size)
        case .packetInPieces: Self.packetInPieces(size)
        case .acknowledgements: Self.acknowledgements(size)
        case .storedSubscriptions: Self.storedSubscriptions(size)
        case .dealtMessages: Self.dealtMessages(size)
        case .membersThatLeave: Self.membersThatLeave(size)
        case .deepFilters: Self.deepFilters(size)
        case .endsOfSessions: Self.endsOfSessions(size)
        case .presence: Self.presence(size)
        case .vanishingClients: Self.vanishingClients(size)
        }
    }

    private static func deep(_ count: Int) -> [String] {
        (0..<count).map { "\($0)" + String(repeating: "/x", count: 100) }
    }

    /// One SUBSCRIBE and one UNSUBSCRIBE with many filters of many levels, which take many turns.
    private static func deepFilters(_ size: Int) {
        let broker = GrowthBroker(shards: 2)
        let client = broker.connect("client")
        client.publish("r", retain: true)
        client.subscribe(deep(size))
        client.unsubscribe(deep(size))
        client.close()
    }

    /// The ends of sessions with many such filters, while others go on.
    private static func endsOfSessions(_ size: Int) {
        let broker = GrowthBroker()
        let other = broker.connect("other")
        for round in 0..<3 {
            let client = broker.connect("client")
            client.subscribe(deep(size))
            if round == 0 { client.close() }
            other.publish("1/x")
        }
    }

    /// Events of a client with a long name, which somebody reads.
    private static func presence(_ size: Int) {
        let broker = GrowthBroker {
            $0.presenceTopics = .all
            $0.queuedMessagesMax = 0
        }
        let reader = broker.connect("reader")
        reader.subscribe(["$SYS/brokers/#"])
        let client = broker.connect(String(repeating: "n", count: 30_000))
        client.subscribe((0..<size).map { "f/\($0)" })
    }

    /// Clients with a subscription and a will that come and are lost, each with its lines in the log.
    private static func vanishingClients(_ size: Int) {
        let broker = GrowthBroker { $0.logTopics = .standard }
        broker.connect("publisher").publish("r", retain: true)
        let successor = broker.connect("heir")
        successor.subscribe(["will/#"])
        let clients = (0..<size).map { number in
            broker.connect("c\(number)", will: Will(topic: "will/x", payload: [1], qos: .atMostOnce, retain: false))
        }
        for (number, client) in clients.enumerated() { client.subscribe(["c/\(number)"]) }
        for client in clients { client.close() }
    }

    /// One SUBSCRIBE with many filters, where some messages are retained.
    private static func subscribe(shards: Int, _ filters: () -> [String]) {
        let broker = GrowthBroker(shards: shards)
        let publisher = broker.connect("publisher")
        for number in 0..<30 { publisher.publish("r/\(number)", retain: true) }
        let client = broker.connect("client")
        client.subscribe(filters())
        client.close()
    }

    /// The same, of a client that does not read, while another one publishes.
    private static func filtersBehindAStall(_ size: Int) {
        let broker = GrowthBroker(shards: 3)
        let publisher = broker.connect("publisher")
        for number in 0..<300 { publisher.publish("r/\(number)", qos: .atLeastOnce, retain: true) }
        let client = broker.connect("client")
        broker.stall(client)
        client.subscribe((0..<size).map { "r/+/\($0)/#" } + ["r/+"])
        for _ in 0..<size { publisher.publish("other") }
        client.close()
    }

    private static func unsubscribing(_ size: Int) {
        let broker = GrowthBroker(shards: 3)
        let client = broker.connect("client")
        let filters = (0..<size).map { "u/\($0)/+" }
        client.subscribe(filters)
        client.unsubscribe(filters)
        client.subscribe(filters)
        client.close()
    }

    /// Filters that all match one topic, each with an identifier.
    private static func identifiers(_ size: Int) {
        let broker = GrowthBroker()
        let client = broker.connect("client")
        let levels = 12
        for number in 0..<size {
            let filter = (0..<levels).map { number >> $0 & 1 == 1 ? "+" : "x" }.joined(separator: "/")
            client.subscribe([filter], identifier: UInt32(number + 1))
        }
        let topic = Array(repeating: "x", count: levels).joined(separator: "/")
        for _ in 0..<5 {
            client.subscribe(["x"])
            client.publish(topic)
        }
    }

    private static func shareGroups(_ size: Int) {
        let broker = GrowthBroker(shards: 3)
        let client = broker.connect("client")
        let filters = (0..<size).map { "$share/g\($0)/t" }
        client.subscribe(filters)
        client.subscribe(filters)
        client.unsubscribe(Array(filters[(size / 2)...]))
        client.close()
    }

    /// A QoS 2 message that many groups give to a member on another shard.
    private static func shareGroupsOfQoS2(_ size: Int) {
        let broker = GrowthBroker(shards: 2, isPersistent: true)
        let publisher = broker.connect("p0", expiry: 100)
        let name = (0..<100).map { "m\($0)" }.first { broker.shard(of: $0) != publisher.shard } ?? ""
        let member = broker.connect(name, expiry: 100)
        member.subscribe((0..<size).map { "$share/g\($0)/t" })
        for _ in 0..<3 { publisher.publish("t", qos: .exactlyOnce) }
    }

    /// A group that many join, half of whose members leave again, while it gets messages.
    private static func shareGroupMembers(_ size: Int) {
        let broker = GrowthBroker()
        let publisher = broker.connect("publisher")
        let members = (0..<size).map { broker.connect("m\($0)", expiry: $0 % 2 == 0 ? 0 : 100) }
        for member in members { member.subscribe(["$share/g/t"]) }
        for _ in 0..<size { publisher.publish("t", qos: .atLeastOnce) }
        for member in members { member.close() }
        for _ in 0..<size { publisher.publish("t", qos: .atLeastOnce) }
    }

    /// Messages to a share group none of whose members is there.
    private static func absentMembers(_ size: Int) {
        let broker = GrowthBroker(shards: 1)
        for number in 0..<size {
            let member = broker.connect("member \(number)", expiry: 1000)
            member.subscribe(["$share/g/t"])
            member.close()
        }
        let publisher = broker.connect("publisher")
        for _ in 0..<size { publisher.publish("t", qos: .atLeastOnce) }
    }

    private static func fullQueue(_ size: Int) {
        let broker = GrowthBroker {
            $0.queueOverflow = .dropsOldest
            $0.queuedMessagesMax = size
        }
        let client = broker.connect("client", expiry: 100)
        client.subscribe(["q"])
        client.close()
        let publisher = broker.connect("publisher")
        for _ in 0..<(2 * size) { publisher.publish("q", qos: .atLeastOnce) }
    }

    /// Sessions that come, subscribe and go, while others wait for retained messages.
    private static func sessions(_ size: Int) {
        let broker = GrowthBroker(shards: 3)
        let publisher = broker.connect("publisher")
        for number in 0..<100 { publisher.publish("r/\(number)", qos: .atLeastOnce, retain: true) }
        let clients = (0..<size).map { broker.connect("c\($0)") }
        for client in clients { client.subscribe(["r/+", "s/#"]) }
        for client in clients { client.close() }
    }

    /// Topics that are set, read and emptied while a scan is under way.
    private static func retained(_ size: Int) {
        let broker = GrowthBroker()
        let publisher = broker.connect("publisher")
        for number in 0..<size { publisher.publish("r/\(number)", retain: true) }
        let client = broker.connect("client")
        client.subscribe(["#"])
        let client2 = broker.connect("client2")
        client2.subscribe(["#"])
        client2.close()
        for _ in 0..<2 {
            for number in 0..<size { publisher.publish("r/\(number)", retain: true) }
        }
        client.close()
    }

    private static func takeovers(_ size: Int) {
        let broker = GrowthBroker(shards: 3)
        for _ in 0..<size { broker.connect("client", expiry: 100, isClean: false).subscribe(["t"]) }
    }

    private static func userProperties(_ size: Int) {
        let broker = GrowthBroker()
        let client = broker.connect("client")
        client.subscribe(["t"])
        var properties = Properties()
        properties.userProperties = Array(repeating: UserProperty(name: "a", value: "b"), count: size)
        client.publish("t", properties: properties)
        var connect = ConnectPacket(version: .v5, cleanStart: true, keepAliveSeconds: 0, clientIdentifier: "other")
        connect.properties = properties
        client.send(.connect(connect))
    }

    private static func packetInPieces(_ size: Int) {
        let broker = GrowthBroker()
        let client = broker.connect("client")
        let packet = PublishPacket(topic: "t", payload: Array(repeating: 1, count: 100 * size))
        let bytes = ControlPacket.publish(packet).encoded(version: .v5)
        for start in stride(from: 0, to: bytes.count, by: 100) { client.send(Array(bytes[start..<min(start + 100, bytes.count)])) }
    }

    /// Messages in flight, acknowledged from the last to the first, with new ones between.
    private static func acknowledgements(_ size: Int) {
        let broker = GrowthBroker { $0.inFlightMessagesMax = 0 }
        let client = broker.connect("client", expiry: 100, receiveMaximum: .max)
        client.subscribe(["t"])
        let publisher = broker.connect("publisher")
        for _ in 0..<size { publisher.publish("t", qos: .atLeastOnce) }
        for identifier in stride(from: size, to: 1, by: -1) {
            client.send(.acknowledgement(AcknowledgementPacket(type: .puback, packetIdentifier: UInt16(identifier))))
            if identifier % 2 == 0 { publisher.publish("t", qos: .atLeastOnce) }
        }
    }

    private static func storedSubscriptions(_ size: Int) {
        let broker = GrowthBroker(shards: 2, isPersistent: true)
        let client = broker.connect("client", expiry: 100)
        client.subscribe((0..<size).map { "u/\($0)" })
        client.subscribe((0..<size).map { "u/\($0)" })
        for _ in 0..<10 { client.publish("u/1", qos: .exactlyOnce) }
        client.unsubscribe((0..<size).map { "u/\($0)" })
    }

    /// Messages that a share group has dispatched out of a cluster's log, acknowledged from the last to the first while
    /// new ones come.
    private static func dealtMessages(_ size: Int) {
        let broker = GrowthBroker(shards: 2, isPersistent: true) { $0.inFlightMessagesMax = 0 }
        broker.joinCluster()
        let member = broker.connect("member", expiry: 100, receiveMaximum: .max)
        member.subscribe(["$share/g/t"])
        let publisher = broker.connect("publisher")
        for _ in 0..<size {
            publisher.publish("t", qos: .atLeastOnce)
            broker.readLog()
        }
        precondition(broker.dispatchedThrough == 0, "the first is dealt, and not done")
        for identifier in stride(from: size, through: 1, by: -1) {
            member.send(.acknowledgement(AcknowledgementPacket(type: .puback, packetIdentifier: UInt16(identifier))))
            if identifier == 1 { precondition(broker.dispatchedThrough > 0, "the first is done") }
            guard identifier % 2 == 0 else { continue }
            publisher.publish("t", qos: .atLeastOnce)
            broker.readLog()
        }
    }

    /// Members that go with messages of a cluster's log, which are left to another node by way of the log, one member
    /// after the other.
    private static func membersThatLeave(_ size: Int) {
        let broker = GrowthBroker(shards: 2, isPersistent: true) { $0.inFlightMessagesMax = 0 }
        broker.joinCluster()
        let publisher = broker.connect("publisher")
        let members = (0..<size).map { broker.connect("m\($0)", receiveMaximum: .max) }
        for member in members { member.subscribe(["$share/g/t"]) }
        for _ in 0..<(2 * size) { publisher.publish("t", qos: .atLeastOnce) }
        broker.readLog()
        broker.tellMembers(1)
        for member in members { member.close() }
        let before = broker.dispatchedThrough
        broker.readLog()
        precondition(before < broker.dispatchedThrough, "what is left to others is done when the log has it")
    }
}
