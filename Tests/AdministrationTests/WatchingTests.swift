import BrokerModel
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// What is measured and told as it happens.
@Suite(.serialized) struct WatchingTests {
    /// Lets a second pass.
    private func tick(_ house: AdministrationHouse, seconds: Int = 1) {
        for _ in 0..<seconds {
            house.now += 1000
            house.administration.tick { house.moment }
        }
    }

    // MARK: History

    @Test func `rates and gauges are remembered by the second`() throws {
        let house = AdministrationHouse()
        #expect(house.get("stats/history").object?["from"] == .null)
        tick(house)
        let client = house.simulation.connected("c")
        client.subscribe("a")
        for _ in 0..<4 { client.publish("a", "x", qos: .atLeastOnce) }
        tick(house)
        tick(house)
        let history = house.get("stats/history?series=received_messages_rate,connections,dropped_expired_rate").object
        let series = try #require(history?["series"]?.object)
        #expect(series.names == ["connections", "received_messages_rate", "dropped_expired_rate"])
        #expect(series["connections"]?.array == [.number(0), .number(1), .number(1)])
        #expect(series["received_messages_rate"]?.array == [.null, .number(4), .number(0)])
        #expect(history?["from"]?.string == Timestamp.text(house.moment.wallMilliseconds - 2000))
        #expect(house.get("stats").object?["totals"]?.object?["received_messages"]?.integer == 4)
        #expect(house.get("stats").object?["now"]?.object?["connections"] == .number(1))
        #expect(house.get("stats/history?series=none").status == 400)
    }

    @Test func `minutes are what their seconds were, and memory is bounded`() throws {
        var history = History()
        let start: UInt64 = 1_700_000_040
        for second in 0..<(3 * 86_400) where second % 7 == 0 || second > 3 * 86_400 - 200 {
            var values = [Float](repeating: .nan, count: Series.allCases.count)
            values[0] = Float(second % 60)
            values[Series.allCases.count - 1] = Float(second % 60)
            history.add(values, second: start + UInt64(second))
        }
        let (seconds, minutes) = (history.ring(step: 1), history.ring(step: 60))
        #expect(seconds.count == 900)
        #expect(minutes.count == 1440)
        #expect(seconds.values(of: 0).suffix(3) == [57, 58, 59])
        #expect(seconds.values(of: 1).allSatisfy { $0 == nil })
        // Of the minute before the last: every second of it is known.
        #expect(minutes.values(of: 0).last == 29.5)
        #expect(minutes.values(of: Series.allCases.count - 1).last == 59)
        #expect(minutes.firstSecond == minutes.lastSecond - 1439 * 60)
    }

    @Test func `a second that was missed has no value`() {
        var ring = SampleRing(capacity: 5, step: 1)
        let row = [Float](repeating: 1, count: Series.allCases.count)
        ring.add(row, second: 100)
        ring.add(row, second: 103)
        #expect(ring.values(of: 0) == [1, nil, nil, 1])
        ring.add(row, second: 1_000_000)
        #expect(ring.values(of: 0) == [nil, nil, nil, nil, 1])
    }

    @Test func `a quantile lies between the bounds of its bucket`() {
        var counts = [UInt64](repeating: 0, count: 18)
        #expect(Sample.quantile(0.5, counts) == nil)
        counts[4] = 100
        #expect(Sample.quantile(0.5, counts) == 0.75)
        counts[17] = 100
        #expect(Sample.quantile(0.99, counts) == 10_000)
    }

    // MARK: Metrics

    @Test func `metrics are text that Prometheus reads`() {
        let house = AdministrationHouse(role: .metrics)
        house.broker.listeners[0].name = "listener \"x\"\\"
        house.broker.condition.processorSeconds = 1.5
        let answer = house.send(.get, "/metrics")
        #expect(answer.fields["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        #expect(answer.body.contains("# TYPE martlet_messages_dropped_total counter\n"))
        #expect(answer.body.contains("martlet_messages_dropped_total{reason=\"queue_full\"} 0\n"))
        #expect(answer.body.contains(#"martlet_connections{listener="listener \"x\"\\",protocol="mqtt"} 0"#))
        #expect(answer.body.contains("process_cpu_seconds_total 1.5\n"))
        #expect(answer.body.contains("martlet_acknowledge_seconds_bucket{qos=\"1\",le=\"5e-05\"} 0\n"))
        #expect(!answer.body.contains("# EOF"))
        #expect(house.get("clients").status == 403)
    }

