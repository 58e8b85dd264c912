import HTTP
import Platform
import Testing

@testable import Commands

@Suite struct CommandTests {
    private static let client = """
        {"clientid":"press-07/left","username":null,"connected":true,"address":"10.1.0.7","port":4711,"listener":"1883","protocol":"mqtt",\
        "proto_ver":5,"session_expiry_s":3600,"keepalive_s":60,"created_at":null,"connected_at":"2026-11-23T10:00:00.000Z",\
        "subscriptions":3,"queue_messages":12,"queue_bytes":1080,"inflight_out":1,"inflight_in":0,"output_bytes":0,"lag_ms":900,\
        "received_messages":31,"received_bytes":3100,"sent_messages":77,"sent_bytes":7700,"dropped":{"total":44,"queue_full":44,"expired":0}}
        """

    private static func page(_ rows: [String], cursor: String? = nil) -> String {
        "{\"data\":[\(rows.joined(separator: ","))],\"meta\":{\"cursor\":\(cursor.map { "\"\($0)\"" } ?? "null"),\"count\":null,\"as_of\":\"x\"}}"
    }

    @Test func `clients are a table for people and the API's pages for programs`() throws {
        let first = Self.page([Self.client], cursor: "c+1")
        let second = Self.page([Self.client])
        let recorded = [
            "GET /clients?sort=-dropped&limit=1000": first, "GET /clients?sort=-dropped&limit=1000&cursor=c%2B1": second,
            "GET /clients?sort=-dropped&limit=1": first,
        ]
        var filter = ClientFilter()
        filter.query = [("q", nil), ("sort", "-dropped")]
        let (page, json, short) = (Page(), Page(), Page())
        try Control(RecordedService(recorded), page.output(width: 80)).clients(filter, count: nil)
        #expect(page.lines.count == 3)
        #expect(page.lines[1].hasPrefix("press-07/left  -     10.1.0.7:4711  on     5.0 "))
        try Control(RecordedService(recorded), json.output(isJSON: true)).clients(filter, count: nil)
        #expect(json.text == first + "\n" + second + "\n")
        try Control(RecordedService(recorded), short.output()).clients(filter, count: 1)
        #expect(short.text.contains("and more"))
    }

    @Test func `a client's facts are shown, and only those that there are`() throws {
        let page = Page()
        try Control(RecordedService(["GET /clients/press-07%2Fleft?cluster=true": Self.client]), page.output(width: 80)).client(
            "press-07/left")
        #expect(page.text.contains("Dropped        44 queue full\n"))
        #expect(page.text.contains("Connected      2026-11-23 10:00:00\n"))
        #expect(!page.text.contains("User") && !page.text.contains("expired") && !page.text.contains("Will"))
    }

    @Test func `a mount point is set and taken away by the command that changes its user, group or role`() throws {
        let page = Page()
        let answer = #"{"responses":[{"command":"modifyClient"}]}"#
        let service = RecordedService(["POST /security/commands": answer])
        let control = Control(service, page.output())
        try control.dynamicSecurity(SecurityVerb(["setClientMountPoint", "anna", "own/%u/"]))
        try control.dynamicSecurity(SecurityVerb(["setrolemountpoint", "pumps"]))
        try control.dynamicSecurity(SecurityVerb(["createGroup", "acme"], mountPoint: "acme/"))
        #expect(
            service.bodies == [
                #"{"commands":[{"command":"modifyClient","username":"anna","mountpoint":"own/%u/"}]}"#,
                #"{"commands":[{"command":"modifyRole","rolename":"pumps","mountpoint":""}]}"#,
                #"{"commands":[{"command":"createGroup","groupname":"acme","mountpoint":"acme/"}]}"#,
            ])
        #expect(throws: SecurityVerb.Complaint.self) { try SecurityVerb(["getClient", "anna"], mountPoint: "x/") }
    }

    @Test func `orders go to their routes, with what they are about`() throws {
        let page = Page()
        let service = RecordedService([
            "DELETE /clients/a%2Fb/connection?cluster=true": "", "DELETE /clients/a%2Fb/connection?will=false&cluster=true": "",
            "DELETE /clients/a%2Fb?cluster=true": "",
            "DELETE /clients/a%2Fb/queue?filter=x%2F%23": "{\"removed\":1}",
            "DELETE /retained?filter=%23&dry_run=true": "{\"removed\":7}", "DELETE /tokens/x%2Fy": "",
            "POST /tokens": "{\"name\":\"x\",\"token\":\"mrt_abc\"}",
        ])
        let control = Control(service, page.output())
        try control.kick("a/b", endsSession: false, sendsWill: true)
        try control.kick("a/b", endsSession: false, sendsWill: false)
        try control.kick("a/b", endsSession: true, sendsWill: true)
        try control.deleteQueue(of: "a/b", filter: "x/#")
        try control.deleteRetained(filter: "#", isDryRun: true)
        try control.revokeToken("x/y")
        try control.createToken("x\"", role: "viewer", seconds: nil)
        #expect(service.bodies == [#"{"name":"x\"","role":"viewer"}"#])
        #expect(page.lines[3] == "1 message removed." && page.lines[4] == "7 retained messages would be removed.")
        #expect(page.lines.last == "mrt_abc")
    }

    @Test func `what the broker refuses is said in its words, with a code of its own`() {
        let codes = [
            400: ControlError.Code.refused, 401: .notAllowed, 403: .notAllowed, 404: .notFound, 409: .refused, 503: .refused,
        ]
        for (status, code) in codes {
            let recorded = ["GET /clients/x?cluster=true": "{\"code\":\"WORDS\",\"message\":\"No \\u001bsuch client.\"}"]
            do throws(ControlError) {
                try Control(RecordedService(recorded, status: status), Page().output()).client("x")
                Issue.record("no error")
            } catch {
                #expect(error.code == code)
                #expect(error.description.hasPrefix("No \u{241b}such client."))
            }
        }
    }

    @Test func `what stands there and speaks no JSON is not taken for a broker`() {
        do throws(ControlError) {
            try Control(RecordedService(["GET /clients/x?cluster=true": "<html>"]), Page().output()).client("x")
            Issue.record("no error")
        } catch {
            #expect(error.code == .unreachable)
        }
    }

    @Test func `a configuration that is wrong is an error, with its lines`() {
        let answer = """
            {"ok":false,"diagnostics":[{"severity":"error","file":"/etc/m.conf","line":9,"message":"unknown option"},\
            {"severity":"warning","file":null,"line":null,"message":"old"}]}
            """
        let page = Page()
        #expect(throws: ControlError(.refused, "The configuration stays as it was.")) {
            try Control(RecordedService(["POST /config/reload": answer], status: 422), page.output()).reload(isCheck: false)
        }
        #expect(page.text == "Error: /etc/m.conf:9: unknown option\nWarning: old\n")
    }

    @Test func `health is the broker's checks, and an error when one fails`() {
        let page = Page()
        let checks = "[+]loops ok\n[-]store full\n"
        #expect(throws: ControlError(.refused, "It is not ready.")) {
            try Control(RecordedService(["GET /readyz?verbose=": checks], status: 503), page.output()).health(isLiveOnly: false)
        }
        #expect(page.text == checks)
    }

    @Test func `log types are set, or added to those there are`() throws {
        let service = RecordedService([
            "GET /log/types": #"{"types":["error","notice"]}"#, "PUT /log/types": #"{"types":["error"]}"#,
        ])
        let control = Control(service, Page().output())
        try control.logLevel([])
        #expect(service.bodies == [])
        try control.logLevel(["+debug", "+error"])
        try control.logLevel(["warning"])
        try control.logLevel(["none"])
        #expect(service.bodies == [#"{"types":["error","notice","debug"]}"#, #"{"types":["warning"]}"#, #"{"types":[]}"#])
    }

    @Test func `a log that is followed says what was lost, and nothing that a terminal obeys`() throws {
        let events = [
            ServerSentEvent(
                event: "log", data: #"{"at":"2026-11-23T10:00:00.000Z","level":"notice","message":"a\u001b"}"#),
            ServerSentEvent(event: "lost", data: #"{"count":7}"#),
        ]
        let last = ["GET /log?lines=3": #"{"data":[]}"#]
        let (page, json) = (Page(), Page())
        try Control(RecordedService(last, events: events), page.output()).log(lineCount: 3, isFollowing: true)
        #expect(page.lines == ["2026-11-23 10:00:00 notice: a\u{241b}", "… 7 lost: this reader is too slow."])
        try Control(RecordedService(last, events: events), json.output(isJSON: true)).log(lineCount: 3, isFollowing: true)
        #expect(json.lines.map(String.init) == [#"{"data":[]}"#, events[0].data, events[1].data])
    }

    @Test func `drops are listed, and counted by topic and by listener`() throws {
        let drops =
            #"{"data":[{"at":"2026-11-23T10:00:00.123Z","clientid":"c","topic":"a/b/c","reason":"queue_full","qos":1,"bytes":1200}],"#
            + #""by_prefix":[{"prefix":"a/b","dropped":{"total":3,"queue_full":2,"expired":1,"refused":0}},{"prefix":null,"dropped":{"total":1,"refused":1}}],"#
            + #""by_listener":[{"listener":"listener 1883","dropped":{"total":4,"queue_full":4}}]}"#
        let page = Page()
        let control = Control(RecordedService(["GET /drops?limit=5": drops, "GET /drops": drops]), page.output())
        try control.drops(count: 5)
        #expect(page.lines.last == "2026-11-23 10:00:00  c       a/b/c  queue full    1  1.2 kB")
        try control.drops(.topic)
        #expect(page.lines.suffix(2) == ["a/b             3  2 queue full, 1 expired", "(others)        1  1 refused"])
        try control.drops(.listener)
        #expect(page.lines.last == "listener 1883        4  4 queue full")
    }

    @Test func `a trace is a line for each packet and message, and ends when the broker says so`() throws {
        let events = [
            ServerSentEvent(
                event: "line",
                data: #"{"at":"2026-11-23T10:00:00.123Z","type":"packet","direction":"in","packet":"PUBLISH","clientid":"a\u001b","#
                    + #""topic":"t","qos":1,"payload":"x y"}"#),
            ServerSentEvent(
                event: "line",
                data:
                    #"{"at":"2026-11-23T10:00:00.124Z","type":"message","what":"dropped","reason":"queue_full","clientid":"b","topic":"t"}"#
            ),
            ServerSentEvent(event: "line", data: #"{"at":"2026-11-23T10:00:00.125Z","type":"lost","count":7}"#),
            ServerSentEvent(event: "end", data: #"{"state":"full"}"#), ServerSentEvent(event: "line", data: "{}"),
        ]
        let (page, json) = (Page(), Page())
        try Control(RecordedService([:], events: events), page.output()).followTrace("1")
        #expect(
            page.lines == [
                "10:00:00.123 <- PUBLISH a\u{241b} t qos=1 payload=x y", "10:00:00.124 -- dropped b t reason=queue_full",
                "10:00:00.125 -- lost count=7", "The trace's file is full.",
            ])
        try Control(RecordedService([:], events: events), json.output(isJSON: true)).followTrace("1")
        #expect(json.lines.map(String.init) == events[..<3].map(\.data))
    }

    @Test func `traces and counted topics are begun, listed and ended`() throws {
        let trace =
            #"{"id":"3","clientid":null,"topic":"a/#","address":null,"until":"2026-11-23T10:00:00.000Z","state":"running","#
            + #""lines":5,"bytes":1200,"lost":0}"#
        let metric =
            #"{"filter":"a/#","since":"2026-11-23T10:00:00.000Z","in_messages":3,"in_bytes":5,"out_messages":6,"out_bytes":10,"#
            + #""dropped":1,"in_rate":0.5,"out_rate":1,"dropped_rate":0}"#
        let page = Page()
        let service = RecordedService([
            "GET /traces": "{\"data\":[\(trace)]}", "POST /traces": trace, "DELETE /traces/3": "",
            "GET /traces/3/download":
                #"{"at":"2026-11-23T10:00:00.123Z","type":"packet","direction":"out","packet":"PINGRESP","clientid":"c"}"#,
            "GET /topic-metrics": "{\"data\":[\(metric)]}", "POST /topic-metrics": metric,
            "DELETE /topic-metrics?filter=a%2F%23": "",
        ])
        let control = Control(service, page.output())
        try control.traces()
        #expect(page.lines[1].hasPrefix("3   topic a/#  running  2026-11-23 10:00:00      5     0  1.2 kB"))
        let id = try control.beginTrace(TraceChoice(.topic("a/#"), seconds: 60, payload: "hex", payloadLimit: 10))
        #expect(id == "3" && service.bodies[0].hasPrefix(#"{"topic":"a/#","until":"2"#))
        try control.recordedTrace("3")
        #expect(page.lines.last == "10:00:00.123 -> PINGRESP c")
        try control.stopTrace("3")
        try control.topicMetrics()
        #expect(
            page.lines.last?.hasPrefix("a/#      3   0.5    6      1        1      5 B      10 B  2026-11-23") == true,
            "\(page.lines)")
        try control.addTopicMetric("a/#")
        try control.removeTopicMetric("a/#")
        #expect(page.lines.suffix(2) == ["a/# is counted.", "a/# is not counted any more."])
    }

    @Test func `a shell completes names that are one word to it, and no others`() {
        let names = [
            "sensor-1", "sensor 2", "sensor$(reboot)", "sensor`x`", "sensor;x", "sensor\\u001b", "other", "sensor-é", "sensor/3",
        ]
        let rows = names.map { "{\"clientid\":\"\($0)\"}" }
        let service = RecordedService(["GET /clients?prefix=sens&fields=clientid&limit=200": Self.page(rows)])
        let control = Control(service, Page().output())
        #expect(control.completions(of: "sens") == ["sensor-1", "sensor/3"])
        #expect(control.completions(of: "nobody has recorded this") == [])
    }

    @Test func `status is one picture, and one object for programs`() throws {
        let recorded = [
            "GET /broker":
                #"{"version":"1.0","node":"plant","live":true,"ready":true,"uptime_s":90000,"store":{"state":"ok","bytes":4000000}}"#,
            "GET /stats":
                #"{"now":{"clients_connected":5,"sent_messages_rate":1800.25},"dropped":{"total":2,"expired":2,"refused":0}}"#,
            "GET /listeners":
                #"{"data":[{"name":"8883","protocol":"mqtt","address":null,"port":8883,"path":null,"tls":true,"connections":4,"max_connections":100}]}"#,
        ]
        let (page, json) = (Page(), Page())
        try Control(RecordedService(recorded), page.output(width: 80)).status()
        for words in ["ready", "1 d 1 h", "5 connected", "1800/s out", "2 (2 expired)", "*:8883", "4 of 100", "ok, 4 MB"] {
            #expect(page.text.contains(words), "\(words)")
        }
        try Control(RecordedService(recorded), json.output(isJSON: true)).status()
        #expect(json.text.hasPrefix(#"{"broker":{"version""#) && json.lines.count == 1)
    }

    // MARK: top

    private func top() throws -> (TopModel, Control) {
        let recorded = [
            "GET /broker": #"{"version":"1.0","node":"plant","ready":true,"uptime_s":60}"#,
            "GET /stats": #"{"now":{"sent_messages_rate":7}}"#,
            "GET /clients?sort=-dropped&limit=24": Self.page([Self.client]),
            "GET /clients?sort=-queue_messages&limit=24": Self.page([Self.client.replacing(31, with: 131)]),
        ]
        return (TopModel(address: "here", order: "dropped"), Control(RecordedService(recorded), Page().output()))
    }

    @Test func `top fills the terminal and no more, whatever its size`() throws {
        var (model, control) = try top()
        try control.refresh(&model, rows: 24, at: 0)
        for (columns, rows) in [(80, 24), (20, 8), (200, 60), (1, 2)] {
            let lines = model.lines(columns: columns, rows: rows).map { $0.map(\.text).joined() }
            #expect(lines.count == rows)
            for line in lines { #expect(line.count <= columns) }
        }
        let lines = model.lines(columns: 120, rows: 24).map { $0.map(\.text).joined() }
        #expect(lines[0] == "Martlet 1.0 on plant, up 1 min")
        #expect(lines[5].hasPrefix("CLIENT") && lines[6].hasPrefix("press-07/left"))
        #expect(lines[23].hasPrefix("by DROPPED most first"))
    }

    @Test func `top says that it shows one node of a cluster`() throws {
        var (model, _) = try top()
        let recorded = [
            "GET /broker": #"{"version":"1.0","node":"hall-1","ready":true,"uptime_s":60,"cluster":{"name":"plant"}}"#,
            "GET /stats": #"{"now":{}}"#, "GET /clients?sort=-dropped&limit=24": Self.page([Self.client]),
        ]
        try Control(RecordedService(recorded), Page().output()).refresh(&model, rows: 24, at: 0)
        let first = model.lines(columns: 120, rows: 24)[0].map(\.text).joined()
        #expect(first == "Martlet 1.0 on hall-1, this node of the cluster plant only, up 1 min")
    }

    @Test func `keys change the order, and rates come from two pictures`() throws {
        var (model, control) = try top()
        try control.refresh(&model, rows: 24, at: 1000)
        #expect(model.press(.character("x")) == .nothing)
        #expect(model.press(.right) == .ask)
        try control.refresh(&model, rows: 24, at: 3000)
        let row = model.lines(columns: 120, rows: 24)[6].map(\.text).joined()
        #expect(row.contains("  50  ") || row.contains(" 50 "), "\(row)")
        #expect(model.press(.character("p")) == .nothing && model.isPaused)
        #expect(model.press(.character("q")) == .end)
        model.show(ControlError(.unreachable, "gone\u{1b}"))
        #expect(model.lines(columns: 80, rows: 24)[23].map(\.text).joined() == "gone\u{241b}")
    }
}

extension String {
    /// The count of received messages, another one.
    fileprivate func replacing(_ old: Int, with new: Int) -> String {
        let parts = split(separator: "\"received_messages\":\(old),", maxSplits: 1)
        return parts.joined(separator: "\"received_messages\":\(new),")
    }
}
