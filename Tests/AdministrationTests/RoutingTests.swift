import HTTP
import JSON
import Testing

@testable import Administration

/// Which request gets which answer, whatever it is about.
@Suite struct RoutingTests {
    @Test func `what is not there is not found, and cannot be changed`() {
        let house = AdministrationHouse()
        #expect(house.send(.get, "/api/badrequest").status == 404)
        #expect(house.send(.post, "/api/badrequest").status == 405)
        #expect(house.send(.post, "/post").status == 405)
        #expect(house.send(.get, "/api/badrequest").code == "NOT_FOUND")
        #expect(house.get("clients/").status == 404)
        #expect(house.get("clients//queue").status == 404)
    }

    @Test func `another method is refused with those that are taken`() {
        let house = AdministrationHouse()
        let answer = house.send(.put, "clients/x")
        #expect(answer.status == 405)
        #expect(answer.code == "METHOD_NOT_ALLOWED")
        #expect(answer.fields["Allow"] == "GET, HEAD, DELETE")
        #expect(house.send(.options, "clients/x").fields["Allow"] == "GET, HEAD, DELETE, OPTIONS")
        #expect(house.send(.head, "clients").status == 200)
    }

    @Test(arguments: [
        "clients?unknown=1", "clients?limit=0", "clients?limit=1001", "clients?limit=ten", "clients?limit=",
        "clients?limit=1&limit=2",
        "clients?limit=+5", "clients?min_dropped=-1", "clients?sort=name", "clients?sort=", "clients?fields=clientid,secret",
        "clients?state=away", "clients?proto_ver=6", "clients?address=nowhere", "clients?address=", "clients?listener=none",
        "clients?cursor=%21", "clients?cursor=AAAA", "retained/message", "retained/message?topic=a/%23", "retained?filter=a%23",
        "subscriptions?matches=%2B", "subscriptions?cursor=YQ", "connections/closed?cursor=YQ", "topics/tree?cursor=%3D",
        "broker?verbose", "log?lines=5000",
    ])
    func `what is no parameter of a route is refused`(path: String) {
        let house = AdministrationHouse()
        let answer = house.get(path)
        #expect(answer.status == 400)
        #expect(answer.code == "BAD_REQUEST")
        #expect(answer.object?["message"]?.string?.isEmpty == false)
    }

    @Test func `a body is an object of JSON with known members`() {
        let house = AdministrationHouse()
        #expect(house.send(.post, "publish", #"{"topic":"a"}"#, fields: ["Content-Type": "text/plain"]).status == 415)
        #expect(house.send(.post, "publish", fields: [:]).status == 415)
        #expect(house.send(.post, "publish", "", fields: ["Content-Type": "application/json"]).status == 400)
        #expect(
            house.send(.post, "publish", #"{"topic":"a"}"#, fields: ["Content-Type": "Application/JSON; charset=utf-8"]).status
                == 202)
        for body in [
            "[]", "{", #"{"topic":1}"#, #"{"topic":"a","qos":3}"#, #"{"topic":"a","qos":1.5}"#, #"{"topic":"a","retain":"yes"}"#,
            #"{"topic":"a","more":1}"#, ##"{"topic":"a/#"}"##, #"{"topic":""}"#, #"{}"#, #"{"topic":"a","topic":"b"}"#,
            #"{"topic":"a","payload":"?","payload_encoding":"base64"}"#, #"{"topic":"a","payload_encoding":"hex"}"#,
            #"{"topic":"a","properties":[]}"#, #"{"topic":"a","properties":{"x":1}}"#,
            ##"{"topic":"a","properties":{"response_topic":"#"}}"##,
            #"{"topic":"a","properties":{"user_properties":[{"name":"a"}]}}"#,
            #"{"topic":"a","properties":{"message_expiry_interval":4294967296}}"#, #"{"topic":"$SYS/x"}"#, "\"\u{0}\"",
        ] {
            #expect(house.send(.post, "publish", body).status == 400, "\(body)")
        }
    }

    @Test func `a listener offers what it is to serve`() {
        let house = AdministrationHouse()
        house.configure { $0.listeners[0]?.parts = [.health] }
        #expect(house.send(.get, "/livez").status == 200)
        #expect(house.get("clients").status == 404)
    }

    @Test func `a broker with too much to do says so`() {
        let house = AdministrationHouse(shards: 2)
        house.broker.answersQuestions = false
        let answer = house.get("clients")
        #expect(answer.status == 503)
        #expect(answer.code == "SERVICE_UNAVAILABLE")
        #expect(answer.fields["Retry-After"] == "15")
        #expect(house.get("clients/x").status == 503)
    }

    // MARK: Health

    @Test func `a broker lives while its loops turn, and is ready while it serves`() {
        let house = AdministrationHouse(shards: 2, role: nil)
        #expect(house.send(.get, "/livez").body == "ok\n")
        #expect(house.send(.get, "/livez?verbose").body == "[+]loop 0 ok\n[+]loop 1 ok\nok\n")
        house.broker.condition.loopAges[1] = 10_001
        #expect(house.send(.get, "/livez").status == 503)
        #expect(house.send(.get, "/livez").fields["Retry-After"] == "15")
        #expect(house.send(.get, "/livez?verbose").body == "[+]loop 0 ok\n[-]loop 1 failed\nfailed\n")
        #expect(house.send(.get, "/readyz").status == 200)
        house.broker.condition.store = .full
        #expect(
            house.send(.get, "/readyz?verbose").body == "[+]listeners ok\n[-]store failed\n[+]running ok\n[+]memory ok\nfailed\n")
        #expect(house.send(.get, "/healthz").status == 503)
        // Starting it again would not mend a store that is full.
        house.broker.condition.loopAges[1] = 0
        #expect(house.send(.get, "/livez").status == 200)
    }

    // MARK: Times

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_798_761_599_999, "2026-12-31T23:59:59.999Z"), (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] as [(UInt64, String)])
    func `times are written and read`(milliseconds: UInt64, text: String) {
        #expect(Timestamp.text(milliseconds) == text)
        #expect(Timestamp.milliseconds(text) == milliseconds)
    }

    @Test func `every day of 140 years comes back`() {
        for day in 0..<51_000 {
            let time = UInt64(day) * 86_400_000 + 86_399_999
            #expect(Timestamp.milliseconds(Timestamp.text(time)) == time)
        }
    }

    @Test func `other forms of RFC 3339 are read, what is no time is not`() {
        #expect(Timestamp.milliseconds("2026-07-01t12:00:00z") == Timestamp.milliseconds("2026-07-01T14:30:00.000+02:30"))
        #expect(Timestamp.milliseconds("2026-07-01T12:00:00.5Z") == Timestamp.milliseconds("2026-07-01T12:00:00.500999Z"))
        for text in [
            "", "2026-07-01", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-01-01 00:00:00Z", "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00Z ", "１２34-01-01T00:00:00Z",
        ] {
            #expect(Timestamp.milliseconds(text) == nil, "\(text)")
        }
    }
}
