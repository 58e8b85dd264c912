import HTTP
import JSON
import JSONReader
import MQTTCodec
import Testing

@testable import Administration

/// Who may do what, and from where.
@Suite struct AccessTests {
    // MARK: Roles

    @Test func `nobody may anything without a role`() {
        let house = AdministrationHouse(role: nil)
        let answer = house.get("clients")
        #expect(answer.status == 401)
        #expect(answer.code == "UNAUTHORIZED")
        #expect(answer.fields.values(of: "WWW-Authenticate").count == 2)
        #expect(house.send(.get, "/livez").status == 200)
        #expect(house.get("session").object?["role"] == .null)
    }

    @Test func `a page is not asked for Basic, which would open its browser's window`() {
        let house = AdministrationHouse(role: nil)
        let answer = house.send(.get, "clients", fields: ["Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"])
        #expect(answer.fields["WWW-Authenticate"] == "Bearer realm=\"martlet\"")
    }

    @Test func `a viewer sees and changes nothing`() {
        let house = AdministrationHouse(role: .viewer)
        #expect(house.get("clients").status == 200)
        #expect(house.get("config").status == 403)
        #expect(house.send(.delete, "clients/x").status == 403)
        #expect(house.send(.delete, "clients/x").code == "FORBIDDEN")
    }

    @Test func `for every route, only who fulfils its need is let in`() {
        for role in [nil, .metrics, .viewer, .admin] as [AdministrationRole?] {
            let house = AdministrationHouse(role: role)
            for route in Route.table where route.need == .viewer || route.need == .admin {
                let path = route.pattern.map { if case .word(let word) = $0 { "/" + word } else { "/x" } }.joined()
                let status = house.send(route.method, path).status
                let isIn = status != 401 && status != 403
                #expect(isIn == (role == .admin || (role == .viewer && route.need == .viewer)), "\(route.operation) \(status)")
            }
        }
    }

    @Test func `a process of root on the Unix socket is an administrator`() {
        let house = AdministrationHouse(role: nil)
        house.origin = RequestOrigin(address: "/run/martlet.sock", listener: 0, isTrustedProcess: true)
        #expect(house.get("session").object?["role"]?.string == "admin")
        #expect(house.get("session").object?["by"]?.string == "peer")
    }

    // MARK: Passwords

    private static func basic(_ credentials: String) -> HTTPFields { ["Authorization": "Basic " + credentials] }
    /// ann:secret
    private static let ann = basic("YW5uOnNlY3JldA==")

    private func houseOfAnn() -> AdministrationHouse {
        let house = AdministrationHouse(role: nil)
        house.broker.users["ann"] = ("secret", .accepted(userName: "ann"))
        return house
    }

    @Test func `a password alone makes nobody an administrator`() {
        let house = houseOfAnn()
        #expect(house.send(.get, "clients", fields: Self.ann).status == 403)
        #expect(house.send(.post, "session", #"{"username":"ann","password":"secret"}"#).status == 403)
    }

