import MQTTCodec
import Security
import Testing

@testable import BrokerModel

/// What users may do by their roles, as the loops ask it.
@Suite struct DirectoryTests {
    private func access(_ commands: [String], of user: EncodedString?, as identifier: EncodedString = "c1") -> AccessPolicy {
        var conversation = Conversation()
        for command in commands { #expect(conversation.error(command) == nil, "\(command)") }
        let directory = SecurityDirectory(conversation.dispatcher.model)
        return AccessControl(roles: directory, lists: nil).policy(userName: user, clientIdentifier: identifier)
    }

    private func acl(_ role: String, _ type: String, _ topic: String, _ allows: Bool, _ priority: Int = 0) -> String {
        #"{"command":"addRoleACL","rolename":"\#(role)","acltype":"\#(type)","topic":"\#(topic)","allow":\#(allows),"priority":\#(priority)}"#
    }

    private func publishes(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayPublish(topic: $0) }
    }

    private func receives(_ policy: AccessPolicy, _ topic: String) -> Bool {
        Array(topic.utf8).withUnsafeBytes { policy.mayReceive(topic: $0) }
    }

    @Test func `the first rule that matches decides, by the priority of roles and then of rules`() {
        let policy = access(
            [
                #"{"command":"createRole","rolename":"low"}"#, #"{"command":"createRole","rolename":"high"}"#,
                acl("low", "publishClientSend", "a/#", true), acl("low", "publishClientSend", "a/b/c", false, 5),
                acl("high", "publishClientSend", "a/x", false), acl("high", "publishClientSend", "a/b/d", true, -5),
                acl("high", "publishClientSend", "a/+/d", false),
                #"{"command":"createClient","username":"u","roles":[{"rolename":"low","priority":1},{"rolename":"high","priority":2}]}"#,
            ], of: "u")
        #expect(publishes(policy, "a/y"))
        #expect(publishes(policy, "a"))
        #expect(!publishes(policy, "a/b/c"))
        #expect(!publishes(policy, "a/x"))
        #expect(!publishes(policy, "a/b/d"))
        #expect(!publishes(policy, "b"))
        #expect(receives(policy, "b"))
    }

    @Test func `groups come after a client's own roles, and clients without a name have the anonymous group's`() {
        let commands = [
            #"{"command":"createRole","rolename":"own"}"#, #"{"command":"createRole","rolename":"all"}"#,
            acl("own", "publishClientSend", "t", false), acl("all", "publishClientSend", "#", true),
            #"{"command":"createGroup","groupname":"g","roles":[{"rolename":"all","priority":99}]}"#,
            #"{"command":"createClient","username":"u","roles":[{"rolename":"own"}],"groups":[{"groupname":"g"}]}"#,
            #"{"command":"setAnonymousGroup","groupname":"g"}"#,
        ]
        let named = access(commands, of: "u")
        #expect(!publishes(named, "t"))
        #expect(publishes(named, "s"))
        #expect(publishes(access(commands, of: nil), "t"))
        #expect(!publishes(access(commands, of: "stranger"), "s"))
        #expect(!receives(access(commands, of: "stranger"), "s"))
    }

    @Test func `%c and %u stand for the client, and a name with a slash or a wildcard in it opens nothing`() {
        let commands = [
            #"{"command":"createRole","rolename":"r"}"#, acl("r", "publishClientSend", "d/%c/%u/#", true),
            #"{"command":"createClient","username":"u","roles":[{"rolename":"r"}]}"#,
        ]
        #expect(publishes(access(commands, of: "u"), "d/c1/u/x"))
        #expect(!publishes(access(commands, of: "u"), "d/c2/u/x"))
        #expect(!publishes(access(commands, of: "u", as: "a/b"), "d/a/b/u/x"))
        #expect(!publishes(access(commands, of: "u", as: "+"), "d/x/u/x"))
    }

