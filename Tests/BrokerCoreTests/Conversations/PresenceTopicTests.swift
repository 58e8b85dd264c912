import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Who comes and goes, as messages below `$SYS/brokers/`.
struct PresenceTopicTests {
    private func broker(
        _ topics: PresenceTopics = .connections, shards: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in }
    ) -> SimulatedBroker {
        SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.presenceTopics = topics
                $0.nodeName = "node"
                $0.wallClockOffsetMilliseconds = 1_700_000_000_000
                $0.listeners[0].accessControl = Self.rules(["observer": ["$SYS/brokers/#"], "reader": ["$SYS/#", "#"]])
                change(&$0)
            })
    }

    private static func rules(_ users: [EncodedString: [String]]) -> AccessControl {
        AccessControl(
            anonymous: [AccessRule([.read, .write], AccessFilter("#".utf8, isPattern: false)!)],
            users: users.mapValues { $0.map { AccessRule([.read, .write], AccessFilter($0.utf8, isPattern: false)!) } },
            patterns: [])
    }

    private func observer(_ broker: SimulatedBroker, as user: EncodedString? = "observer", _ filter: TopicFilter? = nil)
        -> TestClient
    {
        let client = broker.client("observer")
        client.connect(userName: user)
        client.subscribe(filter ?? "$SYS/brokers/+/clients/#", qos: .exactlyOnce)
        _ = client.takeMessages()
        return client
    }

    private func topics(_ observer: TestClient) -> [String] { observer.messages.map(\.topic) }

    @Test func `nothing is published unless it is asked for`() {
        let broker = broker(.none)
        let observer = observer(broker)
        broker.connected("a").disconnect()
        #expect(observer.messages.isEmpty)
    }

    @Test(arguments: [1, 3]) func `who comes and goes is published at QoS 1, not retained, in order`(shards: Int) throws {
        let broker = broker(shards: shards)
        let observer = observer(broker)
        let client = broker.client("cli/ent")
        client.connect(keepAlive: 60, expiry: 100, userName: "us\"er")
        client.subscribe("t")
        client.publish("t", "x")
        broker.advance(seconds: 1)
        client.disconnect()
        broker.client("bad").send([0, 0])
        #expect(
            topics(observer) == [
                "$SYS/brokers/node/clients/cli%2Fent/connected", "$SYS/brokers/node/clients/cli%2Fent/disconnected",
            ])
        #expect(observer.messages.allSatisfy { $0.qos == .atLeastOnce && !$0.retain })
        #expect(broker.statistics().retainedMessages == 0)
        // The observer came in the same millisecond, and its user may not write.
        let time = 1_700_000_000_000 + broker.now
        let session = time - 1_000
        #expect(
            observer.messages[0].text
                == "{\"clientid\":\"cli/ent\",\"username\":\"us\\\"er\",\"ipaddress\":\"192.0.2.1\",\"sockport\":1883,"
                + "\"protocol\":\"mqtt\",\"proto_name\":\"MQTT\",\"proto_ver\":5,\"connected_at\":\(session),\"ts\":\(session),"
                + "\"keepalive\":60,\"clean_start\":true,\"expiry_interval\":100,\"receive_maximum\":20,\"session\":\(session + 1),"
                + "\"session_present\":false}")
        #expect(
            observer.messages[1].text
                == "{\"clientid\":\"cli/ent\",\"username\":\"us\\\"er\",\"ipaddress\":\"192.0.2.1\",\"sockport\":1883,"
                + "\"protocol\":\"mqtt\",\"proto_name\":\"MQTT\",\"proto_ver\":5,\"connected_at\":\(session),"
                + "\"disconnected_at\":\(time),\"ts\":\(time),\"reason\":\"the client disconnected\",\"reason_code\":0,"
                + "\"session\":\(session + 1),\"will_sent\":false,\"sent_messages\":0,\"received_messages\":1,\"dropped\":1}")
    }

    @Test func `a late word of an earlier connection is told by its number`() {
        let broker = broker()
        let observer = observer(broker)
        broker.client("a").connect(expiry: 100)
        broker.client("a").connect(expiry: 100)
        let numbers = observer.messages.map { $0.text.split(separator: "\"session\":")[1].prefix { $0.isNumber } }
        #expect(topics(observer).map { $0.split(separator: "/").last } == ["connected", "disconnected", "connected"])
        #expect(numbers[0] == numbers[1] && numbers[0] != numbers[2])
        #expect(observer.messages[1].text.contains("\"reason_code\":142"))
    }

    @Test func `subscriptions and refused clients are told if all is asked for`() {
        let broker = broker(.all) { $0.listeners[0].clientIdentifierPrefix = nil }
        let observer = observer(broker)
        let client = broker.connected("a")
        client.subscribe([
            Subscription(filter: "x/+", options: SubscriptionOptions(maximumQoS: .atLeastOnce, noLocal: true))
        ])
        client.unsubscribe("x/+", "y")
        broker.client("b", version: .v31).connect(ConnectPacket(version: .v5, clientIdentifier: "b", will: Will(topic: "$SYS/x")))
        #expect(
            topics(observer) == [
                "$SYS/brokers/node/clients/a/connected", "$SYS/brokers/node/clients/a/subscribed",
                "$SYS/brokers/node/clients/a/unsubscribed", "$SYS/brokers/node/clients/b/refused",
            ])
        #expect(
            observer.messages[1].text.contains(
                "\"topic\":\"x/+\",\"subopts\":{\"qos\":1,\"nl\":1,\"rap\":0,\"rh\":0,\"is_new\":true}"))
        #expect(observer.messages[3].text.contains("\"reason_code\":135"))
    }

    @Test func `only a rule that begins with its name lets somebody read it`() {
        let broker = broker()
        for (user, filter) in [
            ("reader", "$SYS/brokers/#"), ("reader", "$SYS/brokers/node/clients/+/connected"), ("nobody", "$SYS/#"),
        ] as [(EncodedString, TopicFilter)] {
            let observer = observer(broker, as: user, filter)
            broker.connected("a").disconnect()
            #expect(observer.messages.isEmpty)
        }
        #expect(observer(broker, as: "reader", "$share/g/$SYS/brokers/#").messages.isEmpty)
        let shared = observer(broker, as: "observer", "$share/g/$SYS/brokers/#")
        broker.connected("a").disconnect()
        #expect(shared.messages.count == 2)
    }

    @Test(arguments: [1, 3]) func `without any rules a client hears of itself only`(shards: Int) {
        let broker = broker(shards: shards) { $0.listeners[0].accessControl = nil }
        let observer = observer(broker)
        broker.connected("a").disconnect()
        broker.client("observer/x").connect()
        #expect(observer.messages.isEmpty)
        let again = broker.client("observer")
        again.connect()
        again.subscribe("$SYS/brokers/#")
        let kicked = broker.connected("other")
        kicked.subscribe("$SYS/brokers/+/clients/+/#")
        broker.connected("third")
        #expect(kicked.messages.isEmpty && again.messages.isEmpty)
        let party = broker.attached("party")
        party.subscribe("$SYS/brokers/#")
        broker.connected("fourth")
        #expect(party.messages.count == 1)
    }

    @Test func `a client hears how its earlier connection ended`() {
        let broker = broker { $0.listeners[0].accessControl = nil }
        let first = broker.client("a")
        first.connect(expiry: 100)
        first.subscribe("$SYS/brokers/#", qos: .atLeastOnce)
        first.lose()
        first.connect(clean: false, expiry: 100)
        #expect(first.messages.map { $0.topic.split(separator: "/").last } == ["disconnected", "connected"])
    }

    @Test func `a storm of clients is told in part, and how many were left out`() {
        let broker = broker { $0.queuedMessagesMax = 0 }
        let observer = observer(broker)
        broker.checksInvariants = false
        let clients = (0..<6_000).map { number in broker.client("c\(number)") }
        for client in clients { client.beginConnect(ConnectPacket(version: .v5, clientIdentifier: client.identifier)) }
        broker.settle()
        for client in clients { client.connection?.close() }
        broker.settle()
        broker.advance(seconds: 2)
        let lost = observer.messages.filter { $0.topic == "$SYS/brokers/node/clients/lost" }
        #expect(lost.count == 1)
        #expect(lost.first?.text.hasPrefix("{\"count\":") == true)
        let told = observer.messages.count - 1
        #expect(told >= 9_000 && told <= 10_001)
        #expect(lost.first?.text.hasPrefix("{\"count\":\(12_000 - told),") == true)
    }

    @Test func `what may not stand in a level of a topic is written as its number`() {
        #expect(PresenceMessage.level(of: "a%b/c+d#e\u{1}é".utf8) == Array("a%25b%2Fc%2Bd%23e%01é".utf8))
    }

    @Test func `nobody else writes there`() {
        let broker = broker { $0.listeners[0].accessControl = nil }
        let party = broker.attached("party")
        party.subscribe("$SYS/brokers/#")
        let client = broker.connected("a")
        client.publish("$SYS/brokers/node/clients/b/connected", "forged", qos: .atLeastOnce)
        #expect(party.messages.count == 1)
    }

    @Test(arguments: [1, 3]) func `nothing is made of events that nobody subscribes to`(shards: Int) {
        let broker = broker(.all, shards: shards)
        func client(_ name: EncodedString) {
            let client = broker.connected(name)
            client.beginSubscribe((0..<100).compactMap { TopicFilter("x/\($0)") }.map { Subscription(filter: $0) })
            while broker.stepOnce() { #expect(broker.cores.allSatisfy { !$0.inspection.presence.hasPending }) }
            client.disconnect()
        }
        client("a")
        // These match no topic of an event.
        let other = broker.connected("other")
        for filter in ["#", "+/brokers/#", "$SYS/broker/#", "$SYS/brokers/other/clients/#", "$SYS/brokers/node"] as [TopicFilter] {
            other.subscribe(filter)
        }
        client("b")
        #expect(broker.cores.allSatisfy { !$0.presence.reportsPresence })
        let observer = observer(broker)
        #expect(broker.cores.allSatisfy { $0.presence.reportsPresence })
        broker.connected("c").subscribe("x")
        #expect(
            topics(observer).map { $0.split(separator: "/").suffix(2).joined(separator: "/") } == ["c/connected", "c/subscribed"])
        observer.unsubscribe("$SYS/brokers/+/clients/#")
        #expect(broker.cores.allSatisfy { !$0.presence.reportsPresence })
    }

    @Test func `long names and filters are cut in events, which say so`() throws {
        let broker = broker(.all)
        let observer = observer(broker)
        // The last character would be cut in two.
        let name = EncodedString(String(repeating: "n", count: 1023) + "é" + String(repeating: "/", count: 50_000)) ?? ""
        let client = broker.client(name)
        client.connect(userName: EncodedString(String(repeating: "u", count: 1025)))
        client.subscribe(TopicFilter(stringLiteral: String(repeating: "f", count: 60_000)))
        client.disconnect()
        let start = "$SYS/brokers/node/clients/" + String(repeating: "n", count: 1023) + "/"
        #expect(topics(observer) == ["connected", "subscribed", "disconnected"].map { start + $0 })
        for message in observer.messages {
            #expect(message.text.count < 4000)
            #expect(message.text.hasSuffix("\"truncated\":true}"))
        }
        let told = try #require(observer.messages.dropFirst().first)
        #expect(told.text.contains("\"topic\":\"" + String(repeating: "f", count: 1024) + "\""))
        _ = observer.takeMessages()
        let exact = EncodedString(String(repeating: "n", count: 1024)) ?? ""
        broker.connected(exact).disconnect()
        #expect(observer.messages.count == 2 && observer.messages.allSatisfy { !$0.text.contains("truncated") })
    }

    @Test func `who has a name that is cut hears of nobody by it`() {
        let name = EncodedString(String(repeating: "n", count: 1500)) ?? ""
        let broker = broker { $0.listeners[0].accessControl = nil }
        let client = broker.client(name)
        client.connect(expiry: 100)
        client.subscribe("$SYS/brokers/#", qos: .atLeastOnce)
        broker.connected(EncodedString(String(repeating: "n", count: 1501)) ?? "").disconnect()
        #expect(client.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `bytes of events are counted as well, and a turn publishes a bounded number`(shards: Int) {
        let broker = broker(.all, shards: shards) { $0.queuedMessagesMax = 0 }
        let observer = observer(broker)
        let client = broker.client(EncodedString(String(repeating: "n", count: 60_000)) ?? "")
        client.connect()
        _ = observer.takeMessages()
        let filters = (0..<9_000).compactMap { TopicFilter("\($0)/" + String(repeating: "f", count: 100)) }
        client.beginSubscribe(filters.map { Subscription(filter: $0) })
        var (most, count) = (0, 0)
        for core in broker.cores { core.watcher = { _ in count += 1 } }
        while broker.stepOnce() {
            most = max(most, count)
            count = 0
        }
        broker.advance(seconds: 2)
        let bytes = Limits.presenceFrameBytes + 3 * Limits.presenceNameBytesMax
        let toldMax = Limits.presenceBytesPerSecondMax / shards / (bytes - 1024)
        let told = observer.messages.count { $0.topic.hasSuffix("subscribed") }
        #expect(told > toldMax / 2 && told <= toldMax + 1, "\(told)")
        #expect(observer.messages.last?.text.hasPrefix("{\"count\":\(9_000 - told),") == true)
        #expect((1...Limits.presenceBytesPerTurn / (2 * Limits.presenceNameBytesMax)).contains(most), "\(most)")
    }
}
