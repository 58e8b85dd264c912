import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// What the log says of those who may not.
@Suite struct DenialTests {
    private func broker() -> SimulatedBroker {
        func rule(_ permission: AccessPermission, _ filter: String, line: Int, isPattern: Bool = false) -> [AccessRule] {
            AccessFilter(Array(filter.utf8), isPattern: isPattern).map { [AccessRule(permission, $0, line: line)] } ?? []
        }
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].accessControl = AccessControl(
                anonymous: rule([.read, .write], "open/#", line: 2) + rule(.deny, "open/secret/#", line: 3), users: [:],
                patterns: rule(.deny, "own/%c", line: 7, isPattern: true), file: "/etc/acl")
            $0.listeners[0].checksAccessOnSubscribe = true
        }
        return SimulatedBroker(shards: 1, settings: settings)
    }

    /// The lines that begin so, without the ports.
    private func lines(_ beginning: String, of broker: SimulatedBroker) -> [String] {
        broker.logLines.filter { $0.hasPrefix(beginning) }.map { $0.replacing(/port \d+/, with: "port P") }
    }

    private func denials(_ broker: SimulatedBroker) -> [String] { lines("Denied ", of: broker).filter { !$0.contains("(d0, ") } }

    @Test(arguments: [
        ("open/secret/a", "line 3 of /etc/acl denies it"), ("own/me", "line 7 of /etc/acl denies it"),
        ("own/you", "no line of /etc/acl allows it"), ("$SYS/broker/version", "the topic is the broker's own"),
    ])
    func `a denied message is told with its topic and the line that denies it`(topic: String, reason: String) {
        let broker = broker()
        let client = broker.connected("me")
        client.publish(EncodedString(topic) ?? "none", "x", qos: .atLeastOnce)
        #expect(denials(broker) == ["Denied PUBLISH from 192.0.2.1 port P, client 'me', to '\(topic)': \(reason)."])
    }

    @Test func `a denied subscription is told, and one that is granted is not`() {
        let broker = broker()
        let client = broker.connected("me")
        client.subscribe("open/a")
        client.subscribe("else/#")
        #expect(
            denials(broker) == ["Denied SUBSCRIBE from 192.0.2.1 port P, client 'me', to 'else/#': no line of /etc/acl allows it."])
    }

    @Test func `a client is told of five times, and then every ten seconds with how many there were`() {
        let broker = broker()
        let (busy, other) = (broker.connected("busy"), broker.connected("other"))
        for _ in 0..<20 { busy.publish("else", "x") }
        #expect(denials(broker).count == 5)
        other.publish("else", "x")
        #expect(denials(broker).count == 6)
        broker.advance(seconds: 10)
        busy.publish("else", "x")
        busy.publish("else", "x")
        #expect(denials(broker).count == 7)
        #expect(denials(broker).last?.hasSuffix("(15 more of this client since the last such line.)") == true)
        broker.advance(seconds: 10)
        busy.publish("else", "x")
        #expect(denials(broker).last?.hasSuffix("(1 more of this client since the last such line.)") == true)
    }

    @Test func `all clients together have a hundred lines a second`() {
        let broker = broker()
        for number in 0..<150 { broker.connected("c\(number)").publish("else", "x") }
        #expect(denials(broker).count == 100)
        broker.advance(seconds: 1)
        broker.connected("late").publish("else", "x")
        #expect(denials(broker).count == 101)
    }

    @Test(arguments: [
        (LoginFailure.wrongPassword, "wrong password"), (.unknownUser, "unknown user"),
        (.unspecified, "the login was not accepted"),
    ])
    func `a failed login is told with address, reason, user and client`(failure: LoginFailure, words: String) {
        let broker = SimulatedBroker(shards: 1, settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        broker.authenticate = { _ in .refused(.notAuthorized, because: failure) }
        let client = broker.client("me")
        client.connect(userName: "anna", password: Array("secret".utf8))
        #expect(lines("Login", of: broker) == ["Login failed from 192.0.2.1 port P: \(words), user 'anna', client 'me'."])
        #expect(broker.logLines.contains { $0.hasPrefix("Client me [") && $0.hasSuffix("] disconnected: not authorised.") })
        #expect(!broker.logLines.contains { $0.contains("secret") })
    }

    @Test(arguments: [
        (LoginFailure.reported("the login source ldap does not answer"), "the login source ldap does not answer."),
        (.unspecified, "the login was not accepted."),
    ])
    func `a login that nobody could decide is told with the reason, which the client does not hear`(
        failure: LoginFailure, words: String
    ) {
        let broker = SimulatedBroker(shards: 1, settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        broker.authenticate = { _ in .refused(.serverUnavailable, because: failure) }
        let client = broker.client("me")
        client.connect(userName: "anna", password: Array("secret".utf8))
        #expect(broker.logLines.contains { $0.hasPrefix("Client me [") && $0.hasSuffix("]: \(words)") })
        #expect(!broker.logLines.contains { $0.hasPrefix("Login failed") || $0.contains("secret") })
        #expect(client.connack?.properties.reasonString == "the login was not accepted.")
    }
}