    @Test func `a rule may be for some messages, addresses and attributes alone`() throws {
        var conversation = Conversation()
        func rule(_ type: String, _ topic: String, _ more: String, allows: Bool = true) -> String {
            #"{"command":"addRoleACL","rolename":"r","acltype":"\#(type)","topic":"\#(topic)","allow":\#(allows)\#(more)}"#
        }
        for command in [
            #"{"command":"createRole","rolename":"r"}"#,
            rule("publishClientSend", "a/#", #","qos":[1,0],"retain":false"#),
            rule("publishClientSend", "a/#", #","qos":[2],"from":"10.0.0.0/8""#),
            rule("publishClientSend", "b", #","from":["192.0.2.7"],"priority":5"#, allows: false),
            rule("publishClientSend", "b", ""), rule("publishClientReceive", "floors/%{client_attrs.floor}/#", ""),
            rule("subscribeLiteral", "lit/#", #","from":["10.0.0.0/8","::1"]"#),
            rule("subscribePattern", "floors/%{client_attrs.floor}/#", ""),
            #"{"command":"createClient","username":"u","roles":[{"rolename":"r"}]}"#,
            #"{"command":"setDefaultACLAccess","acls":[{"acltype":"publishClientReceive","allow":false}]}"#,
        ] { #expect(conversation.error(command) == nil, "\(command)") }
        let control = AccessControl(roles: SecurityDirectory(conversation.dispatcher.model), lists: nil)
        func policy(_ address: String, _ floor: String? = nil) -> AccessPolicy {
            control.policy(
                userName: "u", clientIdentifier: "c", attributes: floor.map { [("floor", $0)] } ?? [], origin: .address(address))
        }
        func may(_ policy: AccessPolicy, _ topic: String, _ qos: QoS, _ retain: Bool) -> Bool {
            Array(topic.utf8).withUnsafeBytes { policy.mayPublish(topic: $0, qos: qos, retain: retain) }
        }
        let (near, far) = (policy("10.0.0.1"), policy("192.0.2.7"))
        #expect(
            may(far, "a/x", .atLeastOnce, false) && !may(far, "a/x", .atLeastOnce, true) && !may(far, "a/x", .exactlyOnce, false))
        #expect(may(near, "a/x", .exactlyOnce, true) && publishes(far, "a/x"))
        #expect(may(near, "b", .atMostOnce, false) && !may(far, "b", .atMostOnce, false) && !publishes(far, "b"))
        #expect(near.explanation(of: .publish, topic: "a/x", messages: .write(.atLeastOnce, retain: true)).isAllowed == false)
        let literal = TopicFilter("lit/#")
        #expect(near.maySubscribe(literal, qos: nil, asksLists: false) && !far.maySubscribe(literal, qos: nil, asksLists: false))
        #expect(
            receives(policy("::1", "2"), "floors/2/x") && !receives(policy("::1", "3"), "floors/2/x")
                && !receives(near, "floors/2/x"))
        #expect(!receives(policy("::1", "+"), "floors/2/x") && !receives(policy("::1", "2/3"), "floors/2/3/x"))
        let floor = TopicFilter("floors/2/+")
        #expect(
            policy("::1", "2").maySubscribe(floor, qos: nil, asksLists: false)
                && !policy("::1", "3").maySubscribe(floor, qos: nil, asksLists: false))
    }

    @Test func `groups and roles of a certificate come behind the user's own, and make an unknown user known`() {
        var conversation = Conversation()
        for command in [
            #"{"command":"createRole","rolename":"own"}"#, #"{"command":"createRole","rolename":"all"}"#,
            #"{"command":"createRole","rolename":"door"}"#,
            acl("own", "publishClientSend", "t", false), acl("all", "publishClientSend", "#", true),
            acl("door", "publishClientSend", "door", true),
            #"{"command":"createGroup","groupname":"g","roles":[{"rolename":"all"}]}"#,
            #"{"command":"createClient","username":"u","roles":[{"rolename":"own"}]}"#,
            #"{"command":"createClient","username":"off"}"#, #"{"command":"disableClient","username":"off"}"#,
        ] { #expect(conversation.error(command) == nil, "\(command)") }
        let control = AccessControl(roles: SecurityDirectory(conversation.dispatcher.model), lists: nil)
        func policy(_ user: EncodedString, groups: [EncodedString] = [], roles: [EncodedString] = []) -> AccessPolicy {
            control.policy(
                userName: user, clientIdentifier: "c", memberships: AccessMemberships(groups: groups, roles: roles))
        }
        #expect(
            publishes(policy("u", groups: ["g"]), "s") && !publishes(policy("u", groups: ["g"]), "t")
                && !publishes(policy("u"), "s"))
        #expect(publishes(policy("stranger", groups: ["none", "g"]), "s") && !publishes(policy("stranger", groups: ["none"]), "s"))
        #expect(publishes(policy("stranger", roles: ["door"]), "door") && !publishes(policy("stranger", roles: ["door"]), "s"))
        #expect(!publishes(policy("off", groups: ["g"]), "s"))
    }

    @Test func `a user's mount point comes before that of a group, and this before a role's`() throws {
        var conversation = Conversation()
        for command in [
            #"{"command":"createRole","rolename":"r","mountpoint":"role/"}"#,
            #"{"command":"createGroup","groupname":"g","mountpoint":"groups/%u/"}"#,
            #"{"command":"createGroup","groupname":"plain","roles":[{"rolename":"r"}]}"#,
            #"{"command":"createClient","username":"own","mountpoint":"x/","groups":[{"groupname":"g"}]}"#,
            #"{"command":"createClient","username":"member","groups":[{"groupname":"g"}],"roles":[{"rolename":"r"}]}"#,
            #"{"command":"createClient","username":"role","groups":[{"groupname":"plain"}]}"#,
            #"{"command":"createClient","username":"none","mountpoint":"y/"}"#,
            #"{"command":"modifyClient","username":"none","mountpoint":""}"#,
        ] { #expect(conversation.error(command) == nil, "\(command)") }
        for text in ["a/#", "%{floor}/"] {
            let error = conversation.error(#"{"command":"modifyGroup","groupname":"g","mountpoint":"\#(text)"}"#)
            #expect(error?.hasPrefix("Invalid mountpoint") == true)
        }
        let directory = SecurityDirectory(conversation.dispatcher.model)
        let found = (["own", "member", "role", "none", "stranger"] as [EncodedString]).map {
            directory.mountPoint(of: $0, in: AccessMemberships())?.text
        }
        #expect(found == ["x/", "groups/%u/", "role/", nil, nil])
        #expect(directory.mountPoint(of: "stranger", in: AccessMemberships(groups: ["g"]))?.text == "groups/%u/")
        let bytes = SecurityFile.bytes(of: conversation.dispatcher.model)
        #expect(try SecurityFile.bytes(of: SecurityFile.model(reading: bytes)) == bytes)
        #expect(String(decoding: bytes, as: UTF8.self).contains(#""mountpoint":"groups/%u/""#))
        #expect(conversation.ask(#"{"command":"getClient","username":"own"}"#).contains(#""mountpoint":"x/""#))
        #expect(!conversation.ask(#"{"command":"getClient","username":"none"}"#).contains("mountpoint"))
    }

    @Test func `administration is never granted by default`() {
        let policy = access(
            [
                #"{"command":"setDefaultACLAccess","acls":[{"acltype":"publishClientSend","allow":true}]}"#,
                #"{"command":"createClient","username":"u"}"#,
            ], of: "u")
        #expect(publishes(policy, "anything"))
        #expect(!publishes(policy, "$CONTROL/dynamic-security/v1"))
        #expect(!receives(policy, "$CONTROL/dynamic-security/v1/response"))
    }

    @Test func `a change reaches the directory, and only what has changed`() {
        var conversation = Conversation()
        _ = conversation.ask(#"{"command":"createClient","username":"u"}"#)
        let directory = SecurityDirectory(conversation.dispatcher.model)
        let control = AccessControl(roles: directory, lists: nil)
        for command in [
            #"{"command":"createRole","rolename":"r","acls":[{"acltype":"publishClientSend","topic":"t","allow":true}]}"#,
            #"{"command":"createGroup","groupname":"g"}"#, #"{"command":"addGroupClient","groupname":"g","username":"u"}"#,
            #"{"command":"addGroupRole","groupname":"g","rolename":"r"}"#,
        ] {
            #expect(!publishes(control.policy(userName: "u", clientIdentifier: "c"), "t"))
            _ = conversation.ask(command)
            directory.apply(conversation.outcome.changes, of: conversation.dispatcher.model)
        }
        #expect(publishes(control.policy(userName: "u", clientIdentifier: "c"), "t"))
        _ = conversation.ask(#"{"command":"deleteClient","username":"u"}"#)
        directory.apply(conversation.outcome.changes, of: conversation.dispatcher.model)
        #expect(directory.rights(of: "u") == nil)
    }
}
