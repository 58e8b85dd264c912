import BrokerModel
import MQTTCodec
import Testing

@testable import Security

@Suite struct AccessControlFileTests {
    @Test func `every kind of line is taken as mosquitto takes it`() throws {
        let file = try read(
            """
            # comment
            topic read public/#
            topic  write  public/box \t\r

            user anna maria
            topic home/anna
            topic deny home/anna/safe
            topic readwrite home/anna/#
            topic read with some space
            user bob
            pattern read devices/%c/#
            topic write bob/out
            pattern deny devices/%c/secret
            """)
        let anna = file.control.policy(userName: "anna maria", clientIdentifier: "d1")
        #expect(
            anna.reads("home/anna") && anna.writes("home/anna/door") && !anna.reads("home/anna/safe") && !anna.reads("public/a"))
        #expect(anna.reads("with some space") && !anna.writes("with some space"))
        #expect(anna.reads("devices/d1/x") && !anna.reads("devices/d1/secret") && !anna.reads("devices/d2/x"))
        let nobody = file.control.policy(userName: nil, clientIdentifier: "d2")
        #expect(nobody.reads("public/a") && nobody.writes("public/box") && !nobody.writes("public/a") && nobody.reads("devices/d2"))
        let bob = file.control.policy(userName: "bob", clientIdentifier: "d3")
        #expect(bob.writes("bob/out") && !bob.reads("bob/out"))
        #expect(file.warnings.isEmpty)
    }

    @Test(arguments: [
        ("write,qos<=1,retain=no", [true, false, true, false, false, false]),
        ("write,qos=1", [false, false, true, true, false, false]),
        ("readwrite,retain=yes", [false, true, false, true, false, true]),
        ("write,qos<=2", [true, true, true, true, true, true]),
    ])
    func `a line may let some messages be published alone`(access: String, expected: [Bool]) throws {
        let policy = try read("pattern \(access) a/%c/#\n").control.policy(userName: nil, clientIdentifier: "d1")
        let topic = Array("a/d1/x".utf8)
        let found = [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].flatMap { qos in
            [false, true].map { retain in
                topic.withUnsafeBytes { policy.mayPublish(topic: $0, qos: qos, retain: retain) }
            }
        }
        #expect(found == expected)
        #expect(policy.writes("a/d1/x") && policy.reads("a/d1/x") == access.hasPrefix("read"))
        #expect(!policy.writes("a/d2/x"))
    }

    @Test func `what several lines grant for some messages adds up, and what is denied stays so`() throws {
        let file = try read("topic write,qos=0 a\ntopic write,qos=1,retain=yes a\ntopic write,qos=0 b\ntopic deny b\n")
        let policy = file.control.policy(userName: nil, clientIdentifier: "c")
        func may(_ topic: String, _ qos: QoS, _ retain: Bool) -> Bool {
            Array(topic.utf8).withUnsafeBytes { policy.mayPublish(topic: $0, qos: qos, retain: retain) }
        }
        #expect(may("a", .atMostOnce, true) && may("a", .atLeastOnce, true) && !may("a", .atLeastOnce, false))
        #expect(!may("b", .atMostOnce, false) && !policy.writes("b"))
    }

    @Test(arguments: [
        (
            "write,qos=3",
            "\"qos=3\" is not a condition; expected qos=0, qos=1, qos=2, qos<=1, retain=yes, retain=no or from=ADDRESS"
        ),
        ("write,", "\"\" is not a condition"),
        ("read,qos=1", "\"read,qos=1\": qos and retain are for what is published; write them behind write or readwrite."),
        ("deny,retain=yes", "\"deny,retain=yes\": qos and retain are for what is published"),
        ("write,qos=1,qos=2", "no message can meet the conditions of \"write,qos=1,qos=2\"."),
        ("read,from=10.0.0.0/33", "\"from=10.0.0.0/33\": this is no address and no network; write from=192.0.2.7, from=10.0.0.0/8"),
        ("deny,from=", "\"from=\": this is no address"),
        ("some,qos=1", "\"some,qos=1\" is not an access type; expected read, write, readwrite or deny"),
    ])
    func `conditions that cannot be meant are told with their line`(access: String, words: String) throws {
        let error = try #require(throws: SecurityFileError.self) { try read("topic read x\ntopic \(access) a\n") }
        #expect(error.problems.count == 1 && error.problems[0].line == 2)
        #expect(error.problems[0].message.hasPrefix(words), "\(error)")
    }

    @Test(arguments: [
        ("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("192.0.2.1", false), ("2001:db8::7", true), ("2001:db9::7", false),
        ("/run/martlet.sock", false),
    ])
    func `a line may hold for clients from some networks alone`(address: String, isMeant: Bool) throws {
        let file = try read(
            """
            topic readwrite,from=10.0.0.0/8,from=2001:db8::/32 plant/#
            topic deny,from=10.1.2.3 plant/door
            topic write,qos=1,from=10.1.2.0/24 orders
            pattern read,from=10.0.0.0/8 own/%c
            """)
        let policy = file.control.policy(userName: nil, clientIdentifier: "c", origin: .address(address))
        #expect(policy.reads("plant/a") == isMeant && policy.writes("plant/a/b") == isMeant)
        let isVersion4 = isMeant && !address.hasPrefix("2001")
        #expect(policy.reads("plant/door") == (isMeant && !isVersion4))
        #expect(policy.writes("orders") == isVersion4 && !policy.reads("orders"))
        #expect(policy.reads("own/c") == isVersion4)
        let filter: TopicFilter = "plant/#"
        #expect(policy.explanation(ofSubscribing: filter).isAllowed == isMeant)
        let topic = Array("plant/a".utf8)
        if !isMeant {
            #expect(topic.withUnsafeBytes { policy.reason(denying: .write, topic: $0) }.hasSuffix("allows it from this address"))
        }
        #expect(policy.explanation(of: .receive, topic: "plant/a").decider == (isMeant ? .line(1) : .noLine))
    }

    @Test func `from an unknown address nothing is allowed that asks for one, and what denies holds`() throws {
        let control = try read("topic read,from=10.0.0.0/8 a\ntopic read b\ntopic deny,from=10.0.0.0/8 b\n").control
        let unknown = control.policy(userName: nil, clientIdentifier: "c")
        #expect(!unknown.reads("a") && !unknown.reads("b") && unknown.asksAddress)
        let gone = control.policy(userName: nil, clientIdentifier: "c", origin: .anyone)
        #expect(gone.reads("a") && gone.reads("b"))
    }

    @Test func `an attribute stands for its value in a pattern, and an unknown or dangerous one for nothing`() throws {
        let file = try read(
            """
            pattern readwrite floors/%{client_attrs.floor}/#
            pattern deny %{client_attrs.floor}/secret
            pattern write sites/%{client_attrs.site}/%c
            """)
        #expect(file.warnings.isEmpty)
        func policy(_ attributes: [(name: String, value: String)]) -> AccessPolicy {
            file.control.policy(userName: nil, clientIdentifier: "c", attributes: attributes)
        }
        let second = policy([("floor", "2"), ("site", "a"), ("floor", "3")])
        #expect(second.reads("floors/2/x") && second.writes("floors/2") && !second.reads("floors/3/x"))
        #expect(second.writes("sites/a/c") && !second.writes("sites/b/c") && !second.writes("sites/a/d"))
        #expect(second.explanation(of: .publish, topic: "floors/2/x").decider == .line(1))
        #expect(!policy([]).reads("floors/2/x") && !policy([]).reads("floors/%{client_attrs.floor}/x"))
        for value in ["+", "#", "a/#", "", "2\u{0}", "2/3"] {
            let wild = policy([("floor", value)])
            #expect(!wild.reads("floors/2/x") && !wild.reads("floors/2/3/x") && !wild.reads("floors/a/x"), "\(value)")
            #expect(wild.explanation(ofSubscribing: TopicFilter("floors/#")).isAllowed == false)
        }
        // What nobody knows any more might have been anything.
        #expect(file.control.policy(userName: nil, clientIdentifier: "c", origin: .anyone).writes("sites/b/c"))
    }

    @Test func `default rules hold for those who have none of their own`() throws {
        let rules = try AccessControlFile.defaultRules(["read public/#", "readwrite,from=10.0.0.0/8 own/%c/#"])
        let control = AccessControl(try read("user anna\ntopic read a\npattern read all/%u\n").control, defaults: rules)
        func policy(_ user: EncodedString?, as identifier: EncodedString = "c") -> AccessPolicy {
            control.policy(userName: user, clientIdentifier: identifier, origin: .address("10.0.0.1"))
        }
        let (anna, bob) = (policy("anna"), policy("bob"))
        #expect(anna.reads("a") && !anna.reads("public/x") && !anna.writes("own/c/x") && anna.reads("all/anna"))
        #expect(!bob.reads("a") && bob.reads("public/x") && bob.writes("own/c/x") && !bob.writes("own/d/x") && bob.reads("all/bob"))
        #expect(policy(nil).reads("public/x") && !policy("bob", as: "+").reads("own/x/y"))
        #expect(bob.explanation(of: .receive, topic: "public/x").decider == .defaultRule)
        let alone = AccessControl(nil, defaults: rules).policy(userName: "bob", clientIdentifier: "c")
        #expect(alone.reads("public/x") && !alone.writes("public/x"))
        let error = try #require(throws: SecurityFileError.self) { try AccessControlFile.defaultRules(["read a", "some b"]) }
        #expect(error.description.contains("\"some\" is not an access type"))
    }

    @Test func `an attribute that does not stand for anything is warned about`() throws {
        let file = try read(
            "topic read a/%{client_attrs.floor}\npattern read a/x%{client_attrs.floor}\npattern read %{floor}/%c\npattern read a/%{client_attrs.}\n"
        )
        #expect(file.warnings.map(\.line) == [1, 2, 3, 4])
        #expect(file.warnings[0].message.contains("in lines that begin with pattern only"))
        // As mosquitto reads such a line.
        #expect(file.control.policy(userName: nil, clientIdentifier: "c").reads("a/%{client_attrs.floor}"))
    }

    @Test func `all that is wrong is told at once, with file and line`() throws {
        let error = try #require(throws: SecurityFileError.self) {
            try read(
                "user\ntopic\n\ntopic some thing\ntopic a+\npatern x\ntopic\tread\ta\n # late\nuser \u{1F600}\npattern read a/#/b")
        }
        #expect(
            error.problems.map(\.description) == [
                "acl:1: \"user\" lacks the user's name.",
                "acl:2: \"topic\" lacks its topic filter.",
                "acl:4: \"some\" is not an access type; expected read, write, readwrite or deny before a filter that holds a space.",
                "acl:5: \"a+\" is not a topic filter: + and # must be a whole level, and # the last one.",
                "acl:6: \"patern\" is not known here; expected user, topic or pattern.",
                "acl:7: words are separated by spaces here, not by tabs.",
                "acl:8: a comment has to begin at the first character of its line.",
                "acl:10: \"a/#/b\" is not a topic filter: + and # must be a whole level, and # the last one.",
            ])
    }

    @Test func `patterns that are probably not meant so are warned about`() throws {
        let file = try read("pattern read a/x%c/b\npattern read a/b")
        #expect(file.warnings.map(\.line) == [1, 2])
        #expect(file.warnings.allSatisfy { $0.severity == .warning })
    }

    @Test func `an empty file denies everything`() throws {
        #expect(try !read("").control.policy(userName: nil, clientIdentifier: "c").reads("a"))
    }

    @Test func `bytes that are not UTF-8 are an error and no trap`() {
        #expect(throws: SecurityFileError.self) { try AccessControlFile(Array("topic a".utf8) + [0xff], file: "acl") }
        #expect(throws: SecurityFileError.self) { try AccessControlFile(Array("user ".utf8) + [0xff], file: "acl") }
        #expect(throws: SecurityFileError.self) { try AccessControlFile(Array("topic a".utf8) + [0], file: "acl") }
    }

    @Test func `a file that is not there is named`() throws {
        let error = try #require(throws: SecurityFileError.self) { try AccessControlFile(path: "/nonexistent/acl") }
        #expect(error.description == "/nonexistent/acl: cannot be opened: No such file or directory.")
    }

    private func read(_ text: String) throws -> AccessControlFile { try AccessControlFile(Array(text.utf8), file: "acl") }
}

extension AccessPolicy {
    fileprivate func reads(_ topic: String) -> Bool { Array(topic.utf8).withUnsafeBytes { mayReceive(topic: $0) } }
    fileprivate func writes(_ topic: String) -> Bool { Array(topic.utf8).withUnsafeBytes { mayPublish(topic: $0) } }
}
