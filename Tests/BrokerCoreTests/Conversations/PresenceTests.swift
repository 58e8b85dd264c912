import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// The events that tell who comes and goes.
struct PresenceTests {
    private func broker(_ shards: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in }) -> SimulatedBroker {
        SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.tellsPresence = true
                change(&$0)
            })
    }

    /// The events of a client, each as a few words.
    private func words(_ broker: SimulatedBroker, _ client: EncodedString) -> [String] {
        broker.presence.compactMap {
            switch $0 {
            case .connected(let arrival):
                arrival.clientIdentifier == client ? "connected\(arrival.sessionPresent ? " again" : "")" : nil
            case .disconnected(let departure):
                departure.clientIdentifier == client
                    ? "disconnected\(departure.isByClient ? " itself" : ""): \(departure.reason.map { "\($0)" } ?? "-")" : nil
            case .sessionEnded(let identifier, _): identifier == client ? "ended" : nil
            case .refused, .subscribed, .unsubscribed, .dropping, .slow, .lost: nil
            }
        }
    }

    @Test func `nothing is told unless it is asked for`() {
        let broker = SimulatedBroker()
        broker.connected("a").disconnect()
        broker.connected("b").lose()
        broker.stop()
        #expect(broker.presence.isEmpty)
    }

    @Test(arguments: [1, 3]) func `an arrival tells who came, how, and what session was there`(shards: Int) throws {
        let broker = broker(shards)
        let client = broker.client("client")
        client.connect(clean: false, keepAlive: 30, expiry: 100, userName: "user")
        guard case .connected(let arrival) = try #require(broker.presence.first) else { return }
        #expect(arrival.clientIdentifier == "client" && arrival.userName == "user" && arrival.version == .v5)
        #expect(arrival.keepAliveSeconds == 30 && arrival.sessionExpirySeconds == 100)
        #expect(!arrival.cleanStart && !arrival.sessionPresent)
        #expect(arrival.info.address == "192.0.2.1" && arrival.info.listener == 0 && arrival.at == broker.now)
        client.disconnect()
        client.connect(clean: false, expiry: 100, userName: "user")
        #expect(words(broker, "client") == ["connected", "disconnected itself: \(ReasonCode.success)", "connected again"])
    }

    @Test(arguments: [1, 3]) func `a departure tells why`(shards: Int) {
        let broker = broker(shards)
        func departure(of name: EncodedString, _ leave: (TestClient) -> Void) -> String? {
            let client = broker.client(name)
            client.connect(keepAlive: 10, expiry: 1_000)
            leave(client)
            return words(broker, name).last
        }
        #expect(departure(of: "polite") { $0.disconnect() } == "disconnected itself: \(ReasonCode.normalDisconnection)")
        #expect(
            departure(of: "will") { $0.disconnect(.disconnectWithWillMessage) }
                == "disconnected itself: \(ReasonCode.disconnectWithWillMessage)")
        #expect(departure(of: "lost") { $0.lose() } == "disconnected: -")
        #expect(departure(of: "silent") { _ in broker.advance(seconds: 20) } == "disconnected: \(ReasonCode.keepAliveTimeout)")
        #expect(departure(of: "wrong") { $0.send([0x00, 0x00]) } == "disconnected: \(ReasonCode.malformedPacket)")
        #expect(
            departure(of: "kicked") { _ in
                for core in broker.cores { core.disconnect("kicked") }
                broker.settle()
            } == "disconnected: \(ReasonCode.administrativeAction)")
        #expect(departure(of: "last") { _ in broker.stop() } == "disconnected: \(ReasonCode.serverShuttingDown)")
    }

    @Test func `a session that is taken over is told with both connections, in order`() {
        let broker = broker()
        broker.client("client").connect(clean: false, expiry: 100)
        broker.client("client").connect(clean: false, expiry: 100)
        #expect(words(broker, "client") == ["connected", "disconnected: \(ReasonCode.sessionTakenOver)", "connected again"])
        broker.client("client").connect(clean: true, expiry: 100)
        #expect(words(broker, "client").suffix(3) == ["disconnected: \(ReasonCode.sessionTakenOver)", "ended", "connected"])
    }

    @Test func `the end of a session is told with the connection's, and when its time is over`() {
        let broker = broker()
        broker.connected("short").disconnect()
        #expect(words(broker, "short").suffix(2) == ["disconnected itself: \(ReasonCode.success)", "ended"])
        let long = broker.client("long")
        long.connect(expiry: 50)
        long.lose()
        #expect(words(broker, "long") == ["connected", "disconnected: -"])
        broker.advance(seconds: 51)
        #expect(words(broker, "long").last == "ended")
        let sessions: [UInt64] = broker.presence.compactMap {
            switch $0 {
            case .connected(let arrival): arrival.session
            case .disconnected(let departure): departure.session
            case .sessionEnded(_, let session): session
            case .refused, .subscribed, .unsubscribed, .dropping, .slow, .lost: nil
            }
        }
        #expect(Set(sessions).count == 2)
    }

    @Test func `who is not let in does not come`() {
        let broker = broker { $0.listeners[0].checksPasswords = true }
        broker.authenticate = { _ in .refused(.badUserNameOrPassword) }
        let client = broker.client("client")
        client.connect(userName: "user")
        broker.open().send([0x00, 0x00])
        broker.settle()
        #expect(client.connack?.reasonCode == .badUserNameOrPassword)
        let refused = broker.presence.map { event -> String in
            guard case .refused(let refusal) = event else { return "another" }
            return "\(refusal.clientIdentifier.map { "\($0)" } ?? "-"): \(refusal.reason)"
        }
        #expect(refused == ["client: \(ReasonCode.badUserNameOrPassword)", "-: \(ReasonCode.malformedPacket)"])
    }
}
