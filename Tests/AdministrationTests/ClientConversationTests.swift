import BrokerCore
import BrokerModel
import Bytes
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// What the API tells of clients, and does to them.
@Suite(.serialized) struct ClientConversationTests {
    @Test func `clients of all shards come in one order, page after page`() {
        let house = AdministrationHouse(shards: 3)
        let names = (0..<25).map { "client-\($0 < 10 ? "0" : "")\($0)" }
        for name in names.shuffled() { _ = house.simulation.connected(EncodedString(stringLiteral: name)) }
        var (seen, cursor): ([String], String?) = ([], nil)
        repeat {
            let page = house.get("clients?limit=7" + (cursor.map { "&cursor=\($0)" } ?? ""))
            #expect(page.status == 200)
            #expect(page.rows.count <= 7)
            seen += page.column("clientid")
            cursor = page.cursor
        } while cursor != nil
        #expect(seen == names)
        #expect(house.get("clients?sort=-clientid&limit=3").column("clientid") == ["client-24", "client-23", "client-22"])
    }

    @Test func `a client's row tells who it is and where`() throws {
        let house = AdministrationHouse()
        let client = TestClient(broker: house.simulation, identifier: "sensor/1 ü", version: .v311)
        client.connect(clean: false, keepAlive: 60, userName: "ann")
        client.subscribe("a/#")
        let row = try #require(house.get("clients").rows.first)
        #expect(row["clientid"]?.string == "sensor/1 ü")
        #expect(row["username"]?.string == "ann")
        #expect(row["connected"]?.boolean == true)
        #expect(row["address"]?.string == "192.0.2.1")
        #expect(row["listener"]?.string == "listener 1883")
        #expect(row["protocol"]?.string == "mqtt")
        #expect(row["proto_ver"]?.integer == 4)
        #expect(row["clean_start"]?.boolean == false)
        #expect(row["session_expiry_s"] == .null)
        #expect(row["keepalive_s"]?.integer == 60)
        #expect(row["subscriptions"]?.integer == 1)
        #expect(row["connected_at"]?.string == Timestamp.text(house.simulation.now + house.broker.wallClockOffset))
        #expect(row.names == ClientAnswers.clientResource.names)
        let one = house.get("clients/sensor%2F1%20%C3%BC")
        #expect(one.object?["will"] == .null)
        #expect(one.object?["limits"]?.object?["receive_maximum"]?.integer != nil)
        #expect(house.get("clients/other").status == 404)
        client.lose()
        let away = try #require(house.get("clients").rows.first)
        #expect(away["connected"]?.boolean == false)
        #expect(away["keepalive_s"] == .null)
        #expect(away["disconnected_at"]?.string != nil)
    }