    @Test func `who came in, who did not and who went is counted with the reason`() {
        let house = AdministrationHouse(
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].checksPasswords = true
                $0.listeners[0].accessControl = AccessControl(
                    anonymous: AccessFilter(Array("open/#".utf8), isPattern: false).map {
                        [AccessRule([.read, .write], $0, line: 1)]
                    } ?? [],
                    users: [:], patterns: [], file: "/etc/acl")
                $0.listeners[0].checksAccessOnSubscribe = true
                $0.authenticationMethods = ["SCRAM-SHA-256"]
            })
        let simulation = house.simulation
        simulation.authenticate = { request in
            guard case .password(let name, _) = request.step else { return .refused(.notAuthorized, because: .wrongPassword) }
            switch name {
            case "anna": return .accepted(userName: "anna", data: nil)
            case "busy": return .refused(.serverBusy)
            default: return .refused(.notAuthorized, because: .unknownUser)
            }
        }
        simulation.client("a").connect(keepAlive: 60, userName: "anna")
        simulation.client("b").connect(userName: "otto")
        simulation.client("b").connect(userName: "busy")
        for method in ["SCRAM-SHA-256", "X-1", "X-2"] {
            simulation.client("b").connect(properties: .having { $0.authenticationMethod = EncodedString(method) })
        }
        let client = simulation.connected("c")
        client.publish("closed/x", "x")
        client.subscribe("closed/#")
        client.disconnect()
        simulation.connected("d").lose()
        let silent = simulation.open()
        simulation.advance(milliseconds: 3_600_000)
        #expect(silent.isClosed)
        let body = house.send(.get, "/metrics").body
        let lines = body.split(separator: "\n").filter { line in
            !line.hasSuffix(" 0")
                && ["refused", "logins", "disconnects", "denied"].contains {
                    line.hasPrefix("martlet_") && line.contains("_\($0)_total{")
                }
        }
        #expect(
            lines.map { String($0.dropFirst("martlet_".count)) } == [
                #"connections_refused_total{reason="bad_authentication_method"} 2"#,
                #"connections_refused_total{reason="connect_timeout"} 1"#,
                #"connections_refused_total{reason="not_authorized"} 2"#, #"connections_refused_total{reason="server_busy"} 1"#,
                #"logins_total{backend="SCRAM-SHA-256",result="refused"} 1"#,
                #"logins_total{backend="anonymous",result="accepted"} 2"#,
                #"logins_total{backend="password_file",result="accepted"} 1"#,
                #"logins_total{backend="password_file",result="refused"} 1"#,
                #"logins_total{backend="password_file",result="unavailable"} 1"#,
                #"logins_total{backend="unknown_method",result="refused"} 2"#,
                #"disconnects_total{listener="listener 1883",reason="connection_closed"} 1"#,
                #"disconnects_total{listener="listener 1883",reason="keep_alive_timeout"} 1"#,
                #"disconnects_total{listener="listener 1883",reason="normal_disconnection"} 1"#,
                #"access_denied_total{action="publish"} 1"#, #"access_denied_total{action="subscribe"} 1"#,
            ])
        #expect(body.contains("martlet_connections_refused_total{reason=\"tls\"} 0\n"))
    }

    @Test func `who accepts OpenMetrics gets it, with the trace of a slow request`() {
        let house = AdministrationHouse()
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        _ = house.send(.get, "clients", fields: ["traceparent": "00-\(trace)-00f067aa0ba902b7-01"])
        let accept: HTTPFields = [
            "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ]
        let answer = house.send(.get, "/metrics", fields: accept)
        #expect(answer.fields["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        #expect(answer.body.contains("# TYPE martlet_messages_dropped counter\n"))
        #expect(answer.body.hasSuffix("# EOF\n"))
        #expect(answer.body.contains(#"martlet_http_requests_total{route="/api/martlet/v1/clients",method="GET",code="200"} 1"#))
        #expect(answer.body.contains("trace_id") == answer.body.contains("# {trace_id=\"\(trace)\"}"))
        #expect(house.send(.get, "/metrics", fields: ["Accept": "*/*"]).body.hasSuffix("# EOF\n") == false)
    }

    @Test func `metrics by the exporter's names are those of mosquitto`() {
        let house = AdministrationHouse()
        _ = house.simulation.connected("c")
        let body = house.send(.get, "/metrics?names=mosquitto").body
        #expect(body.contains("broker_clients_connected 1\n"))
        #expect(body.contains("broker_retained_messages_count 0\n"))
    }

    @Test func `metrics may be open to everybody`() {
        let house = AdministrationHouse(role: nil)
        #expect(house.send(.get, "/metrics").status == 401)
        house.configure { $0.allowsAnonymousMetrics = true }
        #expect(house.send(.get, "/metrics").status == 200)
    }

    @Test func `the description of the API is served`() {
        let house = AdministrationHouse(role: nil)
        #expect(house.get("openapi.json").object?["openapi"]?.string == "3.1.0")
    }

    // MARK: Streams

    private func open(_ house: AdministrationHouse, _ path: String, fields: HTTPFields = [:]) -> HTTPStream? {
        guard case .stream(let stream) = house.send(.get, path, fields: fields).response.body else { return nil }
        return stream
    }

    private func text(_ stream: HTTPStream?) -> String { String(decoding: stream?.take() ?? [], as: UTF8.self) }

    private func event(_ number: Int) -> JSONObject {
        var object = JSONObject()
        object.set("n", number)
        return object
    }

    @Test func `events go to those who want them, and those who come back get what they missed`() {
        let house = AdministrationHouse()
        let all = open(house, "events")
        let some = open(house, "events?types=ban,dropped")
        #expect(text(all) == ": here\n\n")
        #expect(text(some) == ": here\n\n")
        house.administration.report(.connected, event(1), at: house.moment)
        house.administration.report(.ban, event(2), at: house.moment)
        house.administration.report(.stats, event(3), at: house.moment)
        #expect(text(all) == "id: 1\nevent: connected\ndata: {\"n\":1}\n\nid: 2\nevent: ban\ndata: {\"n\":2}\n\n")
        #expect(text(some) == "id: 2\nevent: ban\ndata: {\"n\":2}\n\n")
        #expect(text(open(house, "events", fields: ["Last-Event-ID": "1"])) == ": here\n\nid: 2\nevent: ban\ndata: {\"n\":2}\n\n")
        #expect(text(open(house, "events", fields: ["Last-Event-ID": "x"])) == ": here\n\n")
    }

    @Test func `what happens to clients is told while somebody wants to know`() {
        let house = AdministrationHouse(shards: 2)
        #expect(!house.broker.isWatched)
        let stream = open(house, "events?types=connected,disconnected,subscribed,unsubscribed")
        let bans = open(house, "events?types=ban")
        #expect(house.broker.isWatched)
        _ = text(stream)
        let client = house.simulation.connected("c")
        client.subscribe("a/#", qos: .atLeastOnce)
        client.unsubscribe("a/#")
        client.disconnect()
        for event in house.simulation.presence { house.administration.report(event, at: house.moment) }
        let events = text(stream).split(separator: "\n\n")
        #expect(
            events.map { $0.split(separator: "\n")[1] }
                == ["connected", "subscribed", "unsubscribed", "disconnected"].map { "event: \($0)" })
        #expect(events[1].contains("\"filter\":\"a/#\",\"qos\":1"))
        #expect(events[3].contains("\"by_client\":true"))
        stream?.abandon()
        #expect(!house.broker.isWatched)
        #expect(bans?.isOpen == true)
    }

    @Test func `a slow reader is told how much it has lost`() {
        let house = AdministrationHouse()
        let stream = open(house, "events")
        var long = JSONObject()
        long.set("x", String(repeating: "x", count: 10_000))
        for _ in 0..<1000 { house.administration.report(.alarm, long, at: house.moment) }
        let taken = text(stream)
        let got = taken.split(separator: "\n\n").count { $0.hasPrefix("id") }
        #expect(got > 0 && got < 1000)
        #expect(text(stream) == "event: lost\ndata: {\"count\":\(1000 - got)}\n\n")
        house.administration.report(.ban, event(1), at: house.moment)
        #expect(text(stream).hasPrefix("id: 1001\nevent: ban"))
    }

    @Test func `the ring keeps so many events`() {
        let house = AdministrationHouse()
        for number in 0..<5000 { house.administration.report(.config, event(number), at: house.moment) }
        let again = text(open(house, "events", fields: ["Last-Event-ID": "0"]))
        #expect(again.split(separator: "\n\n").count == 4097)
    }

    @Test(arguments: [nil, 16_000_000] as [Int?])
    func `the ring keeps so many bytes, a small part of a memory limit, and the newest events of them`(memory: Int?) {
        var settings = AdministrationSettings()
        settings.memoryBytesMax = memory
        let house = AdministrationHouse()
        house.administration.apply(settings, tokens: TokenTable())
        var long = JSONObject()
        long.set("x", String(repeating: "x", count: 60_000))
        for _ in 0..<1000 { house.administration.report(.alarm, long, at: house.moment) }
        let held = house.administration.heldBytes
        #expect(memory == nil ? (4_000_000...4 << 20).contains(held) : (400_000...500_000).contains(held))
    }

    @Test func `events of clients with long names have their beginnings alone`() {
        let house = AdministrationHouse()
        let stream = open(house, "events?types=connected,disconnected,subscribed")
        _ = text(stream)
        let name = EncodedString(String(repeating: "n", count: 60_000)) ?? ""
        let client = house.simulation.connected(name)
        client.subscribe(TopicFilter(String(repeating: "f", count: 60_000)) ?? "a", qos: .atLeastOnce)
        client.disconnect()
        for event in house.simulation.presence { house.administration.report(event, at: house.moment) }
        let events = text(stream).split(separator: "\n\n")
        #expect(events.count == 3 && events.allSatisfy { $0.utf8.count < 1500 && $0.contains("nnn...(60000 bytes)") })
        #expect(events.contains { $0.contains("fff...(60000 bytes)") })
    }

    @Test func `statistics come as often as they are asked for, and silence is broken`() {
        let house = AdministrationHouse()
        let every = open(house, "events?types=stats")
        let third = open(house, "events?types=stats&interval=3")
        let silent = open(house, "events?types=bridge")
        (_, _, _) = (text(every), text(third), text(silent))
        tick(house, seconds: 30)
        #expect(text(every).split(separator: "\n\n").count { $0.contains("event: stats") } == 30)
        #expect(text(third).split(separator: "\n\n").count { $0.contains("event: stats") } == 10)
        #expect(text(silent) == ": still here\n\n: still here\n\n")
    }

    @Test func `there are so many streams, and so many of one address`() {
        let house = AdministrationHouse()
        var streams: [HTTPStream] = []
        for number in 0..<16 {
            house.origin.address = "198.51.100.\(number / 8)"
            if let stream = open(house, "events") { streams.append(stream) }
            if number == 7 { #expect(house.get("events").status == 429) }
        }
        #expect(streams.count == 16)
        house.origin.address = "203.0.113.1"
        #expect(house.get("log/stream").status == 429)
        streams[0].abandon()
        #expect(house.get("log/stream").status == 200)
    }

    @Test func `the log is read as it is written`() {
        let house = AdministrationHouse()
        #expect(!house.administration.hasLogReaders)
        let stream = open(house, "log/stream")
        #expect(house.administration.hasLogReaders && house.broker.isLogWatched)
        _ = text(stream)
        house.administration.report(AdministeredLogLine(topic: .warning, text: "a\nb", at: 0), at: house.moment)
        #expect(
            text(stream)
                == "event: log\ndata: {\"at\":\"1970-01-01T00:00:00.000Z\",\"level\":\"warning\",\"message\":\"a\\nb\"}\n\n")
        stream?.abandon()
        #expect(!house.broker.isLogWatched)
    }

    @Test func `a broker that ends ends its streams`() {
        let house = AdministrationHouse()
        let stream = open(house, "log/stream")
        house.administration.end()
        #expect(stream?.isFinished == true)
    }
}
