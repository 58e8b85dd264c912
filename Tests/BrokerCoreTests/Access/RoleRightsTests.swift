import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Rights by roles: what they say, how they change while clients are connected, and requests to the broker itself.
@Suite struct RoleRightsTests {
    /// Roles by user, as a test sets them.
    private final class Roles: RoleSource, @unchecked Sendable {
        // Unchecked: a simulated broker runs on the test's thread alone.
        var rights: [EncodedString: RoleRights] = [:]
        var anonymous: RoleRights? = RoleRights(roles: [], defaults: .init())

        func rights(of userName: EncodedString?) -> RoleRights? { userName.map { rights[$0] } ?? anonymous }
    }

    private static func role(
        sending: [(String, Bool)] = [], receiving: [(String, Bool)] = [], subscribing: [(String, Bool)] = []
    ) -> RoleRules {
        func rules(_ list: [(String, Bool)]) -> [RoleRule] {
            list.compactMap { filter, allows in
                AccessFilter(Array(filter.utf8), isPattern: true).map { RoleRule($0, allows: allows) }
            }
        }
        var filters = RoleRules.Filters()
        filters.patterns = rules(subscribing)
        return RoleRules(
            name: "r", allowsWildcards: true, sending: rules(sending), receiving: rules(receiving), subscribing: filters,
            unsubscribing: .init())
    }

    private static func rights(_ role: RoleRules) -> RoleRights { RoleRights(roles: [role], defaults: .init()) }