    @Test func `lists are filtered and sorted by trouble`() {
        let house = AdministrationHouse(shards: 2)
        for (name, count) in [("slow-a", 3), ("slow-b", 5), ("fast", 0)] {
            let client = TestClient(broker: house.simulation, identifier: EncodedString(stringLiteral: name), version: .v5)
            client.connect(expiry: 100, userName: name == "fast" ? "bob" : "ann")
            client.subscribe("q/\(name)" == "q/fast" ? "q/fast" : "q/#", qos: .atLeastOnce)
            client.lose()
            let publisher = house.simulation.connected("publisher")
            for _ in 0..<count { publisher.publish("q/only-\(name)", "x", qos: .atLeastOnce) }
            publisher.disconnect()
        }
        // What came for slow-b's time waits for slow-a too.
        #expect(
            house.get("clients?sort=-queue_messages&fields=queue_messages&prefix=slow").rows.map { $0["queue_messages"]?.integer }
                == [8, 5])
        #expect(house.get("clients?q=SLOW").column("clientid") == ["slow-a", "slow-b"])
        #expect(house.get("clients?q=BO").column("clientid") == ["fast"])
        #expect(house.get("clients?username=ann").rows.count == 2)
        #expect(house.get("clients?min_queue=6").column("clientid") == ["slow-a"])
        #expect(house.get("clients?state=connected").rows.isEmpty)
        #expect(house.get("clients?state=absent&proto_ver=5").rows.count == 3)
        _ = house.simulation.connected("here")
        #expect(house.get("clients?address=192.0.2.0/24").column("clientid") == ["here"])
        #expect(house.get("clients?address=10.0.0.0/8").rows.isEmpty)
        #expect(house.get("clients?listener=listener%201883").column("clientid") == ["here"])
        let chosen = house.get("clients?fields=lag_ms").rows.first
        #expect(chosen?.names == ["clientid", "lag_ms"])
    }

    @Test func `a queue is seen with payloads by those who may, and purged by filter`() throws {
        let house = AdministrationHouse()
        let client = TestClient(broker: house.simulation, identifier: "c", version: .v5)
        client.connect(expiry: 100)
        client.subscribe("#", qos: .atLeastOnce)
        client.lose()
        let publisher = house.simulation.connected("p")
        for number in 0..<5 { publisher.publish(number < 3 ? "a" : "b", "payload \(number)", qos: .atLeastOnce) }
        let queue = house.get("clients/c/queue?limit=3")
        #expect(queue.column("topic") == ["a", "a", "a"])
        #expect(queue.column("state") == ["waiting", "waiting", "waiting"])
        #expect(queue.rows.allSatisfy { $0["payload"] == nil })
        let rest = house.get("clients/c/queue?payload=1&cursor=\(try #require(queue.cursor))")
        #expect(rest.column("topic") == ["b", "b"])
        #expect(rest.rows.first?["payload"]?.string.flatMap { Base64.decode($0) } == Array("payload 3".utf8))
        #expect(rest.cursor == nil)
        house.configure { $0.payloads = .none }
        #expect(house.get("clients/c/queue?payload=1").status == 403)
        #expect(house.send(.delete, "clients/c/queue?filter=b").object?["removed"]?.integer == 2)
        #expect(house.send(.delete, "clients/c/queue").object?["removed"]?.integer == 3)
        #expect(house.send(.delete, "clients/gone/queue").status == 404)
        #expect(house.get("clients/gone/queue").status == 404)
    }

    @Test func `a purge that the disk does not have is no success`() {
        let house = AdministrationHouse(store: SimulatedStore())
        let client = TestClient(broker: house.simulation, identifier: "c", version: .v5)
        client.connect(expiry: 100)
        client.subscribe("#", qos: .atLeastOnce)
        client.lose()
        let publisher = house.simulation.connected("p")
        for number in 0..<5 { publisher.publish(number < 3 ? "a" : "b", "x", qos: .atLeastOnce) }
        #expect(house.send(.delete, "clients/c/queue?filter=a").object?["removed"]?.integer == 3)
        house.simulation.store?.mode = .failed
        let answer = house.send(.delete, "clients/c/queue?filter=b")
        #expect(answer.status == 503 && answer.object?["message"]?.string?.hasPrefix("2 messages removed. The store") == true)
    }

    @Test func `messages in flight are seen with their packet identifiers`() {
        let house = AdministrationHouse()
        let client = TestClient(broker: house.simulation, identifier: "c", version: .v5)
        client.acknowledgement = .manual
        client.connect()
        client.subscribe("a", qos: .atLeastOnce)
        house.simulation.connected("p").publish("a", "x", qos: .atLeastOnce)
        let rows = house.get("clients/c/inflight").rows
        #expect(rows.map { $0["packet_id"]?.integer } == [1])
        #expect(rows.first?["state"]?.string == "sent")
    }

    @Test func `a client is disconnected with its will or without`() {
        for publishesWill in [true, false] {
            let house = AdministrationHouse()
            let watcher = house.simulation.connected("w")
            watcher.subscribe("gone")
            let client = TestClient(broker: house.simulation, identifier: "c", version: .v5)
            client.connect(expiry: 100, will: Will(topic: "gone", payload: Array("bye".utf8)))
            #expect(house.send(.delete, "clients/c/connection?will=\(publishesWill)").status == 204)
            #expect(client.disconnectReason == .administrativeAction)
            #expect(watcher.texts == (publishesWill ? ["bye"] : []))
            #expect(house.get("clients/c").object?["connected"]?.boolean == false)
            #expect(house.send(.delete, "clients/c/connection").status == 404)
            #expect(house.send(.delete, "clients/c").status == 204)
            #expect(house.get("clients/c").status == 404)
        }
    }

    @Test func `connections that have ended are told, the last first`() throws {
        let house = AdministrationHouse(shards: 2)
        for name in ["a", "b", "c"] {
            let client = house.simulation.connected(EncodedString(stringLiteral: name))
            house.simulation.advance(milliseconds: 10)
            client.disconnect()
        }
        let page = house.get("connections/closed?limit=2")
        #expect(page.column("clientid") == ["c", "b"])
        #expect(page.rows.first?["by_client"]?.boolean == true)
        #expect(page.rows.first?["refused"]?.boolean == false)
        #expect(house.get("connections/closed?cursor=\(try #require(page.cursor))").column("clientid") == ["a"])
        #expect(house.get("connections/closed?clientid=b").column("clientid") == ["b"])
        #expect(house.get("connections/closed?refused=true").rows.isEmpty)
    }

    @Test func `drops are told with their reasons`() {
        let house = AdministrationHouse(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 2 })
        let client = TestClient(broker: house.simulation, identifier: "c", version: .v5)
        client.connect(expiry: 100)
        client.subscribe("a/b/c", qos: .atLeastOnce)
        client.lose()
        let publisher = house.simulation.connected("p")
        for _ in 0..<5 { publisher.publish("a/b/c", "x", qos: .atLeastOnce) }
        let drops = house.get("drops")
        #expect(drops.column("clientid") == ["c", "c", "c"])
        #expect(drops.column("reason") == ["queue_full", "queue_full", "queue_full"])
        #expect(drops.object?["by_prefix"]?.array?.first?.object?["prefix"]?.string == "a/b")
        #expect(house.get("clients?sort=-dropped&limit=1").rows.first?["dropped"]?.object?["queue_full"]?.integer == 3)
        #expect(house.get("clients?min_dropped=4").rows.isEmpty)
    }

    @Test func `a list of a thousand clients of eight shards has each of them once, in every order`() throws {
        let house = AdministrationHouse(shards: 8)
        house.simulation.checksInvariants = false
        for number in 0..<1000 {
            let client = TestClient(broker: house.simulation, identifier: EncodedString(stringLiteral: "c\(number)"), version: .v5)
            client.connect(expiry: 1000)
        }
        for sort in ["clientid", "-queue_messages", "connected_at", "-received_rate"] {
            var (seen, cursor): ([String], String?) = ([], nil)
            repeat {
                let page = house.get("clients?fields=clientid&limit=150&sort=\(sort)" + (cursor.map { "&cursor=\($0)" } ?? ""))
                seen += page.column("clientid")
                cursor = page.cursor
            } while cursor != nil
            #expect(seen.count == 1000)
            #expect(Set(seen).count == 1000)
        }
    }
}
