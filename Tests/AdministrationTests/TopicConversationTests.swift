import BrokerCore
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// What the API tells of subscriptions and topics, and does with them.
@Suite(.serialized) struct TopicConversationTests {
    @Test func `subscriptions are found by client, filter, share and the topic that reaches them`() {
        let house = AdministrationHouse(shards: 3)
        for (name, filters) in [("a", ["x/#", "$share/g/jobs"]), ("b", ["x/+/z", "$share/g/jobs"]), ("c", ["x/y", "jobs"])] {
            let client = house.simulation.connected(EncodedString(stringLiteral: name))
            for filter in filters { client.subscribe(TopicFilter(stringLiteral: filter), qos: .atLeastOnce, identifier: 7) }
        }
        #expect(house.get("subscriptions").rows.count == 6)
        #expect(Set(house.get("subscriptions?matches=x/y").column("clientid")) == ["a", "c"])
        #expect(Set(house.get("subscriptions?matches=x/y/z").column("filter")) == ["x/#", "x/+/z"])
        #expect(Set(house.get("subscriptions?share=g").column("clientid")) == ["a", "b"])
        #expect(Set(house.get("subscriptions?filter=$share/g/jobs").column("clientid")) == ["a", "b"])
        #expect(house.get("subscriptions?filter=jobs").column("clientid") == ["c"])
        #expect(house.get("subscriptions?clientid=b").rows.count == 2)
        #expect(Set(house.get("clients/b/subscriptions").column("share")) == ["g", "-"])
        #expect(house.get("clients/b/subscriptions").rows.allSatisfy { $0["identifier"]?.integer == 7 && $0["qos"]?.integer == 1 })
        #expect(house.get("clients/d/subscriptions").status == 404)
    }

    @Test(arguments: [1, 4])
    func `a list of subscriptions is paged over the shards, filtered or not`(shards: Int) {
        let house = AdministrationHouse(shards: shards)
        for number in 0..<60 {
            let client = house.simulation.connected(EncodedString(stringLiteral: "c\(number)"))
            client.subscribe(number % 10 == 0 ? "rare" : "many/+")
        }
        for (query, count) in [("", 60), ("&filter=rare", 6), ("&filter=many/%2B", 54)] {
            var (seen, cursor): ([String], String?) = ([], nil)
            repeat {
                let page = house.get("subscriptions?limit=4" + query + (cursor.map { "&cursor=\($0)" } ?? ""))
                #expect(page.rows.count <= 4)
                seen += page.column("clientid")
                cursor = page.cursor
            } while cursor != nil
            #expect(seen.count == count)
            #expect(Set(seen).count == count)
        }
    }

    @Test func `the tree of topics has what is subscribed to and what is retained`() throws {
        let house = AdministrationHouse(shards: 3)
        for name in ["a", "b", "c"] { house.simulation.connected(EncodedString(stringLiteral: name)).subscribe("house/+/light") }
        let publisher = house.simulation.connected("p")
        for topic in ["house/1/light", "house/2/light", "house/2", "garden"] as [EncodedString] {
            publisher.publish(topic, "on", qos: .atLeastOnce, retain: true)
        }
        let top = house.get("topics/tree")
        #expect(top.column("name") == ["garden", "house"])
        #expect(top.rows[1]["subscriptions"]?.integer == 3)
        #expect(top.rows[1]["retained"]?.integer == 3)
        #expect(top.rows.map { $0["children"]?.boolean } == [false, true])
        let below = house.get("topics/tree?under=house&limit=2")
        #expect(below.column("topic") == ["house/+", "house/1"])
        #expect(house.get("topics/tree?under=house&cursor=\(try #require(below.cursor))").column("name") == ["2"])
        #expect(house.get("topics/tree?under=nowhere").rows.isEmpty)
    }

    @Test func `retained messages are listed, shown, counted and deleted`() throws {
        let house = AdministrationHouse(shards: 3)
        let publisher = house.simulation.connected("p")
        for number in 0..<20 {
            publisher.publish(EncodedString(stringLiteral: "r/\(number)"), "value \(number)", qos: .atLeastOnce, retain: true)
        }
        var properties = Properties()
        properties.contentType = "text/plain"
        properties.userProperties = [UserProperty(name: "a", value: "b")]
        publisher.publish("s", "s", qos: .atLeastOnce, retain: true, properties: properties)
        #expect(house.get("retained?limit=100").rows.count == 21)
        #expect(house.get("retained?filter=r/%2B&limit=7").rows.count == 7)
        let message = house.get("retained/message?topic=s").object
        #expect(message?["payload"]?.string == "cw==")
        #expect(message?["properties"]?.object?["content_type"]?.string == "text/plain")
        #expect(message?["properties"]?.object?["user_properties"]?.array?.first?.object?["value"]?.string == "b")
        #expect(house.get("retained/message?topic=none").status == 404)
        #expect(house.send(.delete, "retained").status == 400)
        #expect(house.send(.delete, "retained?filter=r/%23&dry_run=true").object?["removed"]?.integer == 20)
        #expect(house.send(.delete, "retained?filter=r/%23").object?["removed"]?.integer == 20)
        #expect(house.get("retained").column("topic") == ["s"])
    }

    @Test func `payloads are for those who may see them`() {
        let house = AdministrationHouse(role: .viewer)
        house.simulation.connected("p").publish("s", "secret", qos: .atLeastOnce, retain: true)
        #expect(house.get("retained/message?topic=s").object?["payload"] == .null)
        #expect(house.get("session").object?["payloads"]?.boolean == false)
        house.configure { $0.payloads = .viewer }
        #expect(house.get("retained/message?topic=s").object?["payload"]?.string == "c2VjcmV0")
    }

    @Test func `a message is published to whom it concerns`() {
        let house = AdministrationHouse()
        let client = house.simulation.connected("c")
        client.subscribe("a/+")
        let answer = house.send(
            .post, "publish",
            #"{"topic":"a/b","payload":"aGVsbG8=","payload_encoding":"base64","qos":1,"#
                + #""properties":{"content_type":"x","user_properties":[{"name":"n","value":"v"}]}}"#)
        #expect(answer.status == 200)
        #expect(answer.object?["reason_code"]?.integer == 0)
        #expect(answer.object?["matched"]?.integer == 1)
        #expect(client.texts == ["hello"])
        let nobody = house.send(.post, "publish", #"{"topic":"nobody","payload":"x","retain":true}"#)
        #expect(nobody.status == 202)
        #expect(nobody.object?["reason_code"]?.integer == 16)
        #expect(house.get("retained").column("topic") == ["nobody"])
        #expect(house.get("audit").column("target").first == "nobody")
    }
}
