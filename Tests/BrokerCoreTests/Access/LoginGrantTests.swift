import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What logins bring along: rules, a name, an end.
@Suite struct LoginGrantTests {
    private func rights(sending: [String] = [], receiving: [String] = []) -> RoleRights {
        func rules(_ filters: [String]) -> [RoleRule] {
            filters.compactMap { AccessFilter(Array($0.utf8), isPattern: true).map { RoleRule($0, allows: true) } }
        }
        var filters = RoleRules.Filters()
        filters.patterns = rules(receiving)
        var defaults = RoleRights.Defaults()
        defaults.receives = false
        let role = RoleRules(
            name: "token", allowsWildcards: true, sending: rules(sending), receiving: rules(receiving), subscribing: filters,
            unsubscribing: .init())
        return RoleRights(roles: [role], defaults: defaults)
    }

    /// A broker whose listener has an access list, and whose logins bring what the test wants.
    private func broker(
        lists: [String]? = nil, shards: Int = 1, _ grant: @escaping (AuthenticationRequest) -> LoginGrant?
    ) -> SimulatedBroker {
        let broker = SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].checksPasswords = true
                $0.listeners[0].takesRulesFromLogins = true
                $0.listeners[0].accessControl = lists.map { filters in
                    AccessControl(
                        anonymous: [], users: [:],
                        patterns: filters.compactMap { filter in
                            AccessFilter(Array(filter.utf8), isPattern: true).map { AccessRule([.read, .write], $0) }
                        })
                }
            })
        broker.authenticate = { .accepted(userName: nil, data: nil, grant: grant($0)) }
        return broker
    }

    @Test(arguments: [false, true])
    func `a login's rules are asked first, and the listener's behind them if it does not decide all`(decidesAll: Bool) {
        let broker = broker(lists: ["shared/#"]) { [rights] _ in
            LoginGrant(source: "http", rights: rights(["own/%c/#"], ["own/%c/#"]), decidesAll: decidesAll)
        }
        let client = broker.client("c")
        client.connect(userName: "u")
        #expect(client.subscribe("own/c/#")?.reasonCodes == [.grantedQoS2])
        _ = client.subscribe("shared/a")
        for topic in ["own/c/x", "own/d/x", "shared/a", "other"] as [EncodedString] { client.publish(topic, "\(topic)") }
        #expect(client.texts == (decidesAll ? ["own/c/x"] : ["own/c/x", "shared/a"]))
    }

    @Test func `a token in the user name is given to whoever decides, and stands nowhere else`() {
        let token: EncodedString = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"
        #expect(EncodedString("anna").withoutToken == "anna" && EncodedString("eyJ").withoutToken == "eyJ")
        #expect(token.withoutToken.description.hasPrefix("token:") && token.withoutToken != EncodedString("eyJhb.c").withoutToken)
        let broker = broker { _ in nil }
        var asked: [EncodedString?] = []
        broker.authenticate = { request in
            if case .password(let userName, _) = request.step { asked.append(userName) }
            return .accepted(userName: nil, data: nil)
        }
        let client = broker.client("c")
        client.connect(userName: token)
        #expect(asked == [token])
        broker.authenticate = { _ in .refused(.notAuthorized, because: .reported("no")) }
        broker.client("d").connect(userName: token)
        #expect(broker.logLines.contains { $0.contains("user 'token:") } && !broker.logLines.contains { $0.contains("eyJ") })
    }

    @Test func `where any user name may be a token, none is shown before the login says whose it is`() {
        let broker = SimulatedBroker(
            shards: 1,
            settings: SimulatedBroker.testSettings {
                ($0.listeners[0].checksPasswords, $0.listeners[0].hidesUserNames) = (true, true)
            })
        broker.authenticate = { _ in .refused(.notAuthorized, because: .reported("no")) }
        broker.client("d").connect(userName: "2YotnFZFEjr1zCsicMWpAA")
        #expect(broker.logLines.contains { $0.contains("user 'token:") })
        broker.authenticate = { _ in .accepted(userName: "anna", data: nil) }
        broker.client("c").connect(userName: "2YotnFZFEjr1zCsicMWpAA")
        #expect(!broker.logLines.contains { $0.contains("2Yotn") } && broker.logLines.contains { $0.contains("'anna'") })
        // Whom a source knows by the name that it gives.
        broker.authenticate = { _ in .accepted(userName: nil, data: nil) }
        broker.client("e").connect(userName: "carl")
        #expect(broker.logLines.contains { $0.contains("'carl'") })
    }

    @Test func `where the listener has no rules, what the login's do not name is refused`() {
        let broker = broker { [rights] _ in LoginGrant(source: "http", rights: rights(["a"], ["a"])) }
        let client = broker.client("c")
        client.connect(userName: "u")
        #expect(client.subscribe("b")?.reasonCodes == [.notAuthorized])
        #expect(client.subscribe("a")?.reasonCodes == [.grantedQoS2])
        client.publish("a", "1")
        #expect(client.texts == ["1"])
    }

    @Test func `no rule binds a superuser, and each login has its own`() {
        let broker = broker(lists: ["shared/#"]) { request in
            LoginGrant(source: "http", isSuperuser: request.clientIdentifier == "root")
        }
        let (root, other) = (broker.client("root"), broker.client("other"))
        root.connect(userName: "u")
        other.connect(userName: "u")
        #expect(root.subscribe("#")?.reasonCodes == [.grantedQoS2])
        other.publish("elsewhere", "no")
        other.publish("shared/a", "yes")
        root.publish("elsewhere", "root")
        #expect(root.texts == ["yes", "root"])
    }

    @Test func `a login that ends takes the connection with it, and its will is sent`() {
        let broker = broker { _ in nil }
        let start = broker.now &+ broker.cores[0].settings.wallClockOffsetMilliseconds
        broker.authenticate = { request in
            .accepted(
                userName: nil, data: nil,
                grant: request.clientIdentifier == "c" ? LoginGrant(source: "jwt", expiresAt: start + 60_000) : nil)
        }
        let (client, watcher) = (broker.client("c"), broker.client("w"))
        watcher.connect(userName: "w")
        _ = watcher.subscribe("gone")
        client.connect(keepAlive: 0, will: Will(topic: "gone"), userName: "u")
        broker.advance(seconds: 59)
        #expect(client.isConnected && client.ping())
        broker.advance(seconds: 2)
        #expect(client.disconnectReason == .notAuthorized && !client.isConnected)
        #expect(watcher.messages.count == 1 && watcher.isConnected)
        // With a Keep Alive it is the same timer.
        client.connect(keepAlive: 10, userName: "u")
        broker.advance(milliseconds: 200)
        #expect(client.disconnectReason == .notAuthorized)
    }

    @Test(arguments: [1, 3])
    func `a client without an identifier has that of its login, and one with another is refused`(shards: Int) {
        for name in ["dev-1", "dev-2", "dev-3", "dev-4"] as [EncodedString] {
            let broker = broker(shards: shards) { _ in LoginGrant(source: "jwt", clientIdentifier: name) }
            let nameless = broker.client("")
            nameless.connect(userName: "u")
            #expect(nameless.isConnected && nameless.connack?.properties.assignedClientIdentifier == name)
            let other = broker.client("other")
            other.connect(userName: "u")
            #expect(other.connack?.reasonCode == .clientIdentifierNotValid)
            let same = broker.client(name)
            same.connect(userName: "u")
            #expect(same.isConnected)
        }
    }

    @Test func `rights of an earlier login do not stay`() {
        var grants = [LoginGrant(source: "http", isSuperuser: true), LoginGrant(source: "http", decidesAll: true)]
        let broker = broker(lists: ["shared"]) { _ in grants.removeFirst() }
        let client = broker.client("c")
        client.connect(expiry: 100, userName: "u")
        #expect(client.subscribe("a")?.reasonCodes == [.grantedQoS2])
        client.publish("a", "1")
        client.disconnect()
        client.connect(clean: false, expiry: 100, userName: "u")
        client.publish("a", "2")
        #expect(client.texts == ["1"])
    }
}
