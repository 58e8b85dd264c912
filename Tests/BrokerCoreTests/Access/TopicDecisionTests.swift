import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Topics that somebody elsewhere decides about, one by one.
@Suite struct TopicDecisionTests {
    /// Answers as the test says: at once, or when it is told to.
    private final class Authority: TopicAuthority, @unchecked Sendable {
        // Unchecked: a simulated broker runs on the test's thread alone.
        var allowed: Set<String> = []
        var milliseconds: UInt64 = 60_000
        var isSilent = false
        private(set) var asked: [String] = []
        private var waiting: [(question: TopicQuestion, reply: (TopicDecision) -> Void)] = []

        private func name(_ question: TopicQuestion) -> String {
            "\(question.action.rawValue) \(String(decoding: question.topic, as: UTF8.self))"
        }

        func decide(_ question: TopicQuestion, reply: @escaping @Sendable (TopicDecision) -> Void) {
            asked.append(name(question))
            if isSilent { return waiting.append((question, reply)) }
            reply(TopicDecision(isAllowed: allowed.contains(name(question)), milliseconds: milliseconds))
        }

        func answer() {
            let all = waiting
            waiting = []
            for (question, reply) in all {
                reply(TopicDecision(isAllowed: allowed.contains(name(question)), milliseconds: milliseconds))
            }
        }
    }

    private let authority = Authority()

    private func broker(shards: Int = 1) -> SimulatedBroker {
        let broker = SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].checksPasswords = true
                $0.listeners[0].takesRulesFromLogins = true
            })
        broker.authenticate = { [authority] request in
            guard case .password("u", _) = request.step else {
                return .accepted(userName: nil, data: nil, grant: LoginGrant(source: "x", isSuperuser: true))
            }
            var defaults = RoleRights.Defaults()
            defaults.receives = false
            return .accepted(
                userName: nil, data: nil,
                grant: LoginGrant(source: "x", rights: RoleRights(roles: [], defaults: defaults), topics: authority))
        }
        return broker
    }

    @Test func `each topic is asked for once while its answer holds`() {
        let broker = broker()
        authority.allowed = ["publish a", "subscribe a/#"]
        let (client, watcher) = (broker.client("c"), broker.client("w"))
        watcher.connect(userName: "root")
        _ = watcher.subscribe("#")
        client.connect(userName: "u")
        for number in 0..<3 { client.publish("a", "\(number)", qos: .atLeastOnce) }
        client.publish("b", "no", qos: .atLeastOnce)
        #expect(watcher.texts == ["0", "1", "2"] && authority.asked == ["publish a", "publish b"])
        let reasons = client.acknowledgements(.puback).map(\.reasonCode)
        #expect(reasons == [.success, .success, .success, .notAuthorized])
        #expect(client.subscribe("a/#")?.reasonCodes == [.grantedQoS2] && client.subscribe("b/#")?.reasonCodes == [.notAuthorized])
        watcher.publish("a/x", "to you")
        watcher.publish("b/x", "not to you")
        #expect(client.texts == ["to you"])
        broker.advance(seconds: 61)
        authority.allowed = []
        client.publish("a", "late", qos: .atLeastOnce)
        #expect(authority.asked.last == "publish a" && client.acknowledgements(.puback).last?.reasonCode == .notAuthorized)
    }

    @Test func `what a client sends meanwhile waits, in its order`() {
        let broker = broker()
        authority.allowed = ["publish a", "publish b", "subscribe c"]
        let (client, watcher) = (broker.client("c"), broker.client("w"))
        watcher.connect(userName: "root")
        _ = watcher.subscribe("#")
        client.connect(userName: "u")
        authority.isSilent = true
        client.publish("a", "1", qos: .exactlyOnce)
        client.publish("b", "2", qos: .atLeastOnce)
        client.publish("a", "3")
        #expect(authority.asked == ["publish a"] && watcher.texts.isEmpty && client.isConnected)
        // Others go on.
        watcher.publish("elsewhere", "x")
        #expect(watcher.texts == ["x"])
        authority.answer()
        broker.settle()
        #expect(watcher.texts == ["x", "1"] && authority.asked == ["publish a", "publish b"])
        authority.answer()
        broker.settle()
        #expect(watcher.texts == ["x", "1", "2", "3"])
        authority.isSilent = false
        #expect(client.subscribe("c")?.reasonCodes == [.grantedQoS2])
    }

    @Test func `a client that goes while it waits leaves nothing behind, and one that sends too much goes`() {
        let broker = broker()
        authority.isSilent = true
        let client = broker.client("c")
        client.connect(userName: "u")
        client.publish("a", "1")
        client.lose()
        authority.answer()
        broker.settle()
        client.connect(userName: "u")
        client.publish("a", "1")
        let text = String(repeating: "x", count: 60_000)
        for _ in 0..<(Limits.undecidedBytesMax / 60_000 + 2) where client.isConnected { client.publish("a", text) }
        #expect(client.disconnectReason == .quotaExceeded)
    }

    @Test func `a session that comes back receives what it has subscribed to, and a superuser's is asked for`() {
        let broker = broker()
        authority.allowed = ["subscribe a", "publish gone"]
        let (client, watcher) = (broker.client("c"), broker.client("w"))
        watcher.connect(userName: "root")
        _ = watcher.subscribe("gone")
        client.connect(expiry: 100, will: Will(topic: "gone"), userName: "u")
        _ = client.subscribe("a", qos: .atLeastOnce)
        client.lose()
        #expect(watcher.messages.count == 1)
        watcher.publish("a", "1", qos: .atLeastOnce)
        client.connect(clean: false, expiry: 100, userName: "u")
        watcher.publish("a", "2", qos: .atLeastOnce)
        #expect(client.texts == ["1", "2"])
    }
}
