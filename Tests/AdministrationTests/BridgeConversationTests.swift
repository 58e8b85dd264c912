import HTTP
import JSON
import Testing

@testable import Administration

/// Bridges, as administrators see and steer them.
@Suite struct BridgeConversationTests {
    private func house(role: AdministrationRole = .admin) -> AdministrationHouse {
        let house = AdministrationHouse(role: role)
        var bridge = AdministeredBridge(name: "b/1")
        (bridge.state, bridge.address, bridge.lastError) = (.waiting, "h:1883", "refused")
        bridge.location = .init(file: "m.conf", line: 7)
        bridge.options = [
            .init(name: "topic", values: ["a out 1", "b in"], isRepeatable: true),
            .init(name: "remote_password", values: ["***"], isRepeatable: false),
        ]
        (bridge.messagesOut, bridge.messagesIn, bridge.rateOut) = (7, 8, 1.5)
        (bridge.queuedMessages, bridge.queuedBytes, bridge.storedMessages, bridge.lagMilliseconds) = (5, 500, 3, 61_500)
        house.broker.bridges = [bridge]
        return house
    }

    @Test func `a list and one of it say how they are`() {
        let house = house()
        let row = house.get("bridges").rows.first
        #expect(row?["name"]?.string == "b/1" && row?["state"]?.string == "waiting" && row?["paused"]?.boolean == false)
        #expect(row?["address"]?.string == "h:1883" && row?["connected_at"] == .null && row?["last_error"]?.string == "refused")
        #expect(row?["file"]?.string == "m.conf" && row?["line"]?.integer == 7)
        #expect(row?["topics"]?.array?.compactMap(\.string) == ["a out 1", "b in"])
        #expect(row?["queue_messages"]?.integer == 5 && row?["queue_on_disk"]?.integer == 3 && row?["lag_ms"]?.integer == 61_500)
        #expect(row?["out_messages"]?.integer == 7 && row?["in_messages"]?.integer == 8 && row?["out_rate"] == .number(1.5))
        #expect(row?["options"] == nil)
        #expect(house.get("bridges").object?["kept"]?.boolean == true)
        let one = house.get("bridges/b%2F1").object
        #expect(one?["options"]?.object?["remote_password"]?.string == "***")
        #expect(one?["options"]?.object?["topic"]?.array?.count == 2)
        #expect(house.get("bridges/b").status == 404)
        let metrics = house.send(.get, "/metrics").body
        #expect(metrics.contains("martlet_bridge_state{bridge=\"b/1\",state=\"waiting\"} 1\n"))
        #expect(metrics.contains("martlet_bridge_state{bridge=\"b/1\",state=\"connected\"} 0\n"))
        #expect(metrics.contains("martlet_bridge_lag_seconds{bridge=\"b/1\"} 61.5\n"))
        #expect(metrics.contains("martlet_bridge_queued_bytes{bridge=\"b/1\"} 500\n"))
    }

    @Test func `commands are given with options as one writes them`() throws {
        let house = house()
        house.broker.bridgeOutcome = .done(warnings: ["the bridge has no topic."])
        let body =
            #"{"name":"n","address":["a","b"],"keepalive_interval":17,"cleansession":true,"restart_timeout":"5 9","topic":null}"#
        let made = house.send(.post, "bridges", body)
        #expect(made.status == 201 && made.object?["name"]?.string == "n")
        #expect(made.object?["warnings"]?.array?.compactMap(\.string) == ["the bridge has no topic."])
        guard case .add(let settings)? = house.broker.bridgeCommands.first?.command else { throw Missing() }
        #expect(
            settings.map { "\($0.option) \($0.values?.joined(separator: "|") ?? "-")" } == [
                "address a|b", "keepalive_interval 17", "cleansession true", "restart_timeout 5 9", "topic -",
            ])
        #expect(house.send(.patch, "bridges/n", #"{"topic":[],"bridge_max_packet_size":1e3}"#).status == 200)
        guard case .change(let change)? = house.broker.bridgeCommands.last?.command else { throw Missing() }
        #expect(
            change.map { "\($0.option) \($0.values?.joined(separator: "|") ?? "-")" } == ["topic ", "bridge_max_packet_size 1000"])
        #expect(house.send(.post, "bridges/n/pause").status == 200 && house.send(.post, "bridges/n/resume").status == 200)
        #expect(house.send(.delete, "bridges/n").status == 204)
        #expect(house.broker.bridgeCommands.map(\.name) == Array(repeating: "n", count: 5))
        #expect(
            house.get("audit?limit=5").column("operation") == [
                "removeBridge", "resumeBridge", "pauseBridge", "changeBridge", "addBridge",
            ])
        #expect(Set(house.get("audit?limit=5").column("target")) == ["n"])
    }

    private struct Missing: Error {}

    @Test func `what cannot be is refused with the reason`() {
        let house = house()
        let outcomes: [(BridgeCommandOutcome, Int)] = [
            (.notFound, 404), (.conflict("It stands in m.conf line 7."), 409), (.wrong(["topic: one.", "address: two."]), 400),
            (.notKept("The disk is full."), 503),
        ]
        for (outcome, status) in outcomes {
            house.broker.bridgeOutcome = outcome
            #expect(house.send(.delete, "bridges/b%2F1").status == status)
        }
        house.broker.bridgeOutcome = .wrong(["topic: one.", "address: two."])
        #expect(house.send(.patch, "bridges/b%2F1", #"{"topic":"x"}"#).object?["message"]?.string == "topic: one. address: two.")
    }

    @Test(arguments: [
        #"{"address":"h"}"#, #"{"name":"","address":"h"}"#, #"{"name":7}"#, #"{"name":"n","address":{}}"#,
        #"{"name":"n","topic":[1]}"#,
        #"{"name":"n","keepalive_interval":1.5}"#, "[]",
    ])
    func `a body that says nothing of a bridge is refused`(body: String) {
        let house = house()
        #expect(house.send(.post, "bridges", body).status == 400)
        #expect(house.broker.bridgeCommands.isEmpty)
        #expect(house.send(.patch, "bridges/b%2F1", "{}").status == 400)
    }

    @Test func `viewers see bridges without their options, and change none`() {
        let house = house(role: .viewer)
        #expect(house.get("bridges").rows.count == 1)
        #expect(house.get("bridges/b%2F1").object.map { $0["options"] == nil } == true)
        for (method, path) in [
            (HTTPMethod.post, "bridges"), (.patch, "bridges/b%2F1"), (.delete, "bridges/b%2F1"), (.post, "bridges/b%2F1/pause"),
        ] {
            #expect(house.send(method, path, #"{"topic":"x"}"#).status == 403)
        }
        #expect(house.broker.bridgeCommands.isEmpty)
    }
}
