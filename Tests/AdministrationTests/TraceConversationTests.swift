import BrokerCore
import BrokerModel
import HTTP
import JSON
import JSONReader
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Traces over HTTP: begun, read along, fetched and ended.
@Suite(.serialized) struct TraceConversationTests {
    private func begin(_ house: AdministrationHouse, _ body: String) throws -> String {
        let answer = house.send(.post, "traces", body)
        #expect(answer.status == 201, "\(answer.body)")
        return try #require(answer.object?["id"]?.string)
    }

    private func tick(_ house: AdministrationHouse, seconds: Int = 1) {
        house.now += UInt64(seconds) * 1000
        house.administration.tick { house.moment }
    }

    /// What a stream has brought since it was looked at last.
    private func taken(_ answer: Answer) -> String {
        guard case .stream(let stream) = answer.response.body else { return "no stream" }
        var bytes: [UInt8] = []
        while case let piece = stream.take(), !piece.isEmpty { bytes += piece }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func lines(_ house: AdministrationHouse, _ id: String) throws -> [JSONMembers] {
        try taken(house.get("traces/\(id)/download")).split(separator: "\n").map {
            try #require(JSONValue(reading: Array($0.utf8)).object)
        }
    }

    @Test(arguments: [1, 3]) func `a client is traced from its CONNECT on, without its password`(shards: Int) throws {
        let house = AdministrationHouse(shards: shards)
        let id = try begin(house, #"{"clientid":"seen","payload":"text","payload_limit":3}"#)
        let client = house.simulation.client("seen")
        client.connect(
            will: Will(topic: "will", payload: Array("secret will".utf8)), userName: "user", password: Array("secret word".utf8))
        client.subscribe("a/+", qos: .atLeastOnce)
        client.publish("a/b", "12345", qos: .atLeastOnce)
        let lines = try lines(house, id)
        let words = lines.map { "\($0["direction"]?.string ?? "-") \($0["packet"]?.string ?? "-")" }
        #expect(
            words == [
                "in CONNECT", "out CONNACK", "in SUBSCRIBE", "out SUBACK", "in PUBLISH", "out PUBLISH", "out PUBACK", "in PUBACK",
            ])
        try #require(lines.count == 8)
        #expect(lines.allSatisfy { $0["clientid"]?.string == "seen" && $0["at"]?.string?.hasSuffix("Z") == true })
        #expect(lines[0]["username"]?.string == "user" && lines[0]["will_topic"]?.string == "will")
        #expect(lines[2]["filters"]?.array == [.string("a/+")] && lines[3]["reason_codes"]?.array == [.integer(1)])
        #expect(lines[4]["topic"]?.string == "a/b" && lines[4]["payload"]?.string == "123")
        #expect(lines[4]["payload_bytes"]?.integer == 5 && lines[4]["packet_id"]?.integer == 2)
        #expect(!taken(house.get("traces/\(id)/download")).contains("secret"))
        let trace = try #require(house.get("traces/\(id)").object)
        #expect(trace["lines"]?.integer == 8 && trace["state"]?.string == "running" && trace["lost"]?.integer == 0)
        #expect(trace["clientid"]?.string == "seen" && trace["topic"] == .null)
    }

    @Test func `a topic's trace says what became of its messages, and payloads only where they are asked for`() throws {
        let house = AdministrationHouse()
        let plain = try begin(house, #"{"topic":"a/#"}"#)
        let hexadecimal = try begin(house, #"{"topic":"a/b","payload":"hex"}"#)
        house.simulation.connected("receiver").subscribe("a/b")
        let publisher = house.simulation.connected("publisher")
        publisher.publish("a/b", bytes: [0, 255])
        publisher.publish("a/c", bytes: [1])
        publisher.publish("b", bytes: [1])
        let words = try lines(house, plain).map {
            "\($0["what"]?.string ?? "-") \($0["topic"]?.string ?? "-") \($0["clientid"]?.string ?? "-")"
        }
        #expect(words == ["published a/b publisher", "sent a/b receiver", "published a/c publisher", "unmatched a/c publisher"])
        #expect(try lines(house, plain).allSatisfy { $0["payload"] == nil })
        #expect(try lines(house, hexadecimal).map { $0["payload"]?.string } == ["00ff", nil])
        #expect(house.get("traces").rows.map { $0["lines"]?.integer } == [4, 2])
    }

    @Test func `a stream tells what was before, what comes, and the end`() throws {
        let house = AdministrationHouse()
        let id = try begin(house, #"{"clientid":"c","until":"\#(Timestamp.text(house.moment.wallMilliseconds + 5000))"}"#)
        let client = house.simulation.connected("c")
        let stream = house.get("traces/\(id)/stream")
        #expect(stream.fields["Content-Type"] == "text/event-stream")
        let before = taken(stream)
        #expect(before.contains("event: line\n") && before.contains("CONNECT") && before.contains("CONNACK"))
        client.ping()
        let after = taken(stream)
        #expect(after.contains("PINGREQ") && after.contains("PINGRESP") && !after.contains("CONN"))
        // Who comes back goes on behind what it has seen.
        let seen = try #require(before.split(separator: "\n").last { $0.hasPrefix("id: ") }?.dropFirst(4))
        let again = taken(house.send(.get, "traces/\(id)/stream", fields: ["Last-Event-ID": String(seen)]))
        #expect(again.contains("PINGREQ") && !again.contains("CONN"))
        tick(house, seconds: 6)
        #expect(taken(stream).hasSuffix("event: end\ndata: {\"state\":\"ended\"}\n\n"))
        client.ping()
        #expect(
            house.get("traces/\(id)").object?["lines"]?.integer == 4
                && house.get("traces/\(id)").object?["state"]?.string == "ended")
        #expect(house.simulation.perform(.endTrace(0)) == .notFound)
    }

    @Test func `a trace that is deleted is gone, for those who read it too`() throws {
        let house = AdministrationHouse(shards: 2)
        let id = try begin(house, #"{"address":"192.0.2.0/24"}"#)
        let stream = house.get("traces/\(id)/stream")
        #expect(house.send(.delete, "traces/\(id)").status == 204)
        guard case .stream(let body) = stream.response.body else { throw Missing() }
        #expect(body.isFinished)
        for path in ["traces/\(id)", "traces/\(id)/stream", "traces/\(id)/download"] { #expect(house.get(path).status == 404) }
        #expect(house.send(.delete, "traces/\(id)").status == 404)
        #expect(house.get("traces").rows.isEmpty)
        #expect(house.broker.auditLines.count { $0.contains("removeTrace") && $0.contains("address 192.0.2.0/24") } == 1)
    }

    private struct Missing: Error {}

    @Test func `there is an end to traces; one that has ended makes room`() throws {
        let house = AdministrationHouse()
        let soon = Timestamp.text(house.moment.wallMilliseconds + 3000)
        let first = try begin(house, #"{"clientid":"0","until":"\#(soon)"}"#)
        for number in 1..<8 { _ = try begin(house, #"{"clientid":"\#(number)"}"#) }
        #expect(house.send(.post, "traces", #"{"clientid":"one more"}"#).status == 409)
        tick(house, seconds: 4)
        #expect(house.get("traces/\(first)").object?["state"]?.string == "ended")
        _ = try begin(house, #"{"clientid":"one more"}"#)
        #expect(house.get("traces/\(first)").status == 404 && house.get("traces").rows.count == 8)
    }

    @Test func `a file that is full ends its trace`() throws {
        let house = AdministrationHouse()
        house.broker.traceBytesMax = 1000
        let id = try begin(house, #"{"clientid":"c"}"#)
        let client = house.simulation.connected("c")
        for _ in 0..<10 { client.ping() }
        let trace = try #require(house.get("traces/\(id)").object)
        #expect(trace["state"]?.string == "full")
        #expect(try lines(house, id).count == Int(try #require(trace["lines"]?.integer)))
        house.broker.traceBytesMax = nil
        #expect(house.send(.post, "traces", #"{"clientid":"c"}"#).status == 503)
    }

    @Test func `what a trace cannot be is refused with what would be right`() {
        let house = AdministrationHouse()
        for body in [
            "{}", #"{"clientid":"a","topic":"b"}"#, #"{"topic":"a/#/b"}"#, #"{"topic":"$share/g/a"}"#, #"{"address":"host"}"#,
            #"{"clientid":""}"#, #"{"clientid":"a","payload":"all"}"#, #"{"clientid":"a","payload_limit":16385}"#,
            #"{"clientid":"a","until":"2020-01-01T00:00:00Z"}"#, #"{"clientid":"a","until":"2100-01-01T00:00:00Z"}"#,
        ] {
            let answer = house.send(.post, "traces", body)
            #expect(answer.status == 400 && answer.code == "BAD_REQUEST", "\(body)")
        }
        #expect(house.get("traces").rows.isEmpty)
    }

    @Test func `payloads obey who may see them, also of a trace that runs`() throws {
        let house = AdministrationHouse()
        let id = try begin(house, #"{"topic":"a","payload":"text"}"#)
        house.configure { $0.payloads = .none }
        #expect(house.send(.post, "traces", #"{"topic":"a","payload":"hex"}"#).status == 403)
        #expect(house.get("traces/\(id)/stream").status == 403 && house.get("traces/\(id)/download").status == 403)
        _ = try begin(house, #"{"topic":"a"}"#)
        house.configure { $0.listeners[0]?.anonymousRole = .viewer }
        #expect(house.get("traces").status == 403 && house.send(.post, "traces", #"{"topic":"a"}"#).status == 403)
    }

    @Test func `lines that were lost are counted and told`() throws {
        let house = AdministrationHouse()
        let id = try begin(house, #"{"clientid":"c"}"#)
        let client = house.simulation.connected("c")
        for _ in 0..<3000 { client.connection?.send(.pingreq) }
        house.simulation.settle()
        let lost = try #require(house.get("traces/\(id)").object?["lost"]?.integer)
        #expect(lost > 0)
        let told = try lines(house, id).filter { $0["type"]?.string == "lost" }.compactMap { $0["count"]?.integer }
        #expect(told.reduce(0, +) == lost)
    }
}
