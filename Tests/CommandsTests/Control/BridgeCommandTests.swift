import HTTP
import Testing

@testable import Commands

/// Bridges, as `ctl bridge` shows and changes them.
@Suite struct BridgeCommandTests {
    private static let row = #"""
        {"name":"site","state":"waiting","paused":false,"address":"h:1883","connected_at":null,"last_error":"refused","file":null,"line":null,
        "topics":["a out"],"queue_messages":5,"queue_bytes":1500,"queue_on_disk":3,"lag_ms":61500,"out_rate":1.5,"in_rate":0,"out_messages":7,
        "in_messages":8,"out_bytes":70,"in_bytes":80,"out_dropped":1,"in_dropped":2,"connections":4
        """#

    @Test func `all are a table, one is a list of facts and its lines`() throws {
        let page = Page()
        let service = RecordedService([
            "GET /bridges": #"{"data":[\#(Self.row)}],"kept":false,"meta":{"cursor":null,"count":1,"as_of":"x"}}"#,
            "GET /bridges/site": #"\#(Self.row),"options":{"address":["h"],"topic":["a out","b in"],"cleansession":"true"}}"#,
        ])
        let control = Control(service, page.output(width: 120))
        try control.bridges()
        #expect(
            page.lines[0].split(separator: " ") == [
                "NAME", "STATE", "ADDRESS", "WAITING", "LAG", "OUT/s", "IN/s", "OUT", "IN", "DROPPED",
            ])
        #expect(
            page.lines[1].split(separator: " ") == [
                "site", "waiting", "h:1883", "5", "1", "min", "1", "s", "1.5", "0", "7", "8", "3",
            ])
        #expect(page.lines[2].hasPrefix("The broker has no persistence"))
        try control.bridge("site")
        let facts = page.lines.map(String.init)
        #expect(facts.contains("Waiting            5 messages, 1.5 kB, 3 on disk"))
        #expect(facts.contains("Defined in         no file: added while the broker ran"))
        #expect(Array(facts.suffix(4)) == ["address h", "topic a out", "topic b in", "cleansession true"])
        #expect(control.bridgeCompletions(of: "si") == ["site"] && control.bridgeCompletions(of: "x") == [])
    }

    @Test func `lines become options, several of one name a list`() throws {
        let page = Page()
        let answer = #"{"name":"b","warnings":["connection: the bridge has no topic."]}"#
        let service = RecordedService([
            "POST /bridges": answer, "PATCH /bridges/b%2F1": #"{"name":"b/1","warnings":[]}"#, "POST /bridges/b%2F1/pause": "{}",
            "POST /bridges/b%2F1/resume": "{}", "GET /bridges/b": #"{"state":"connected","address":"h:1"}"#,
            "GET /bridges/b%2F1": #"{"state":"waiting","address":"h:1","last_error":"h:1: Connection refused"}"#,
            "DELETE /bridges/b%2F1": "",
        ])
        let control = Control(service, page.output())
        try control.addBridge("b", ["address  h:1", "# a comment", "", "topic a out 1", "topic\tb in"])
        try control.changeBridge("b/1", ["remote_password  s e c"], unset: ["remote_clientid"])
        try control.setBridge("b/1", isPaused: true)
        try control.setBridge("b/1", isPaused: false)
        try control.removeBridge("b/1")
        #expect(
            service.bodies == [
                #"{"name":"b","address":"h:1","topic":["a out 1","b in"]}"#, #"{"remote_password":"s e c","remote_clientid":null}"#,
            ])
        #expect(
            page.lines == [
                "The bridge b is added.", "Warning: connection: the bridge has no topic.", "It is connected to h:1.",
                "The bridge b/1 is changed.", "The bridge b/1 is paused. Messages for it wait.", "The bridge b/1 is resumed.",
                "It is not connected and tries again: h:1: Connection refused",
                "The bridge b/1 is removed, and what has waited for it.",
            ])
        #expect(throws: ControlError.self) { try control.addBridge("b", ["address"]) }
    }
}
