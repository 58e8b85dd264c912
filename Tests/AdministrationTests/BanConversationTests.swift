import BrokerModel
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Who is banned, as administrators see and say.
@Suite struct BanConversationTests {
    @Test func `somebody is banned, is listed and gone, and let in again`() {
        let house = AdministrationHouse()
        let client = house.simulation.connected("c/1")
        let made = house.send(.post, "bans", #"{"as":"clientid","who":"c/1","reason":"noise","until":"2023-11-15T22:13:20Z"}"#)
        #expect(made.status == 201)
        #expect(made.object?["by"]?.string == "anonymous" && made.object?["until"]?.string == "2023-11-15T22:13:20.000Z")
        #expect(client.disconnectReason == .administrativeAction && client.connect()?.reasonCode == .banned)
        #expect(house.send(.post, "bans", #"{"as":"clientid","who":"c/1"}"#).status == 200, "in its place")
        #expect(house.get("bans").rows.first?["until"] == .null)
        #expect(house.send(.delete, "bans/clientid/c%2F1").status == 204)
        #expect(house.send(.delete, "bans/clientid/c%2F1").status == 404)
        #expect(client.connect()?.isAccepted == true)
        #expect(house.get("audit?limit=3").column("operation") == ["liftBan", "liftBan", "ban"])
        #expect(house.get("audit?limit=3").column("target") == ["clientid c/1", "clientid c/1", "clientid c/1"])
    }

    @Test func `where the nodes of a cluster cannot be told nobody is banned, and the answer says why`() {
        let house = AdministrationHouse()
        #expect(house.send(.post, "bans", #"{"as":"clientid","who":"a"}"#).status == 201)
        house.broker.banTrouble = "the cluster cannot be reached"
        let refused = house.send(.post, "bans", #"{"as":"clientid","who":"b"}"#)
        #expect(refused.status == 503)
        #expect(refused.object?["message"]?.string == "Nothing was changed: the cluster cannot be reached.")
        #expect(house.send(.delete, "bans/clientid/a").status == 503)
        #expect(house.get("bans").column("who") == ["a"])
    }

    @Test func `pages follow one another, of one kind or all`() {
        let house = AdministrationHouse()
        let bans = [
            ("peerhost_net", "192.0.2.9/24"), ("clientid", "b"), ("clientid", "a"), ("peerhost", "192.0.2.1"), ("username", "u"),
        ]
        for (kind, who) in bans { #expect(house.send(.post, "bans", #"{"as":"\#(kind)","who":"\#(who)"}"#).status == 201) }
        var (found, cursor): ([String], String?) = ([], nil)
        repeat {
            let page = house.get("bans?limit=2" + (cursor.map { "&cursor=\($0)" } ?? ""))
            found += page.column("who")
            cursor = page.cursor
        } while cursor != nil
        #expect(found == ["a", "b", "192.0.2.1", "192.0.2.0/24", "u"])
        #expect(house.get("bans?as=clientid").column("who") == ["a", "b"])
        #expect(house.get("bans").object?["kept"]?.boolean == true)
        #expect(house.get("bans?cursor=%21").status == 400)
        #expect(house.send(.delete, "bans/peerhost_net/192.0.2.77%2F24").status == 204, "the same network")
        #expect(house.send(.get, "/metrics").body.contains("martlet_bans{as=\"clientid\"} 2\n"))
        #expect(house.send(.get, "/metrics").body.contains("martlet_bans_total{as=\"peerhost_net\"} 1\n"))
    }

    @Test(arguments: [
        #"{"as":"clientid"}"#, #"{"who":"a"}"#, #"{"as":"clientid_re","who":"a"}"#, #"{"as":"clientid","who":""}"#,
        #"{"as":"peerhost","who":"host.example"}"#, #"{"as":"peerhost","who":"192.0.2.0/24"}"#,
        #"{"as":"peerhost_net","who":"0.0.0.0/0"}"#,
        #"{"as":"peerhost_net","who":"192.0.2.1"}"#, #"{"as":"clientid","who":"a","until":"1999-01-01T00:00:00Z"}"#,
        #"{"as":"clientid","who":"a","by":"me"}"#,
    ])
    func `what names nobody is refused`(body: String) {
        #expect(AdministrationHouse().send(.post, "bans", body).status == 400)
    }

    @Test func `there are so many at most`() throws {
        let house = AdministrationHouse()
        for number in 0..<BanList.largestCount {
            let ban = Ban(try #require(BanTarget(.client, "\(number)")), by: "", reason: "", at: 0, until: nil)
            #expect(house.broker.add(ban))
        }
        #expect(house.send(.post, "bans", #"{"as":"username","who":"a"}"#).status == 409)
        #expect(house.send(.post, "bans", #"{"as":"clientid","who":"7"}"#).status == 200)
    }

    @Test func `viewers see bans and make none`() {
        let house = AdministrationHouse(role: .viewer)
        #expect(house.get("bans").status == 200)
        #expect(house.send(.post, "bans", #"{"as":"clientid","who":"a"}"#).status == 403)
        #expect(house.send(.delete, "bans/clientid/a").status == 403)
    }
}
