import BrokerModel
import HTTP
import JSON
import MQTTCodec
import MartletTestKit
import Testing

@testable import Administration

/// Users and rules of files, and "may X do Y?", as administrators see and say.
@Suite struct FileConversationTests {
    private let house = AdministrationHouse()

    init() {
        house.broker.files.userFiles = [.init(path: "/etc/users", listeners: ["listener 1883"])]
        house.broker.files.users = [.init(name: "anna", file: "/etc/users", line: 2, scheme: "argon2id")]
        house.broker.files.ruleFiles = [.init(path: "/etc/acl", listeners: ["listener 1883"])]
        house.broker.files.rules = [
            .init(file: "/etc/acl", line: 3, text: "topic read a/#", subject: .user("anna"), access: "read", topic: "a/#")
        ]
    }

    @Test func `users are listed without their hashes, and no answer and no audit names a password`() {
        let users = house.get("files/users")
        #expect(users.column("username") == ["anna"] && users.column("hash") == ["argon2id"])
        let made = house.send(.post, "files/users", #"{"username":"bob","password":"s3cret"}"#)
        #expect(made.status == 201 && made.object?["file"]?.string == "/etc/users" && !made.body.contains("s3cret"))
        #expect(house.broker.auditLines.last?.contains("bob in /etc/users") == true)
        #expect(house.broker.auditLines.allSatisfy { !$0.contains("s3cret") })
        #expect(house.send(.put, "files/users/anna", #"{"password":"x"}"#).status == 200)
        guard case .setPassword("anna", let password, false)? = house.broker.fileChanges.last?.change else {
            Issue.record("another change")
            return
        }
        #expect(password == Array("x".utf8))
        #expect(house.send(.delete, "files/users/anna").status == 204)
    }

    @Test func `rules are added, changed and removed by line, and only as they were seen`() {
        #expect(house.get("files/rules").column("text") == ["topic read a/#"])
        house.broker.fileOutcome = .done(line: 4)
        let made = house.send(.post, "files/rules", #"{"for":"user","username":"anna","access":"deny","topic":"a/b"}"#)
        #expect(made.status == 201 && made.object?["line"]?.integer == 4)
        #expect(house.send(.post, "files/rules", #"{"for":"everybody","username":"x","access":"deny","topic":"a"}"#).status == 400)
        #expect(house.send(.post, "files/rules", #"{"for":"user","access":"deny","topic":"a"}"#).status == 400)
        #expect(house.send(.post, "files/rules", #"{"for":"anonymous","access":"all","topic":"a"}"#).status == 400)
        house.broker.fileOutcome = .moved
        let moved = house.send(.delete, "files/rules/3?text=topic%20read%20b")
        #expect(moved.status == 409 && moved.object?["message"]?.string?.contains("read it again") == true)
        #expect(house.send(.delete, "files/rules/x?text=a").status == 404)
        #expect(house.send(.delete, "files/rules/3").status == 400, "nobody removes what they have not seen")
    }

    @Test func `where there are several files or none the answer says which`() {
        house.broker.files.userFiles.append(.init(path: "/etc/more", listeners: ["listener 1884"]))
        let unclear = house.send(.delete, "files/users/anna")
        #expect(unclear.status == 400 && unclear.object?["message"]?.string == "file is missing; there are /etc/users, /etc/more.")
        #expect(house.send(.delete, "files/users/anna?file=/etc/more").status == 204)
        #expect(house.send(.delete, "files/users/anna?file=/etc/shadow").status == 400)
        house.broker.files.ruleFiles = []
        let none = house.send(.post, "files/rules", #"{"for":"anonymous","access":"read","topic":"a"}"#)
        #expect(none.status == 409 && none.object?["message"]?.string?.contains("acl_file FILE") == true)
    }

    @Test func `a viewer sees no rules and asks nothing`() {
        let house = AdministrationHouse(role: .viewer)
        for path in ["files/users", "files/rules", "may?action=publish&topic=a", "mqtt"] { #expect(house.get(path).status == 403) }
    }

    @Test func `may says yes or no, and names the line, the role or the ban that decides`() throws {
        func ask(_ decider: AccessExplanation.Decider, _ isAllowed: Bool, file: String? = nil) -> Answer {
            house.broker.accessAnswer.explanation = AccessExplanation(isAllowed: isAllowed, decider: decider, file: file)
            return house.get("may?action=publish&topic=a%2Fb&username=anna")
        }
        let line = ask(.line(7), false, file: "/etc/acl")
        #expect(line.object?["allowed"]?.boolean == false && line.object?["line"]?.integer == 7)
        #expect(line.object?["reason"]?.string == "No: /etc/acl:7 denies it.")
        #expect(ask(.line(8), true, file: "/etc/acl").object?["reason"]?.string == "Yes: /etc/acl:8 allows it.")
        #expect(ask(.noLine, false, file: "/etc/acl").object?["reason"]?.string == "No: no line of /etc/acl allows it.")
        #expect(ask(.role("plant"), true).object?["role"]?.string == "plant")
        let asked = house.get("may?action=publish&topic=a&groups=pumps,north&roles=north&certificate=MII%2B&qos=1")
        let question = try #require(house.broker.questions.last)
        #expect(question.memberships == AccessMemberships(groups: ["pumps", "north"], roles: ["north"]))
        #expect(question.certificate == "MII+" && question.clientIdentifier == nil && question.qos == .atLeastOnce)
        #expect(asked.object?["username"] == .null && asked.object?["groups"]?.array?.isEmpty == true)
        house.broker.accessAnswer.client.objection = "the certificate is for the Client Identifier pump-7"
        #expect(ask(.line(8), true).object?["reason"]?.string == "No: the certificate is for the Client Identifier pump-7.")
        house.broker.accessAnswer.client.objection = nil
        house.broker.accessAnswer.leavesLoginRulesOut = true
        #expect(ask(.line(8), true).object?["remark"]?.string?.hasPrefix("A login may bring rules of its own") == true)
        house.broker.accessAnswer.authority = "go_auth"
        #expect(ask(.noRole, false).object?["reason"]?.string?.contains("go_auth is asked") == true)
        house.broker.accessAnswer.isKnownUser = false
        #expect(ask(.line(8), true).object?["reason"]?.string?.hasPrefix("No: no user is called anna") == true)
        let target = try #require(BanTarget(.user, "anna"))
        house.broker.accessAnswer.ban = Ban(target, by: "root", reason: "", at: 0, until: nil)
        #expect(ask(.line(8), true).object?["decided_by"]?.string == "ban")
        #expect(house.get("may?action=publish&topic=a%2F%2B").status == 400, "nobody publishes to a filter")
        #expect(house.get("may?action=subscribe&topic=a%2F%2B").status == 200)
        #expect(house.get("may?action=publish&topic=a&listener=listener%209").status == 400)
    }

    @Test func `a login is explained source by source, and no answer and no audit names the password or the token`() throws {
        var report = LoginTrialReport(.refused)
        (report.source, report.words) = ("password_file", "wrong password")
        report.steps = [
            .init(source: "jwt", answer: .unknown, words: "no token", microseconds: 12),
            .init(source: "password_file", answer: .refused, words: "wrong password", microseconds: 3400),
        ]
        house.broker.loginReport = report
        let refused = house.send(.post, "logins/explain", #"{"username":"eyJa.b.c","password":"s3cret"}"#)
        #expect(refused.object?["reason"]?.string == "password_file refuses the client: wrong password.")
        #expect(refused.object?["steps"]?.array?.compactMap { $0.object?["took_us"]?.integer } == [12, 3400])
        #expect(house.broker.trials.last?.password == Array("s3cret".utf8))
        #expect(!refused.body.contains("s3cret"))
        #expect(house.broker.auditLines.allSatisfy { !$0.contains("s3cret") && !$0.contains("eyJa") })
        report = LoginTrialReport(.allowed)
        (report.source, report.userName, report.isSuperuser, report.expiresAt) = ("jwt", "anna", true, 0)
        report.access = house.broker.accessAnswer
        report.access?.explanation = AccessExplanation(isAllowed: false, decider: .role("http"), file: nil)
        house.broker.loginReport = report
        let both = house.send(.post, "logins/explain", #"{"action":"publish","topic":"a/b","qos":1,"retain":false}"#)
        #expect(both.object?["may"]?.object?["reason"]?.string == "No: the role http denies it.")
        let question = try #require(house.broker.trials.last?.question)
        #expect(question.topic == "a/b" && question.qos == .atLeastOnce && question.retain == false)
        for body in [#"{"topic":"a"}"#, #"{"action":"publish"}"#, #"{"action":"publish","topic":"a/#"}"#] {
            #expect(house.send(.post, "logins/explain", body).status == 400)
        }
        let allowed = house.send(.post, "logins/explain", "{}")
        #expect(allowed.object?["may"] == .null)
        #expect(
            allowed.object?["reason"]?.string
                == "jwt lets the client in as anna, whom no rule binds, until \(Timestamp.text(0)).")
        house.broker.loginReport = nil
        #expect(house.send(.post, "logins/explain", "{}").status == 503)
        #expect(house.send(.post, "logins/explain", #"{"listener":"none"}"#).status == 404)
        #expect(AdministrationHouse(role: .viewer).send(.post, "logins/explain", "{}").status == 403)
    }

    @Test func `a WebSocket is a stream that counts, and ends with its right`() {
        #expect(house.get("mqtt").status == 426)
        let fields: HTTPFields = ["Upgrade": "websocket", "Origin": "http://localhost"]
        #expect(house.send(.get, "mqtt", fields: fields).status == 101)
        #expect(house.send(.get, "mqtt", fields: ["Upgrade": "websocket", "Origin": "http://elsewhere.example"]).status == 403)
        #expect(house.broker.pages.count == 1 && house.broker.pages[0].isOpen)
        house.configure { $0.payloads = .none }
        #expect(!house.broker.pages[0].isOpen, "new settings end all streams")
        #expect(house.send(.get, "mqtt", fields: fields).status == 403)
        house.configure { $0.payloads = .admin }
        for _ in 0..<Limits.streamsPerAddressMax { #expect(house.send(.get, "mqtt", fields: fields).status == 101) }
        #expect(house.send(.get, "mqtt", fields: fields).status == 429)
    }
}