    private static func broker(_ roles: Roles, shards: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in })
        -> SimulatedBroker
    {
        SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].accessControl = AccessControl(roles: roles, lists: nil)
                change(&$0)
            })
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `in random lists the first rule that matches decides, on every topic`(seed: UInt64) {
        let universe = TopicUniverse.small
        var random = SeededGenerator(seed: seed)
        let identity = AccessIdentity(clientIdentifier: "a", userName: "b", spansLevels: false)
        for _ in 0..<150 {
            let list = (0..<random.below(8)).map { _ in
                (universe.filters[random.below(universe.filters.count)], random.below(2) == 0)
            }
            let rules = RankedRules(
                list.compactMap { filter, allows in
                    AccessFilter(filter.bytes, isPattern: false).map { RoleRule($0, allows: allows) }
                })
            for topic in universe.topics {
                let first = list.first { filter, _ in filter.matches(topic) }
                let expected: AccessVerdict = first.map { $0.1 ? .granted : .denied } ?? .deferred
                let found = topic.bytes.withUnsafeBytes { rules.ranks(for: $0, identity, .someWrite).verdict }
                #expect(found == expected, "\(list) \(topic)")
            }
        }
    }

    @Test func `changed rights hold at once for who stays connected`() {
        let roles = Roles()
        roles.rights["u"] = Self.rights(Self.role(sending: [("t", true)], subscribing: [("#", true)]))
        let broker = Self.broker(roles)
        let client = broker.client("c")
        client.connect(userName: "u")
        client.subscribe("t")
        client.publish("t", "1")
        roles.rights["u"] = Self.rights(Self.role(sending: [("t", true)], receiving: [("t", false)], subscribing: [("#", true)]))
        broker.cores[0].change(RightsChange(users: ["u"], kicks: false))
        broker.settle()
        client.publish("t", "2")
        #expect(client.texts == ["1"] && client.isConnected)
    }

    @Test func `who is sent away leaves no will, and a session that stays loses what it may not have`() {
        let roles = Roles()
        roles.rights["u"] = Self.rights(Self.role(sending: [("#", true)], subscribing: [("#", true), ("$share/#", true)]))
        roles.rights["v"] = roles.rights["u"]
        let broker = Self.broker(roles, shards: 3)
        let watcher = broker.client("watcher")
        watcher.connect(userName: "v")
        watcher.subscribe("gone")
        let client = broker.client("c")
        client.connect(expiry: 100, will: Will(topic: "gone"), userName: "u")
        for filter in ["a", "b", "$share/g/a", "$share/g/b"] as [TopicFilter] { client.subscribe(filter, qos: .atLeastOnce) }
        roles.rights["u"] = Self.rights(Self.role(sending: [("#", true)], subscribing: [("a", true), ("$share/g/a", true)]))
        for core in broker.cores { core.change(RightsChange(users: ["u"], kicks: true)) }
        broker.settle()
        #expect(client.disconnectReason == .administrativeAction && !client.isConnected)
        #expect(watcher.isConnected && watcher.messages.isEmpty)
        watcher.publish("b", "no", qos: .atLeastOnce)
        watcher.publish("a", "yes", qos: .atLeastOnce)
        client.connect(clean: false, expiry: 100, userName: "u")
        // Of its own subscription and of the group's.
        #expect(client.texts == ["yes", "yes"])
    }

    @Test func `a change that concerns many is brought to them in turns of bounded length, and to nobody else`() {
        let roles = Roles()
        let old = Self.rights(Self.role(subscribing: [("#", true)]))
        roles.rights["many"] = old
        roles.rights["one"] = old
        let broker = Self.broker(roles)
        broker.checksInvariants = false
        let clients = (0..<1000).map { broker.client("c\($0)") }
        for (number, client) in clients.enumerated() {
            client.connect(userName: number == 7 ? "one" : "many")
        }
        let core = broker.cores[0]
        core.change(RightsChange(users: ["many"], kicks: true))
        var turns = 0
        while !core.policy.rights.isEmpty {
            let before = core.policy.rights.stepCount
            #expect(broker.step())
            // The last session's steps go beyond.
            #expect(core.policy.rights.stepCount - before <= Limits.rightsStepsPerTurn + Limits.rightsStepsOfDismissal)
            turns += 1
        }
        broker.settle()
        #expect(turns >= 10)
        #expect(clients.enumerated().filter { $0.element.isConnected }.map(\.offset) == [7])
    }

    @Test(arguments: [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `what is published below the topics of control goes to the broker alone`(qos: QoS) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.controlEndpoints = ["$CONTROL/here/v1"] })
        let (asker, other) = (broker.connected("asker"), broker.connected("other"))
        for client in [asker, other] { client.subscribe("$CONTROL/#") }
        asker.publish("$CONTROL/here/v1", "please", qos: qos)
        #expect(broker.takeRequests().map(\.payload) == [Array("please".utf8)])
        #expect(asker.messages.isEmpty && other.messages.isEmpty)
        asker.publish("$CONTROL/elsewhere", "please", qos: qos)
        #expect(asker.texts == [#"{"error": "endpoint not available"}"#])
        #expect(asker.messages.first?.topic == "$CONTROL/elsewhere/response")
        #expect(broker.takeRequests().isEmpty && other.messages.isEmpty)
        #expect(asker.unfinished.isEmpty)
    }

    @Test(arguments: [ProtocolVersion.v311, .v5])
    func `requests beyond a bound of bytes are refused until others are answered`(version: ProtocolVersion) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.controlEndpoints = ["$CONTROL/here/v1"] })
        let asker = broker.client("asker", version: version)
        asker.connect()
        let part = String(repeating: "x", count: Limits.unansweredBytesMax / 16)
        for _ in 0..<16 { asker.publish("$CONTROL/here/v1", part, qos: .atLeastOnce) }
        asker.publish("$CONTROL/here/v1", "more", qos: .atLeastOnce)
        let reasons = asker.acknowledgements(.puback).map(\.reasonCode)
        #expect(reasons == Array(repeating: .success, count: 16) + [version == .v5 ? .quotaExceeded : .success])
        #expect(broker.takeRequests().map(\.payload.count) == Array(repeating: part.utf8.count, count: 16))
        #expect(broker.logLines.contains { $0.contains("a request of asker is not carried out") })
        broker.cores[0].answered(part.utf8.count)
        asker.publish("$CONTROL/here/v1", "more", qos: .atLeastOnce)
        #expect(broker.takeRequests().map(\.payload) == [Array("more".utf8)])
    }
}
