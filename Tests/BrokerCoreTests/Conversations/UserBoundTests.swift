import BrokerModel
import BrokerSimulation
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

/// How many connections, sessions and subscriptions a user may have at once.
@Suite struct UserBoundTests {
    private func broker(
        shards: Int = 3, store: SimulatedStore? = nil, _ bounds: (inout UserBoundSettings) -> Void
    ) -> SimulatedBroker {
        SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { bounds(&$0.userBounds) }, store: store)
    }

    @discardableResult
    private func connect(_ broker: SimulatedBroker, _ name: EncodedString, user: EncodedString? = "anna", clean: Bool = true)
        -> TestClient
    {
        let client = broker.client(name)
        client.connect(clean: clean, expiry: clean ? nil : 3600, userName: user)
        return client
    }

    @Test func `one connection more than a user may have is refused, and those that are there stay`() {
        let broker = broker { $0.connectionsMax = 2 }
        let (first, second) = (connect(broker, "a"), connect(broker, "b"))
        #expect(connect(broker, "c").connack?.reasonCode == .quotaExceeded)
        #expect(first.ping() && second.ping())
        #expect(connect(broker, "d", user: "bob").isConnected && connect(broker, "e", user: nil).isConnected)
        #expect(broker.logLines.contains { $0.contains("the user has 2 connections, and may have no more") })
        #expect(broker.cores.reduce(0) { $0 + $1.measuredStatistics().userRefusals[.connections] } == 1)
        second.disconnect()
        #expect(connect(broker, "c").isConnected && !connect(broker, "b").isConnected)
    }

    @Test func `a connection that is taken over keeps its place`() {
        let broker = broker { ($0.connectionsMax, $0.sessionsMax) = (1, 1) }
        for clean in [true, false, false, true] {
            let old = connect(broker, "a", clean: clean)
            #expect(old.isConnected)
            #expect(connect(broker, "a", clean: clean).isConnected && !old.isConnected)
        }
        #expect(!connect(broker, "b").isConnected)
        broker.client("a").connect(userName: "anna")
        #expect(broker.sessionCount.users.userCount == 1)
    }

    @Test func `a session counts while its client is away, also after a restart`() {
        let broker = broker(store: SimulatedStore()) { ($0.sessionsMax, $0.subscriptionsMax) = (1, 1) }
        let first = connect(broker, "a", clean: false)
        first.subscribe("x")
        first.disconnect()
        #expect(connect(broker, "b").connack?.reasonCode == .quotaExceeded)
        let restarted = broker.crashed(committing: 100)
        #expect(connect(restarted, "b").connack?.reasonCode == .quotaExceeded)
        let back = connect(restarted, "a", clean: false)
        #expect(back.isConnected && back.subscribe("y")?.reasonCodes == [.quotaExceeded])
        _ = back.unsubscribe("x")
        #expect(back.subscribe("y")?.reasonCodes == [.grantedQoS2])
        back.disconnect()
        let last = connect(restarted, "a", clean: true)
        last.disconnect()
        #expect(restarted.sessionCount.users.userCount == 0)
        #expect(connect(restarted, "b").isConnected)
    }

    @Test func `another user's connection by the same identifier frees the first one's places`() {
        let broker = broker { ($0.connectionsMax, $0.sessionsMax) = (1, 1) }
        connect(broker, "a", clean: false)
        let bob = connect(broker, "a", user: "bob", clean: false)
        #expect(bob.isConnected && connect(broker, "b").isConnected)
        #expect(broker.sessionCount.users.userCount == 2)
    }

    @Test func `subscriptions count over all sessions of a user, and a replaced one once`() {
        let broker = broker { $0.subscriptionsMax = 3 }
        let (first, second) = (connect(broker, "a"), connect(broker, "b"))
        #expect(first.subscribe("x")?.reasonCodes == [.grantedQoS2] && first.subscribe("x")?.reasonCodes == [.grantedQoS2])
        #expect(
            first.subscribe("$share/g/x")?.reasonCodes == [.grantedQoS2] && second.subscribe("x")?.reasonCodes == [.grantedQoS2])
        #expect(second.subscribe("y")?.reasonCodes == [.quotaExceeded] && first.subscribe("y")?.reasonCodes == [.quotaExceeded])
        #expect(connect(broker, "c", user: "bob").subscribe("y")?.reasonCodes == [.grantedQoS2])
        _ = first.unsubscribe("$share/g/x")
        #expect(second.subscribe("y")?.reasonCodes == [.grantedQoS2] && second.subscribe("z")?.reasonCodes == [.quotaExceeded])
        first.disconnect()
        #expect(second.subscribe("z")?.reasonCodes == [.grantedQoS2])
        second.disconnect()
        broker.client("c").connect(userName: "bob")
        #expect(broker.sessionCount.users.userCount == 0)
    }
}
