import BrokerCore
import BrokerModel
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// What the API tells of the broker itself.
@Suite struct BrokerConversationTests {
    @Test func `the broker tells what it is and how it is`() {
        let house = AdministrationHouse(shards: 2)
        _ = house.simulation.connected("c")
        house.broker.condition.residentBytes = 12_345
        let broker = house.get("broker").object
        #expect(broker?["version"]?.string == "1.0.0")
        #expect(broker?["ready"]?.boolean == true)
        #expect(broker?["loops"]?.array?.count == 2)
        #expect(broker?["store"]?.object?["state"]?.string == "off")
        #expect(broker?["store"]?.object?["free_bytes"]?.integer == 5_000_000_000)
        #expect(broker?["files"]?.object?["open"]?.integer == 17)
        #expect(broker?["files"]?.object?["limit"]?.integer == 1024)
        #expect(broker?["memory"]?.object?["resident_bytes"]?.integer == 12_345)
    }

    @Test func `the configuration is shown, checked and reloaded`() {
        let house = AdministrationHouse()
        #expect(house.send(.post, "config/check").status == 409)
        house.broker.findings = ConfigurationFindings([.init(isError: false, file: "/etc/m.conf", line: 3, message: "Perhaps.")])
        #expect(house.send(.post, "config/check").object?["ok"]?.boolean == true)
        #expect(house.send(.post, "config/reload").status == 200)
        house.broker.findings?.findings.append(.init(isError: true, file: nil, line: nil, message: "No."))
        let failed = house.send(.post, "config/reload")
        #expect(failed.status == 422)
        #expect(failed.object?["diagnostics"]?.array?.last?.object?["severity"]?.string == "error")
        house.broker.configuration.options = [
            .init(name: "listener", value: "1883", isDefault: false, listener: nil, file: "/etc/m.conf", line: 1, reloads: false)
        ]
        #expect(house.get("config").object?["options"]?.array?.first?.object?["value"]?.string == "1883")
    }

    @Test func `what is logged is seen and chosen`() {
        let house = AdministrationHouse()
        house.broker.lines = (0..<5).map { AdministeredLogLine(topic: .notice, text: "line \($0)", at: UInt64($0)) }
        #expect(house.get("log?lines=2").column("message") == ["line 3", "line 4"])
        #expect(house.send(.put, "log/types", #"{"types":["error","debug"]}"#).status == 200)
        #expect(house.broker.logTopics == [.error, .debug])
        #expect(house.send(.put, "log/types", #"{"types":["nothing"]}"#).status == 400)
        #expect(house.send(.put, "log/types", #"{"types":["error","error"]}"#).status == 400)
        #expect(house.send(.put, "log/types", #"{}"#).status == 400)
    }

    @Test func `metrics have the labels that boards group by`() {
        let house = AdministrationHouse()
        let client = house.simulation.connected("c")
        client.subscribe("a", qos: .atLeastOnce)
        client.publish("a", "x", qos: .exactlyOnce)
        house.broker.listeners[0].connections = 7
        house.broker.listeners[0].connectionsAccepted = 9
        let lines = house.get("/metrics").body.split(separator: "\n").map(String.init)
        for line in [
            #"martlet_messages_received_total{qos="2"} 1"#, #"martlet_messages_received_total{qos="0"} 0"#,
            #"martlet_messages_sent_total{qos="1"} 1"#, #"martlet_connections{listener="listener 1883",protocol="mqtt"} 7"#,
            #"martlet_connections_accepted_total{listener="listener 1883",protocol="mqtt"} 9"#,
        ] { #expect(lines.contains(line), "\(line)") }
    }

    @Test func `listeners are told with their certificates`() {
        let house = AdministrationHouse()
        house.broker.listeners[0].certificate = .init(name: "server.crt", subject: "CN=x", notAfter: 1_900_000_000_000)
        let row = house.get("listeners").rows.first
        #expect(row?["port"]?.integer == 1883)
        #expect(row?["certificate"]?.object?["not_after"]?.string == "2030-03-17T17:46:40.000Z")
    }
}
