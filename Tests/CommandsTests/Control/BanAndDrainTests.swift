import HTTP
import Testing

@testable import Commands

/// Who is kept out, who is sent away, and what is wrong.
@Suite struct BanAndDrainTests {
    @Test func `bans are made and lifted by what they are for, and listed`() throws {
        let page = Page()
        let ban = #"{"as":"clientid","who":"a\"","by":"ann","reason":"","at":"2026-11-23T10:00:00.000Z","until":null}"#
        let service = RecordedService([
            "DELETE /bans/peerhost_net/10.0.0.0%2F8": "", "POST /bans": ban,
            "GET /bans?limit=1000": "{\"data\":[\(ban)],\"kept\":true,\"meta\":{\"cursor\":null,\"count\":1,\"as_of\":\"x\"}}",
        ])
        let control = Control(service, page.output(width: 100))
        try control.liftBan("peerhost_net", "10.0.0.0/8")
        try control.ban("clientid", "a\"", seconds: nil, reason: "flapping")
        try control.bans(count: nil)
        #expect(service.bodies == [#"{"as":"clientid","who":"a\"","reason":"flapping"}"#])
        #expect(page.lines[0] == "The network 10.0.0.0/8 is not banned any more.")
        #expect(page.lines[1] == "The client a\" is banned for ever.")
        #expect(page.lines[3].hasPrefix("client  a\"   2026-11-23 10:00:00  for ever"))
    }

    @Test func `alarms are listed as they are asked for, and acknowledged`() throws {
        let page = Page()
        let alarm =
            #"{"number":3,"name":"bridge_down","of":"site","severity":"warning","message":"The bridge is not connected: no answer.","#
            + #""raised_at":"2026-11-23T10:00:00.000Z","cleared_at":null,"acknowledged_at":null,"acknowledged_by":"#
        let list = "{\"data\":[\(alarm)null}],\"active\":1,\"meta\":{\"cursor\":null,\"count\":1,\"as_of\":\"x\"}}"
        let service = RecordedService([
            "GET /alarms?state=active&limit=50": list, "POST /alarms/3/acknowledge": alarm + #""ann"}"#,
            "GET /alarms?state=cleared&limit=1000": #"{"data":[],"active":0,"meta":{"cursor":null,"count":0,"as_of":"x"}}"#,
        ])
        let control = Control(service, page.output(width: 200))
        try control.alarms("active", count: 50)
        try control.acknowledgeAlarm(3)
        try control.alarms("cleared", count: nil)
        #expect(page.lines[1].contains("3  warning   bridge_down  site  2026-11-23 10:00:00  –"))
        #expect(page.lines[2] == "Alarm 3 (bridge_down) is acknowledged by ann.")
        #expect(page.lines[3] == "There were no alarms.")
    }

    private static let drained = #"{"state":"drained","connections_left":0}"#
    private static let draining = #"{"state":"draining","connections_left":12}"#

    @Test func `draining waits until all have gone`() throws {
        let page = Page()
        let service = RecordedService(["POST /drain": Self.draining, "GET /broker": #"{"drain":\#(Self.drained)}"#])
        var pauses = 0
        let drain = Control.Drain(serverReference: "b:1", perSecond: 5, stops: false)
        try Control(service, page.output()).drain(drain, pause: { pauses += 1 })
        #expect(service.bodies == [#"{"server_reference":"b:1","per_second":5,"stop":false}"#])
        #expect(
            page.lines == ["Draining: 12 connections are left.", "Drained: no client is left, and new connections are refused."])
        #expect(pauses == 1)
    }

    @Test func `a broker that ends when it is drained is not waited for, and one that lets clients in again is told of`() throws {
        let page = Page()
        let ending = RecordedService(["POST /drain": Self.draining])
        let drain = Control.Drain(serverReference: nil, perSecond: nil, stops: true)
        try Control(ending, page.output()).drain(drain, pause: {})
        #expect(ending.bodies == [#"{"stop":true}"#] && page.lines.last == "The broker has ended.")
        let undone = RecordedService(["POST /drain": Self.draining, "GET /broker": #"{"drain":null}"#])
        #expect(throws: ControlError.self) { try Control(undone, page.output()).drain(drain, pause: {}) }
        try Control(RecordedService(["POST /drain": Self.draining]), page.output()).drain(drain, pause: nil)
        #expect(page.lines.last == "Draining: 12 connections are left.")
    }
}
