import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Counting chosen topic filters over HTTP.
struct TopicMetricConversationTests {
    @Test(arguments: [1, 3]) func `a filter is counted over all shards until it is removed`(shards: Int) throws {
        let house = AdministrationHouse(shards: shards)
        #expect(house.get("topic-metrics").rows.isEmpty)
        #expect(house.send(.post, "topic-metrics", #"{"filter":"a/#"}"#).status == 201)
        #expect(house.send(.post, "topic-metrics", #"{"filter":"a/#"}"#).code == "CONFLICT")
        let receivers = ["x", "y", "z"].map { house.simulation.connected($0) }
        for receiver in receivers { receiver.subscribe("a/b", qos: .atLeastOnce) }
        house.now += 2000
        for receiver in receivers { receiver.publish("a/b", "1234", qos: .atLeastOnce) }
        let row = try #require(house.get("topic-metrics").rows.first)
        #expect(row["filter"]?.string == "a/#" && row["in_messages"]?.integer == 3 && row["in_bytes"]?.integer == 12)
        #expect(row["out_messages"]?.integer == 9 && row["out_bytes"]?.integer == 36 && row["dropped"]?.integer == 0)
        #expect(row["in_rate"] == .number(1.5) && row["out_rate"] == .number(4.5))
        let metrics = house.get("/metrics").body
        #expect(metrics.contains("martlet_topic_messages_received_total{filter=\"a/#\"} 3\n"))
        #expect(metrics.contains("martlet_topic_bytes_sent_total{filter=\"a/#\"} 36\n"))
        #expect(house.send(.delete, "topic-metrics?filter=a%2F%23").status == 204)
        #expect(house.send(.delete, "topic-metrics?filter=a%2F%23").status == 404)
        #expect(house.get("topic-metrics").rows.isEmpty && !house.get("/metrics").body.contains("martlet_topic_"))
        #expect(house.broker.auditLines.contains { $0.contains("addTopicMetric") && $0.contains("a/#") })
    }

    @Test func `no filter, a shared one and one too many are refused, and nothing is left of them`() {
        let house = AdministrationHouse()
        for body in ["{}", #"{"filter":"a/#/b"}"#, #"{"filter":"$share/g/a"}"#, #"{"filter":7}"#] {
            #expect(house.send(.post, "topic-metrics", body).status == 400, "\(body)")
        }
        for number in 0..<512 { #expect(house.send(.post, "topic-metrics", "{\"filter\":\"t/\(number)\"}").status == 201) }
        #expect(house.send(.post, "topic-metrics", #"{"filter":"one/more"}"#).status == 409)
        #expect(house.get("topic-metrics").rows.count == 512)
        house.configure { $0.listeners[0]?.anonymousRole = .viewer }
        #expect(house.send(.post, "topic-metrics", #"{"filter":"x"}"#).status == 403)
        #expect(house.send(.delete, "topic-metrics?filter=t%2F0").status == 403 && house.get("topic-metrics").status == 200)
    }
}
