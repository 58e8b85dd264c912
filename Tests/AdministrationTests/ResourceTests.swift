import BrokerModel
import HTTP
import JSON
import Testing

@testable import Administration

/// What is declared once, and where it shows.
@Suite struct ResourceTests {
    private struct Row {
        var name = "a"
        var note: String?
        var count: UInt64 = 3
        var lag: UInt64 = 1500
    }

    private let resource = Resource<Row>(
        "Thing", key: "name",
        [
            .text("name", \.name),
            .textIfAny("note", \.note),
            .integer("out", \.count).counter("things_total", "Things.", ("direction", "out")),
            .integer("in") { $0.count + 1 }.counter("things_total", "Things.", ("direction", "in")),
            .integer("lag_ms", as: .milliseconds, column: "LAG", help: "How late.", \.lag).gauge("things_lag_seconds", "How late."),
            .measured { _ in 7 }.gauge("things_hidden", "In no object."),
        ])

    @Test func `a figure of the broker is told by one topic, and what mosquitto's API has of them by its topic`() {
        let topics = SystemFigure.topics.map(\.topic)
        #expect(Set(topics).count == topics.count)
        #expect(SystemFigure.mosquittoAPI.allSatisfy { topics.contains($0.topic) })
        var sum = ShardStatistics()
        (sum.bytesReceived, sum.clientsTotal, sum.clientsConnected) = (7, 3, 5)
        #expect(SystemFigure.bytesReceived.value(of: sum) == 7)
        #expect(SystemFigure.clientsDisconnected.value(of: sum) == 0, "counts of shards may be of different times")
        #expect(SystemFigure.storeRows.value(of: sum) == nil, "without a store")
        #expect(Administration.totalsResource.json(sum).text.contains(#""received_bytes":7"#))
    }

    @Test func `the description of a trace's lines has each member once, those of all packets among them`() {
        let names = TraceLine.schema.memberNames
        #expect(Set(names).count == names.count)
        #expect(Array(names.prefix(2)) == ["at", "type"])
        let expected = ["direction", "what", "payload", "filters", "reason_codes", "will_topic", "count", "error"]
        #expect(expected.allSatisfy(names.contains))
    }

    @Test func `an object has its members in their order, and no metric that is none of them`() {
        #expect(resource.json(Row()).text == #"{"name":"a","out":3,"in":4,"lag_ms":1500}"#)
        #expect(resource.json(Row(note: "n")).text == #"{"name":"a","note":"n","out":3,"in":4,"lag_ms":1500}"#)
        #expect(resource.names == ["name", "note", "out", "in", "lag_ms"])
    }

    @Test func `fields chooses members, and the key comes along`() {
        #expect(resource.json(Row(), only: ["in", "nothing"]).text == #"{"name":"a","in":4}"#)
        #expect(resource.json(Row(), only: nil).text == resource.json(Row()).text)
    }

    @Test func `several fields may be one metric, and milliseconds are told in seconds`() {
        var text = MetricText(.prometheus)
        resource.write([(labels: [("thing", "a")], row: Row()), (labels: [("thing", "b")], row: Row(count: 5))], to: &text)
        #expect(
            text.whole == """
                # HELP things_total Things.
                # TYPE things_total counter
                things_total{thing="a",direction="out"} 3
                things_total{thing="a",direction="in"} 4
                things_total{thing="b",direction="out"} 5
                things_total{thing="b",direction="in"} 6
                # HELP things_lag_seconds How late.
                # TYPE things_lag_seconds gauge
                things_lag_seconds{thing="a"} 1.5
                things_lag_seconds{thing="b"} 1.5
                # HELP things_hidden In no object.
                # TYPE things_hidden gauge
                things_hidden{thing="a"} 7
                things_hidden{thing="b"} 7

                """)
    }

    @Test func `the schema says what is always there, what a number is and what helps`() {
        var writer = JSONWriter()
        writer.add(resource.schema.json)
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"note":{"type":"string"},"#
                + #""out":{"type":"integer","minimum":0},"in":{"type":"integer","minimum":0},"#
                + #""lag_ms":{"type":"integer","minimum":0,"description":"How late."}},"additionalProperties":false}"#)
    }

    @Test(
        arguments: [
            ("/livez", .administration), ("/metrics", .administration), ("/api/martlet/v1/clients", .administration),
            ("/api/martlet", .administration), ("/api/v1/version", .mosquitto(.version)),
            ("/api/v1/listeners", .mosquitto(.listeners)),
            ("/api/v1/systree", .mosquitto(.systemTree)), ("/api/v1/systree/", .nothing), ("/api/v2/version", .nothing),
            ("/api", .nothing), ("/api/v1/version/x", .nothing), ("/dashboard", .dashboard), ("/dashboard/index.html", .dashboard),
            ("/", .file), ("/a/b.html", .file), ("/apis", .file),
        ] as [(String, RequestDestination)])
    func `a path says whom a request is for`(path: String, destination: RequestDestination) throws {
        #expect(RequestDestination(try #require(HTTPRequest(.get, path))) == destination)
    }

    @Test func `the host's name alone is the front door of browsers`() throws {
        var request = try #require(HTTPRequest(.get, "/"))
        request.fields.append("Accept", "text/html,*/*;q=0.1")
        #expect(RequestDestination(request) == .frontDoor)
    }
}
