import MQTTCodec
import Security
import Testing

@testable import BrokerModel
@testable import JSONWebTokens
@testable import LoginServices

/// What services answer, in the JSON of EMQX's HTTP authentication.
@Suite struct GrantedAnswerTests {
    private func read(_ text: String) throws -> GrantedAnswer { try GrantedAnswer(Array(text.utf8)) }

    private func policy(_ text: String, user: EncodedString = "ann", client: EncodedString = "c1") throws -> AccessPolicy {
        let grant = try read(text).grant(source: "http", for: LoginClient(user, client, address: "192.0.2.7"))
        return try #require(AccessControl.policy(nil, userName: user, clientIdentifier: client, grant: grant))
    }

    private func publishes(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayPublish(topic: $0) }
    }

    private func receives(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayReceive(topic: $0) }
    }

    @Test func `EMQX's documented example is read`() throws {
        let answer = try read(
            """
            {"result": "allow", "is_superuser": false, "client_attrs": {"role": "admin", "sn": "10c61f1a1f47"},
             "expire_at": 1654254601,
             "acl": [{"permission": "allow", "action": "publish", "topic": "t/${clientid}"},
                     {"permission": "allow", "action": "subscribe", "topic": "eq t/1/#"},
                     {"permission": "deny", "action": "all", "topic": "t/3"}]}
            """)
        #expect(answer.verdict == .allowed && !answer.isSuperuser && answer.expiresAt == 1_654_254_601_000)
        #expect(answer.attributes.map(\.name) == ["role", "sn"] && answer.access?.rules.count == 3)
        #expect(answer.access?.decidesAll == false)
        #expect(try read(#"{"result":"deny"}"#).verdict == .denied && read(#"{"result":"ignore","acl":null}"#).verdict == .ignored)
        #expect(try read(#"{"result":"allow","is_superuser":true}"#).isSuperuser)
    }

    @Test func `the example of EMQX's page on HTTP, whose rule asks for a QoS, allows subscriptions of this QoS alone`() throws {
        let text =
            #"{"result": "allow", "is_superuser": false, "client_attrs": {"role": "admin", "sn": "10c61f1a1f47"}, "expire_at": 1654254601, "#
            + #""acl": [{"permission": "allow", "action": "subscribe", "topic": "eq t/1/#", "qos": [1]}, "#
            + #"{"permission": "deny", "action": "all", "topic": "t/3"}]}"#
        let policy = try policy(text)
        let allowed = [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].filter {
            policy.maySubscribe("t/1/#", qos: $0, asksLists: false)
        }
        #expect(allowed == [.atLeastOnce] && receives(policy, "t/1/x") && !receives(policy, "t/3"))
        #expect(policy.explanation(ofSubscribing: "t/1/#").isAllowed)
        #expect(policy.explanation(ofSubscribing: "t/1/#", qos: .exactlyOnce).isAllowed == false)
        #expect(policy.reason(denyingSubscription: "t/1/#") == "no rule allows it with this QoS")
    }

    /// What may be published, and subscribed to, as the QoS and an `r` for RETAIN.
    private func granted(_ rule: String) throws -> String {
        let policy = try policy(#"{"result":"allow","acl":[\#(rule),{"permission":"allow","action":"all","topic":"b"}]}"#)
        var found = ""
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            for retain in [false, true] {
                let may = Array("a".utf8).withUnsafeBytes { policy.mayPublish(topic: $0, qos: qos, retain: retain) }
                if may { found += "\(qos.rawValue)\(retain ? "r" : "") " }
            }
        }
        found += "|"
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] where policy.maySubscribe("a", qos: qos, asksLists: false) {
            found += " \(qos.rawValue)"
        }
        return found
    }

    @Test(arguments: [
        (#""action":"publish","qos":1"#, "1 1r |"), (#""action":"publish","qos":[0,"2"],"retain":false"#, "0 2 |"),
        (#""action":"publish","qos":"0,1","retain":"true""#, "0r 1r |"), (#""action":"publish","retain":1"#, "0r 1r 2r |"),
        (#""action":"publish","qos":null,"retain":"all""#, "0 0r 1 1r 2 2r |"), (#""action":"subscribe","qos":[0,1]"#, "| 0 1"),
        // EMQX's subscriptions have no RETAIN either.
        (#""action":"subscribe","retain":true"#, "| 0 1 2"), (#""action":"all","qos":2,"retain":"0""#, "2 | 2"),
    ])
    func `a rule is about the QoS and RETAIN that it asks for`(asking: String, granted words: String) throws {
        #expect(try granted(#"{"permission":"allow","topic":"a",\#(asking)}"#) == words)
    }

    @Test func `a rule that denies a QoS leaves the others, and what comes by them, to those behind it`() throws {
        let deny = #"{"permission":"deny","action":"all","topics":["a","eq a"],"qos":[1,2]}"#
        let allow = #"{"permission":"allow","action":"all","topics":["a","eq a/#"]}"#
        #expect(try granted("\(deny),\(allow)") == "0 0r | 0")
        let policy = try policy(#"{"result":"allow","acl":[\#(deny),\#(allow)]}"#)
        #expect(receives(policy, "a") && policy.maySubscribe("a/#", qos: .exactlyOnce, asksLists: false))
    }

    @Test func `the example of EMQX's page on access lists in tokens holds`() throws {
        let policy = try policy(
            """
            {"result": "allow",
             "acl": [{"permission": "allow", "action": "publish", "topic": "t/${clientid}", "qos": [0, 1, 2], "retain": null},
                     {"permission": "allow", "action": "subscribe", "topic": "eq t/1/#"},
                     {"permission": "deny", "action": "all", "topic": "t/3"}]}
            """)
        #expect(publishes(policy, "t/c1") && !publishes(policy, "t/3") && !publishes(policy, "t/c2"))
        #expect(
            policy.maySubscribe("t/1/#", qos: nil, asksLists: false) && !policy.maySubscribe("t/1/x", qos: nil, asksLists: false))
    }

    @Test func `the first rule that fits decides, and wildcards meant to the letter are no others`() throws {
        let policy = try policy(
            """
            {"result": "allow",
             "acl": [{"permission": "deny", "action": "publish", "topic": "t/secret"},
                     {"permission": "allow", "action": "publish", "topics": ["t/+", "u/${username}/#"]},
                     {"permission": "allow", "action": "subscribe", "topic": "eq t/#"},
                     {"permission": "allow", "action": "subscribe", "topic": "own/%c"}]}
            """)
        #expect(publishes(policy, "t/a") && !publishes(policy, "t/secret") && publishes(policy, "u/ann/x/y"))
        #expect(!publishes(policy, "u/bob/x") && !publishes(policy, "other"))
        #expect(policy.maySubscribe("t/#", qos: nil, asksLists: false) && !policy.maySubscribe("t/1", qos: nil, asksLists: false))
        #expect(
            policy.maySubscribe("own/c1", qos: nil, asksLists: false) && !policy.maySubscribe("own/c2", qos: nil, asksLists: false))
        #expect(receives(policy, "t/1/2") && receives(policy, "own/c1") && !receives(policy, "x"))
        #expect(policy.mayUnsubscribe("anything"))
    }

    @Test func `a shared subscription is judged as one of its filter`() throws {
        let policy = try policy(
            """
            {"result": "allow",
             "acl": [{"permission": "deny", "action": "subscribe", "topic": "t/secret"},
                     {"permission": "allow", "action": "subscribe", "topic": "t/#", "qos": 1},
                     {"permission": "allow", "action": "subscribe", "topic": "eq u/+"},
                     {"permission": "allow", "action": "subscribe", "topic": "$share/g/own"}]}
            """)
        let allowed = ["$share/g/t/1", "$share/g/t/#", "$share/g/t/secret", "$share/g/u/+", "$share/g/u/1", "$share/g/own", "own"]
            .filter { TopicFilter($0).map { policy.maySubscribe($0, qos: .atLeastOnce, asksLists: false) } ?? false }
        #expect(allowed == ["$share/g/t/1", "$share/g/t/#", "$share/g/u/+", "$share/g/own"])
        #expect(!policy.maySubscribe("$share/g/t/1", qos: .atMostOnce, asksLists: false))
        #expect(policy.explanation(ofSubscribing: "$share/g/t/secret").decider == .role("http"))
    }

    @Test func `rules for other addresses are left out, and attributes stand in topics`() throws {
        let policy = try policy(
            """
            {"result": "allow", "client_attrs": {"floor": "2"},
             "acl": [{"permission": "allow", "action": "publish", "topic": "a", "ipaddr": "198.51.100.0/24"},
                     {"permission": "allow", "action": "publish", "topic": "floors/${client_attrs.floor}"}]}
            """)
        #expect(!publishes(policy, "a") && publishes(policy, "floors/2") && !publishes(policy, "floors/3"))
    }

    @Test func `the old form names all that is allowed`() throws {
        let text = #"{"result": "allow", "acl": {"pub": ["a/%u"], "sub": ["b/#"], "all": "c"}}"#
        let policy = try policy(text)
        #expect(publishes(policy, "a/ann") && publishes(policy, "c") && !publishes(policy, "b/x"))
        #expect(receives(policy, "b/x") && receives(policy, "c") && !receives(policy, "a/ann"))
        #expect(try read(text).access?.decidesAll == true)
    }

    @Test(arguments: [
        "", "[]", "{", "null", #"{"result":"yes"}"#, #"{"result":true}"#, #"{}"#, #"{"result":"allow","result":"deny"}"#,
        #"{"result":"allow","is_superuser":"true"}"#, #"{"result":"allow","expire_at":"soon"}"#,
        #"{"result":"allow","expire_at":-1}"#,
        #"{"result":"allow","expire_at":9223372036854775807}"#, #"{"result":"allow","client_attrs":[]}"#,
        #"{"result":"allow","client_attrs":{"a":1}}"#, #"{"result":"allow","acl":"all"}"#,
        #"{"result":"allow","acl":{"publish":["a"]}}"#, #"{"result":"allow","acl":{"pub":[1]}}"#, #"{"result":"allow","acl":[1]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish"}]}"#,
        #"{"result":"allow","acl":[{"permission":"maybe","action":"publish","topic":"a"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"send","topic":"a"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","qos":3}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","qos":[]}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","qos":[0,true]}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","qos":"1,"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","qos":"+1"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","retain":"maybe"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","retain":2}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","clientid_re":"^a"}]}"#,
        #"{"result":"allow","acl":[{"permission":"allow","action":"publish","topic":"a","username_re":"^a"}]}"#,
    ])
    func `an answer that does not say clearly what it means is refused`(text: String) {
        #expect(throws: GrantedAnswerError.self) { try read(text) }
    }

    @Test func `rules whose topics are no filters let nobody in`() throws {
        for topic in ["a+", "#/a", "", "a/#/b"] {
            let text = #"{"result":"allow","acl":[{"permission":"allow","action":"all","topic":"\#(topic)"}]}"#
            #expect(throws: GrantedAnswerError.self) { try policy(text) }
        }
        let many = (0...1024).map { "\"t/\($0)\"" }.joined(separator: ",")
        #expect(throws: GrantedAnswerError.self) { try read(#"{"result":"allow","acl":{"pub":[\#(many)]}}"#) }
    }
}
