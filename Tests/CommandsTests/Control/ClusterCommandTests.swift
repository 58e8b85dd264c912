import Testing

@testable import Commands

/// `martlet ctl cluster`, and what other commands say of one.
@Suite struct ClusterCommandTests {
    private static let cluster = #"""
        {"name":"plant","node":"hall-1","trouble":null,"server":"n1","shared_names":["hall-1"],
        "totals":{"clients_connected":7,"sessions":9,"received_messages_rate":10,"sent_messages_rate":20,"dropped":3},
        "nodes":[{"name":"hall-1","id":"01","state":"up","self":true,"since":"2026-01-01T00:00:00.000Z","version":"1.0","draining":true,
        "clients_connected":7,"sessions":9,"memory_bytes":4000000,"address":"hall-1:1883","server":"n1 2.14","trouble":null},
        {"name":null,"id":"02","state":"silent","self":false,"since":"2026-01-01T00:00:00.000Z","version":null}]}
        """#

    @Test func `the nodes are a table, and one object for programs`() throws {
        let (page, json) = (Page(), Page())
        try Control(RecordedService(["GET /cluster": Self.cluster]), page.output()).cluster()
        for words in [
            "plant", "7 connected, 9 sessions", "10/s in, 20/s out", "hall-1 *", "draining", "silent since",
            "several nodes are called hall-1",
        ] {
            #expect(page.text.contains(words), "\(words)")
        }
        try Control(RecordedService(["GET /cluster": Self.cluster]), json.output(isJSON: true)).cluster()
        #expect(json.text.hasPrefix(#"{"name":"plant""#))
    }

    @Test(arguments: [
        (#"{"name":"plant","trouble":null,"nodes_up":3,"nodes_silent":0,"nodes_gone":0}"#, "plant, nodes: 3 up"),
        (
            #"{"name":"plant","trouble":"no server","nodes_up":1,"nodes_silent":2,"nodes_gone":1}"#,
            "plant, nodes: 1 up, 2 silent, 1 gone; this node is not ready: no server"
        ),
    ])
    func `status says it in one line`(cluster: String, line: String) throws {
        let page = Page()
        let recorded = [
            "GET /broker": #"{"version":"1.0","node":"hall-1","live":true,"ready":true,"uptime_s":90,"cluster":\#(cluster)}"#,
            "GET /stats": #"{"now":{},"dropped":{"total":2}}"#, "GET /listeners": #"{"data":[]}"#,
        ]
        try Control(RecordedService(recorded), page.output()).status()
        #expect(page.text.contains(line))
    }

    @Test func `on a terminal it is said that an answer is of one node`() throws {
        let broker = #"{"version":"1.0","node":"hall-1","live":true,"ready":true,"cluster":{"name":"plant","nodes_up":3}}"#
        func recorded(_ broker: String) -> RecordedService {
            RecordedService([
                "GET /broker": broker, "GET /stats": #"{"now":{},"dropped":{"total":2}}"#, "GET /listeners": #"{"data":[]}"#,
                "GET /clients?limit=50": #"{"data":[{"clientid":"a"}],"meta":{"cursor":null}}"#, "GET /drops": #"{"by_prefix":[]}"#,
            ])
        }
        func lastLines(_ broker: String, width: Int?, isJSON: Bool = false) throws -> [String] {
            let pages = [Page(), Page(), Page()]
            try Control(recorded(broker), pages[0].output(width: width, isJSON: isJSON)).status()
            try Control(recorded(broker), pages[1].output(width: width, isJSON: isJSON)).clients(ClientFilter(), count: 50)
            try Control(recorded(broker), pages[2].output(width: width, isJSON: isJSON)).drops(.topic)
            return pages.map { $0.lines.last.map { String($0) } ?? "" }
        }
        #expect(
            try lastLines(broker, width: 80) == [
                "This shows the node hall-1 only; martlet ctl cluster shows all.",
                "This shows the node hall-1 only; --cluster lists the clients of all.", "This shows the node hall-1 only.",
            ])
        let others = [
            try lastLines(broker, width: nil), try lastLines(broker, width: 80, isJSON: true),
            try lastLines(#"{"version":"1.0","node":"hall-1","cluster":null}"#, width: 80),
        ]
        #expect(others.joined().allSatisfy { !$0.contains("alone") })
    }

    @Test func `clients of all nodes have theirs beside them, and who is missing is said`() throws {
        let page = Page()
        let rows =
            #"{"data":[{"clientid":"a","node":"hall-2","connected":true}],"meta":{"cursor":null,"missing_nodes":["hall-3"]}}"#
        let service = RecordedService(["GET /clients?cluster=true&limit=50": rows])
        try Control(service, page.output()).clients(ClientFilter(), count: 50, isOfCluster: true)
        #expect(page.lines.first?.contains("NODE") == true && page.text.contains("hall-2"))
        #expect(page.lines.last == "Without those of hall-3: no answer.")
    }
}