    @Test func `a user has the role that the configuration says`() {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .viewer }
        #expect(house.send(.get, "clients", fields: Self.ann).status == 200)
        #expect(house.send(.get, "config", fields: Self.ann).status == 403)
        // ann:wrong
        #expect(house.send(.get, "clients", fields: Self.basic("YW5uOndyb25n")).status == 401)
    }

    @Test(arguments: [("read", "viewer"), ("write", "admin")])
    func `a user has the role that rules for the control topic give`(access: String, role: String) {
        let house = houseOfAnn()
        house.broker.granted = ["ann \(access) $CONTROL/martlet/v1"]
        #expect(house.send(.get, "session", fields: Self.ann).object?["role"]?.string == role)
    }

    @Test func `a login that nobody waits for any more is given up, and nothing is done`() throws {
        let house = houseOfAnn()
        house.broker.holdsLogins = true
        var isAnswered = false
        let request = try #require(HTTPRequest(.get, "/api/martlet/v1/clients", fields: Self.ann, body: nil, host: "localhost"))
        let abandon = house.administration.handle(request, from: house.origin, clock: { house.moment }) { _ in isAnswered = true }
        #expect(house.broker.abandonedLogins == 0)
        abandon()
        #expect(house.broker.abandonedLogins == 1 && !isAnswered)
    }

    @Test func `a login that nobody can decide is answered later`() {
        let house = houseOfAnn()
        house.broker.users["ann"]?.answer = .unavailable
        let answer = house.send(.get, "clients", fields: Self.ann)
        #expect(answer.status == 503)
        #expect(answer.fields["Retry-After"] == "15")
    }

    @Test func `what somebody shows counts before what they are without it`() {
        let house = AdministrationHouse(role: .viewer)
        #expect(house.send(.get, "clients", fields: ["Authorization": "Bearer mrt_x"]).status == 401)
        #expect(house.send(.get, "clients", fields: ["Authorization": "Digest x"]).status == 401)
    }

    // MARK: Sessions

    @Test func `a login sets a cookie that lasts an hour without use`() throws {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .admin }
        let answer = house.send(.post, "session", #"{"username":"ann","password":"secret"}"#)
        #expect(answer.status == 200)
        #expect(answer.object?["by"]?.string == "session")
        let cookie = try #require(answer.fields["Set-Cookie"])
        #expect(cookie.hasSuffix("; Path=/; HttpOnly; SameSite=Strict"))
        house.fields = ["Cookie": String(cookie.prefix { $0 != ";" })]
        house.now += 59 * 60_000
        #expect(house.get("config").status == 200)
        house.now += 59 * 60_000
        #expect(house.get("config").status == 200)
        house.now += 60 * 60_000
        #expect(house.get("config").status == 401)
    }

    @Test func `a session ends after twelve hours, at the logout and at a reload`() throws {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .admin }
        func logIn() throws {
            house.fields = [:]
            let answer = house.send(.post, "session", #"{"username":"ann","password":"secret"}"#)
            house.fields = ["Cookie": String(try #require(answer.fields["Set-Cookie"]).prefix { $0 != ";" })]
        }
        try logIn()
        for _ in 0..<24 {
            #expect(house.get("config").status == 200)
            house.now += 30 * 60_000
        }
        #expect(house.get("config").status == 401)
        try logIn()
        #expect(house.send(.delete, "session").fields["Set-Cookie"]?.hasSuffix("Max-Age=0") == true)
        #expect(house.get("config").status == 401)
        try logIn()
        house.configure { _ in }
        #expect(house.get("config").status == 401)
    }

    @Test func `under TLS the cookie is not sent without`() throws {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .admin }
        house.origin.usesTLS = true
        let answer = house.send(.post, "session", #"{"username":"ann","password":"secret"}"#)
        #expect(answer.fields["Set-Cookie"]?.hasSuffix("; Secure") == true)
    }

    @Test func `an administrator's link lets one browser in`() throws {
        let house = AdministrationHouse(role: .viewer)
        let secret = house.administration.makeLinkSecret()
        #expect(house.send(.post, "session", #"{"token":"wrong"}"#).status == 401)
        #expect(house.send(.post, "session", #"{"token":"\#(secret)"}"#).object?["role"]?.string == "admin")
        #expect(house.send(.post, "session", #"{"token":"\#(secret)"}"#).status == 401)
    }

    @Test func `an administrator has links made, each of which lets one browser in for ten minutes`() throws {
        let house = AdministrationHouse()
        #expect(house.send(.post, "login-links").status == 409)
        var web = AdministeredListener(name: "listener 9883 127.0.0.1", application: .httpAPI)
        (web.port, web.host) = (9883, "127.0.0.1")
        house.broker.listeners.append(web)
        house.configure {
            $0.listeners[1] = AdministrationSettings.Listener(); $0.listeners[1]?.isLoopback = true
        }
        house.origin = RequestOrigin(address: "/run/http.sock", listener: 0, isTrustedProcess: true, processUser: "root")
        let secrets = try (0..<2).map { _ in
            let url = try #require(house.send(.post, "login-links").object?["url"]?.string)
            #expect(url.hasPrefix("http://127.0.0.1:9883/dashboard/#token="))
            return try #require(url.split(separator: "=").last)
        }
        house.origin = RequestOrigin(address: "127.0.0.1", listener: 1)
        let session = house.send(.post, "session", #"{"token":"\#(secrets[0])"}"#)
        #expect(session.object?["role"]?.string == "admin" && session.object?["name"]?.string == "root")
        #expect(house.send(.post, "session", #"{"token":"\#(secrets[0])"}"#).status == 401)
        house.now += 600_000
        #expect(house.send(.post, "session", #"{"token":"\#(secrets[1])"}"#).status == 401)
        #expect(AdministrationHouse(role: .viewer).send(.post, "login-links").status == 403)
    }

    @Test func `the audit names the user of this machine who has changed something`() {
        let house = AdministrationHouse(role: nil)
        house.origin = RequestOrigin(address: "/run/http.sock", listener: 0, isTrustedProcess: true, processUser: "martlet")
        #expect(house.send(.post, "config/reload").status != 401)
        #expect(house.get("audit").rows.first?["who"]?.string == "martlet")
    }

    // MARK: Tokens

    @Test func `a token is shown once, lets a program in, and can be revoked`() throws {
        let house = AdministrationHouse()
        let made = house.send(.post, "tokens", #"{"name":"grafana","role":"viewer"}"#)
        #expect(made.status == 201)
        let secret = try #require(made.object?["token"]?.string)
        #expect(secret.hasPrefix("mrt_"))
        #expect(secret.utf8.count == 47)
        #expect(house.broker.tokenText?.hasPrefix("grafana:viewer:") == true)
        #expect(house.broker.tokenText?.contains(secret) == false)
        let bearer: HTTPFields = ["Authorization": "Bearer \(secret)"]
        #expect(house.send(.get, "session", fields: bearer).object?["name"]?.string == "grafana")
        #expect(house.send(.get, "config", fields: bearer).status == 403)
        #expect(house.get("tokens").column("name") == ["grafana"])
        #expect(house.send(.post, "tokens", #"{"name":"grafana","role":"viewer"}"#).status == 409)
        #expect(house.send(.delete, "tokens/grafana").status == 204)
        #expect(house.send(.delete, "tokens/grafana").status == 404)
        #expect(house.send(.get, "session", fields: bearer).status == 401)
    }

    @Test func `a token expires`() throws {
        let house = AdministrationHouse()
        let expiry = Timestamp.text(house.moment.wallMilliseconds + 60_000)
        let made = house.send(.post, "tokens", #"{"name":"a","role":"admin","expires_at":"\#(expiry)"}"#)
        let bearer: HTTPFields = ["Authorization": "Bearer \(try #require(made.object?["token"]?.string))"]
        #expect(house.send(.get, "session", fields: bearer).status == 200)
        house.now += 61_000
        #expect(house.send(.get, "session", fields: bearer).status == 401)
    }

    @Test func `the file of tokens is read line by line`() {
        var table = TokenTable()
        let isMade = table.make("a", .admin, expiresAt: nil) != nil
        let isSecondMade = table.make("b.c", .metrics, expiresAt: 1_900_000_000) != nil
        #expect(isMade && isSecondMade)
        var refused: [Int] = []
        let read = TokenTable("# tokens\n\n" + table.text + "bad\nx:root:00\na:admin:" + String(repeating: "0", count: 64)) {
            refused.append($0)
        }
        #expect(read.tokens == table.tokens)
        #expect(refused == [5, 6, 7])
    }

    @Test func `without a file, or when it cannot be written, no token is made`() {
        let house = AdministrationHouse()
        house.broker.writesTokens = false
        #expect(house.send(.post, "tokens", #"{"name":"a","role":"admin"}"#).status == 503)
        #expect(house.get("tokens").rows.isEmpty)
        house.configure { $0.keepsTokens = false }
        #expect(house.send(.post, "tokens", #"{"name":"a","role":"admin"}"#).status == 409)
    }

    // MARK: Where a request comes from

    @Test(arguments: [
        ("localhost", 200), ("localhost:9883", 200), ("127.0.0.1:9883", 200), ("[::1]:9883", 200), ("[::1]", 200),
        ("broker.example", 200), ("evil.example", 421), ("evil.example:9883", 421), ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
    ])
    func `on loopback a request names a host that is this machine`(host: String, status: Int) {
        let house = AdministrationHouse()
        house.configure {
            $0.listeners[0]?.isLoopback = true
            $0.hosts = ["broker.example"]
        }
        #expect(house.send(.get, "session", host: host).status == status)
    }

    @Test func `elsewhere every host will do, unless some are named`() {
        let house = AdministrationHouse()
        #expect(house.send(.get, "session", host: "anything.example").status == 200)
        house.configure { $0.hosts = ["broker.example"] }
        #expect(house.send(.get, "session", host: "anything.example").status == 421)
    }

    @Test(
        arguments: [
            ([:], true), (["Sec-Fetch-Site": "same-origin"], true), (["Sec-Fetch-Site": "none"], true),
            (["Sec-Fetch-Site": "cross-site"], false), (["Sec-Fetch-Site": "same-site"], false),
            (["Origin": "http://localhost:9883"], true), (["Origin": "http://localhost:8080"], false), (["Origin": "null"], false),
            (["Origin": "https://admin.example", "Sec-Fetch-Site": "cross-site"], true),
            (["Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"], true),
        ] as [([String: String], Bool)])
    func `a change comes from a page of the same site, from one that is allowed, or from no page`(
        fields: [String: String], isTaken: Bool
    ) {
        let house = AdministrationHouse()
        house.configure { $0.origins = ["https://admin.example"] }
        let given = HTTPFields(fields.map { HTTPField($0.key, $0.value) })
        #expect((house.send(.delete, "clients/x", fields: given, host: "localhost:9883").status != 403) == isTaken)
        #expect(house.send(.get, "clients", fields: given, host: "localhost:9883").status == 200)
    }

    @Test func `a page that is allowed sees answers, others do not`() {
        let house = AdministrationHouse()
        house.configure { $0.origins = ["https://admin.example"] }
        let allowed = house.send(.get, "clients", fields: ["Origin": "https://admin.example"])
        #expect(allowed.fields["Access-Control-Allow-Origin"] == "https://admin.example")
        #expect(
            house.send(.get, "clients", fields: ["Origin": "https://evil.example"]).fields["Access-Control-Allow-Origin"] == nil)
        let asked: HTTPFields = ["Origin": "https://admin.example", "Access-Control-Request-Method": "DELETE"]
        let preflight = house.send(.options, "clients/x", fields: asked)
        #expect(preflight.status == 204)
        #expect(preflight.fields["Access-Control-Allow-Methods"] == "GET, HEAD, DELETE")
    }

    @Test func `every answer has the fields that keep pages apart`() {
        let house = AdministrationHouse(role: nil)
        for path in ["/livez", "/api/martlet/v1/clients", "/api/nothing"] {
            let fields = house.send(.get, path).fields
            #expect(fields["X-Content-Type-Options"] == "nosniff")
            #expect(fields["Referrer-Policy"] == "no-referrer")
            #expect(fields["Cache-Control"] == "no-store")
            #expect(fields["Content-Security-Policy"]?.contains("frame-ancestors 'none'") == true)
        }
    }

    // MARK: The audit

    @Test func `every change and every refusal is noted, without secrets`() {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .admin }
        _ = house.send(.get, "clients", fields: Self.ann)
        #expect(house.broker.auditLines.isEmpty)
        _ = house.send(.delete, "clients/gone", fields: Self.ann)
        _ = house.send(.post, "session", #"{"username":"ann","password":"hidden-word"}"#)
        _ = house.get("clients")
        #expect(house.broker.auditLines.count == 3)
        #expect(!house.broker.auditLines.joined().contains("hidden-word"))
        let entries = house.send(.get, "audit", fields: Self.ann).rows
        #expect(entries.map { $0["operation"]?.string } == ["listClients", "logIn", "endSession"])
        #expect(entries.map { $0["status"]?.integer } == [401, 401, 404])
        #expect(entries[2]["who"]?.string == "ann")
        #expect(entries[2]["target"]?.string == "gone")
        #expect(entries[2]["address"]?.string == "198.51.100.7")
        #expect(entries[1]["target"]?.string == "ann")
    }

    private func entry(_ operation: String, at: UInt64 = 0, target: String? = nil) -> AuditEntry {
        AuditEntry(
            at: at, source: .http, who: nil, address: "198.51.100.7", operation: operation, target: target, status: 200,
            milliseconds: 0)
    }

    @Test func `the audit remembers so many entries, and so many bytes`() {
        var ring = AuditRing()
        for number in 0..<5000 { ring.add(entry("\(number)"), number: UInt64(number), byteCount: 100) }
        #expect(ring.count == 1024 && ring.last(2000).count == 1024 && ring.byteCount == 102_400)
        #expect(ring.last(2).map(\.entry.operation) == ["4999", "4998"])
        for number in 0..<1000 { ring.add(entry("\(number)"), number: UInt64(number), byteCount: 10_000) }
        #expect(ring.byteCount <= 512 << 10 && ring.count == 52)
        ring.add(entry("large"), number: 0, byteCount: 1 << 20)
        #expect(ring.last(2000).map(\.entry.operation) == ["large"])
    }

    @Test func `refusals of strangers push nothing out of the audit that an administrator has done`() {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .admin }
        _ = house.send(.delete, "clients/gone", fields: Self.ann)
        for number in 0..<3000 {
            house.origin.address = "198.51.\(number / 250).\(number % 250)"
            house.now += 10
            _ = house.get("clients/\(number)")
        }
        let changes = house.send(.get, "audit?kind=changes", fields: Self.ann)
        #expect(changes.column("operation") == ["endSession"])
        let both = house.send(.get, "audit?limit=10", fields: Self.ann)
        #expect(both.rows.count == 10 && both.column("operation").last == "endSession")
        let refusals = house.send(.get, "audit?kind=refusals&limit=1024", fields: Self.ann)
        #expect(refusals.rows.count > 100 && !refusals.column("operation").contains("endSession"))
        #expect(house.send(.get, "audit?kind=all", fields: Self.ann).status == 400)
    }

    @Test func `of many refusals in a second some are written, and the others counted by who and from where`() {
        let house = houseOfAnn()
        house.configure { $0.users["ann"] = .viewer }
        let path = "clients/" + String(repeating: "n", count: 4000)
        for _ in 0..<1000 {
            _ = house.get(path)
            _ = house.send(.delete, path, fields: Self.ann)
        }
        #expect(house.broker.auditLines.count == 10)
        #expect(house.broker.auditLines.allSatisfy { $0.utf8.count < 600 })
        house.now += 1000
        house.administration.tick { house.moment }
        let sums = house.broker.auditLines.dropFirst(10)
        #expect(sums.count == 2)
        #expect(sums.allSatisfy { $0.contains(#""operation":"refusals""#) && $0.contains(#""count":995"#) })
        #expect(sums.contains { $0.contains(#""who":null"#) } && sums.contains { $0.contains(#""who":"ann""#) })
        house.now += 5000
        house.administration.tick { house.moment }
        _ = house.get(path)
        #expect(house.broker.auditLines.count == 13, "what comes later is written again")
    }

    @Test func `refusals from many addresses are as few lines a second`() {
        let house = AdministrationHouse(role: nil)
        for number in 0..<5000 {
            house.origin.address = "2001:db8:0:\(String(number % 2500, radix: 16))::1"
            _ = house.get("clients")
        }
        house.now += 1000
        house.administration.tick { house.moment }
        #expect(house.broker.auditLines.count <= 100 + 64 + 1)
        let counted = house.broker.auditLines.reduce(0) { sum, line in
            guard let count = (try? JSONValue(reading: Array(line.utf8)))?.object?["count"]?.integer else { return sum + 1 }
            return sum + Int(count)
        }
        #expect(counted == 5000)
    }

    // MARK: Many sessions

    private func logIn(_ house: AdministrationHouse, _ body: String) -> Answer {
        house.now += 1
        return house.send(.post, "session", body, fields: [:])
    }

    private func isIn(_ house: AdministrationHouse, _ login: Answer) -> Bool {
        let cookie = login.fields["Set-Cookie"].map { String($0.prefix { $0 != ";" }) } ?? ""
        return house.send(.get, "session", fields: ["Cookie": cookie]).object?["by"]?.string == "session"
    }

    @Test func `many logins of one user end that user's sessions, and no administrator's`() {
        let house = houseOfAnn()
        house.broker.users["vic"] = ("secret", .accepted(userName: "vic"))
        house.configure { $0.users = ["ann": .admin, "vic": .viewer] }
        let ann = logIn(house, #"{"username":"ann","password":"secret"}"#)
        let logins = (0..<300).map { _ in logIn(house, #"{"username":"vic","password":"secret"}"#) }
        #expect(logins.allSatisfy { $0.status == 200 })
        #expect(isIn(house, ann))
        #expect(logins.count { isIn(house, $0) } == 16 && isIn(house, logins[299]))
    }

    @Test func `who may do less ends no session of somebody who may do more`() {
        let house = AdministrationHouse(role: nil)
        house.configure { settings in
            for number in 0..<20 { (settings.users["a\(number)"], settings.users["v\(number)"]) = (.admin, .viewer) }
        }
        for name in (0..<20).flatMap({ ["a\($0)", "v\($0)"] }) {
            house.broker.users[name] = ("secret", .accepted(userName: EncodedString(name) ?? "x"))
        }
        func logIn(_ name: String) -> Answer { self.logIn(house, #"{"username":"\#(name)","password":"secret"}"#) }
        let viewer = logIn("v0")
        let first = (0..<16).map { logIn("a\($0 % 16)") }
        for _ in 0..<15 { for number in 0..<16 { _ = logIn("a\(number)") } }
        #expect(!isIn(house, viewer), "of 256 sessions the viewer's is the first that goes")
        #expect(first.allSatisfy { isIn(house, $0) })
        #expect(logIn("v1").status == 503)
        #expect(logIn("a17").status == 200, "among administrators the one that was used longest ago goes")
    }

    @Test func `a token with the role metrics gets no session, and does without`() throws {
        let house = AdministrationHouse()
        let made = house.send(.post, "tokens", #"{"name":"grafana","role":"metrics"}"#)
        let secret = try #require(made.object?["token"]?.string)
        let refused = house.send(.post, "session", #"{"token":"\#(secret)"}"#)
        #expect(refused.status == 403 && refused.fields["Set-Cookie"] == nil)
        #expect(house.send(.get, "/metrics", fields: ["Authorization": "Bearer \(secret)"]).status == 200)
    }

    // MARK: The host

    @Test func `on loopback everything asks for the host first, also what is not there`() throws {
        let house = AdministrationHouse()
        house.configure { $0.listeners[0]?.isLoopback = true }
        for path in ["/livez", "/metrics", "clients", "/api/nothing", "/api/martlet/v9"] {
            #expect(house.send(.get, path, host: "evil.example").status == 421, "\(path)")
        }
        #expect(house.send(.options, "clients", host: "evil.example").status == 421)
        let request = try #require(HTTPRequest(.get, "/index.html", host: "evil.example"))
        #expect(house.administration.misdirection(of: request, listener: 0)?.status == .misdirectedRequest)
        #expect(house.administration.misdirection(of: request, listener: 7) == nil, "another listener is no loopback one")
    }
}
