import MQTTCodec
import Security
import Testing

/// The dispatcher of dynamic security: every command, and every error in mosquitto's words.
@Suite struct DispatcherTests {
    /// A model with a bit of everything.
    private static func populated() -> Conversation {
        var conversation = Conversation()
        for command in [
            #"{"command":"createRole","rolename":"reader","acls":[{"acltype":"publishClientReceive","topic":"a/#","allow":true}]}"#,
            #"{"command":"createRole","rolename":"writer","textname":"W","allowwildcardsubs":false}"#,
            #"{"command":"createGroup","groupname":"staff","roles":[{"rolename":"reader","priority":3}]}"#,
            #"{"command":"createGroup","groupname":"guests"}"#,
            #"{"command":"createClient","username":"anna","password":"secret","clientid":"a1","textname":"Anna","roles":[{"rolename":"writer"}],"groups":[{"groupname":"staff","priority":7}]}"#,
            #"{"command":"createClient","username":"bert"}"#,
            #"{"command":"setAnonymousGroup","groupname":"guests"}"#,
        ] {
            #expect(conversation.error(command) == nil)
        }
        return conversation
    }

    @Test func `what a rule asks beside its topic is told and kept, and nothing of it where it asks nothing`() throws {
        var conversation = Conversation()
        let add = #""command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"a","allow":true"#
        for command in [
            #"{"command":"createRole","rolename":"r"}"#, "{\(add)}", "{\(add),\"qos\":[1,0],\"retain\":true}",
            "{\(add),\"from\":\"10.0.0.0/8\"}",
        ] { #expect(conversation.error(command) == nil, "\(command)") }
        #expect(conversation.error("{\(add),\"qos\":[0,1],\"retain\":true}") == "ACL with this topic already exists")
        let rule = #"{"acltype":"publishClientSend","topic":"a","priority":0,"allow":true"#
        let rules = "\(rule)},\(rule),\"qos\":[0,1],\"retain\":true},\(rule),\"from\":[\"10.0.0.0/8\"]}"
        #expect(conversation.ask(#"{"command":"getRole","rolename":"r"}"#).contains(rules))
        let bytes = SecurityFile.bytes(of: conversation.dispatcher.model)
        #expect(String(decoding: bytes, as: UTF8.self).contains(rules))
        #expect(try SecurityFile.bytes(of: SecurityFile.model(reading: bytes)) == bytes)
        let remove = #""command":"removeRoleACL","rolename":"r","acltype":"publishClientSend","topic":"a""#
        #expect(conversation.error("{\(remove),\"from\":[\"10.0.0.0/8\"]}") == nil)
        #expect(conversation.error("{\(remove),\"from\":[\"10.0.0.0/8\"]}") == "ACL not found")
        #expect(conversation.error("{\(remove)}") == nil)
        #expect(conversation.ask(#"{"command":"getRole","rolename":"r"}"#).contains(#""acls":[]"#))
    }

    @Test func `a rule in a file whose condition cannot be read is told`() throws {
        let text = #"{"roles":[{"rolename":"r","acls":[{"acltype":"publishClientSend","topic":"a","from":["10.0.0"]}]}]}"#
        let complaint = try #require(throws: SecurityFile.Complaint.self) { try SecurityFile.model(reading: Array(text.utf8)) }
        #expect(complaint.description.hasPrefix("has a role \"r\" with a rule that cannot be kept: Invalid from"))
    }

    @Test(arguments: [
        ("{", #"{"responses":[{"command":"Unknown command","error":"Payload not valid JSON"}]}"#),
        ("{}", #"{"responses":[{"command":"Unknown command","error":"Invalid/missing commands"}]}"#),
        ("[]", #"{"responses":[{"command":"Unknown command","error":"Invalid/missing commands"}]}"#),
        (#"{"commands":{}}"#, #"{"responses":[{"command":"Unknown command","error":"Invalid/missing commands"}]}"#),
        (#"{"commands":[]}"#, #"{"responses":[]}"#),
        (
            #"{"commands":[1,{"command":"listRoles"}]}"#,
            #"{"responses":[{"command":"Unknown command","error":"Command not an object"}]}"#
        ),
        (
            #"{"commands":[{"command":"listroles"},{"commando":1},{"command":"listRoles"}]}"#,
            #"{"responses":[{"command":"listRoles","data":{"totalCount":0,"roles":[]}},{"command":"Unknown command","error":"Missing command"}]}"#
        ),
        (
            #"{"commands":[{"command":"X","correlationData":1},{"command":"listRoles"}]}"#,
            #"{"responses":[{"command":"X","error":"Invalid correlationData data type."}]}"#
        ),
        (
            #"{"commands":[{"command":"dance","correlationData":"7"},{"command":"DELETEROLE","rolename":"x"}]}"#,
            #"{"responses":[{"command":"dance","error":"Unknown command","correlationData":"7"},{"command":"DELETEROLE","error":"Role not found"}]}"#
        ),
    ])
    func `what is around the commands is answered as mosquitto does`(payload: String, answer: String) {
        var conversation = Conversation()
        #expect(conversation.say(payload) == answer)
    }

    @Test(arguments: [
        (#"{"command":"createClient"}"#, "Invalid/missing username"),
        (#"{"command":"createClient","username":1}"#, "Invalid/missing username"),
        (#"{"command":"createClient","username":""}"#, "Empty username"),
        (#"{"command":"createClient","username":"a\u0001"}"#, "Username not valid UTF-8"),
        (#"{"command":"createClient","username":"x","password":1}"#, "Invalid/missing password"),
        (#"{"command":"createClient","username":"x","clientid":1}"#, "Invalid/missing client id"),
        (#"{"command":"createClient","username":"x","clientid":"\u0001"}"#, "Client ID not valid UTF-8"),
        (#"{"command":"createClient","username":"x","textname":1}"#, "Invalid/missing textname"),
        (#"{"command":"createClient","username":"x","textdescription":1}"#, "Invalid/missing textdescription"),
        (#"{"command":"createClient","username":"anna"}"#, "Client already exists"),
        (#"{"command":"createClient","username":"x","roles":[{"rolename":"none"}]}"#, "Role not found"),
        (
            #"{"command":"createClient","username":"x","roles":[{}]}"#,
            "'roles' not an array or missing/invalid rolename"
        ),
        (#"{"command":"createClient","username":"x","roles":{}}"#, "'roles' not an array or missing/invalid rolename"),
        (#"{"command":"createClient","username":"x","groups":[{"groupname":"none"}]}"#, "Group not found"),
        (#"{"command":"deleteClient"}"#, "Invalid/missing username"),
        (#"{"command":"deleteClient","username":"x"}"#, "Client not found"),
        (#"{"command":"getClient","username":"x"}"#, "Client not found"),
        (#"{"command":"enableClient","username":"x"}"#, "Client not found"),
        (#"{"command":"disableClient","username":"x"}"#, "Client not found"),
        (#"{"command":"setClientPassword","username":"anna"}"#, "Invalid/missing password"),
        (#"{"command":"setClientPassword","username":"anna","password":""}"#, "Empty password is not allowed"),
        (#"{"command":"setClientPassword","username":"x","password":"y"}"#, "Client not found"),
        (#"{"command":"setClientId","username":"anna","clientid":5}"#, "Invalid/missing client ID"),
        (#"{"command":"setClientId","username":"x","clientid":"y"}"#, "Client not found"),
        (#"{"command":"modifyClient","username":"x"}"#, "Client not found"),
        (#"{"command":"modifyClient","username":"anna","roles":[{"rolename":"none"}]}"#, "Role not found"),
        (
            #"{"command":"modifyClient","username":"anna","roles":1}"#,
            "'roles' not an array or missing/invalid rolename"
        ),
        (
            #"{"command":"modifyClient","username":"anna","groups":[{"groupname":"none"}]}"#,
            "'groups' contains an object with a 'groupname' that does not exist"
        ),
        (
            #"{"command":"modifyClient","username":"anna","groups":[{}]}"#,
            "'groups' contains an object with an invalid 'groupname'"
        ),
        (#"{"command":"addClientRole","username":"anna"}"#, "Invalid/missing rolename"),
        (#"{"command":"addClientRole","username":"x","rolename":"writer"}"#, "Client not found"),
        (#"{"command":"addClientRole","username":"anna","rolename":"none"}"#, "Role not found"),
        (#"{"command":"addClientRole","username":"anna","rolename":"writer"}"#, "Internal error"),
        (#"{"command":"removeClientRole","username":"x","rolename":"writer"}"#, "Client not found"),
        (#"{"command":"removeClientRole","username":"anna","rolename":"none"}"#, "Role not found"),
        (#"{"command":"createGroup"}"#, "Invalid/missing groupname"),
        (#"{"command":"createGroup","groupname":""}"#, "Empty groupname"),
        (#"{"command":"createGroup","groupname":"\u0001"}"#, "Group name not valid UTF-8"),
        (#"{"command":"createGroup","groupname":"staff"}"#, "Group already exists"),
        (#"{"command":"createGroup","groupname":"x","roles":[{"rolename":"none"}]}"#, "Role not found"),
        (#"{"command":"deleteGroup","groupname":"x"}"#, "Group not found"),
        (#"{"command":"deleteGroup","groupname":"guests"}"#, "Deleting the anonymous group is forbidden"),
        (#"{"command":"getGroup","groupname":"x"}"#, "Group not found"),
        (#"{"command":"modifyGroup","groupname":"x"}"#, "Group not found"),
        (
            #"{"command":"modifyGroup","groupname":"staff","clients":[{"username":"x"}]}"#,
            "'clients' contains an object with a 'username' that does not exist"
        ),
        (
            #"{"command":"modifyGroup","groupname":"staff","clients":[{}]}"#,
            "'clients' contains an object with an invalid 'username'"
        ),
        (#"{"command":"addGroupClient","groupname":"staff","username":"x"}"#, "Client not found"),
        (#"{"command":"addGroupClient","groupname":"x","username":"anna"}"#, "Group not found"),
        (#"{"command":"addGroupClient","groupname":"staff","username":"anna"}"#, "Client is already in this group"),
        (#"{"command":"removeGroupClient","groupname":"x","username":"anna"}"#, "Group not found"),
        (#"{"command":"addGroupRole","groupname":"x","rolename":"reader"}"#, "Group not found"),
        (#"{"command":"addGroupRole","groupname":"staff","rolename":"none"}"#, "Role not found"),
        (#"{"command":"addGroupRole","groupname":"staff","rolename":"reader"}"#, "Group is already in this role"),
        (#"{"command":"removeGroupRole","groupname":"staff","rolename":"none"}"#, "Role not found"),
        (#"{"command":"setAnonymousGroup"}"#, "Invalid/missing groupname"),
        (#"{"command":"setAnonymousGroup","groupname":"x"}"#, "Group not found"),
        (#"{"command":"createRole"}"#, "Invalid/missing rolename"),
        (#"{"command":"createRole","rolename":""}"#, "Empty rolename"),
        (#"{"command":"createRole","rolename":"\u0001"}"#, "Role name not valid UTF-8"),
        (#"{"command":"createRole","rolename":"x","allowwildcardsubs":1}"#, "Invalid allowwildcardsubs"),
        (#"{"command":"createRole","rolename":"reader"}"#, "Role already exists"),
        (#"{"command":"deleteRole","rolename":"x"}"#, "Role not found"),
        (#"{"command":"getRole","rolename":"x"}"#, "Role not found"),
        (#"{"command":"modifyRole","rolename":"x"}"#, "Role does not exist"),
        (#"{"command":"addRoleACL","rolename":"x"}"#, "Role not found"),
        (#"{"command":"addRoleACL","rolename":"reader"}"#, "Invalid/missing acltype"),
        (#"{"command":"addRoleACL","rolename":"reader","acltype":"x"}"#, "Unknown acltype"),
        (#"{"command":"addRoleACL","rolename":"reader","acltype":"publishClientSend"}"#, "Invalid/missing topic"),
        (#"{"command":"addRoleACL","rolename":"reader","acltype":"publishClientSend","topic":"\u0001"}"#, "Topic not valid UTF-8"),
        (#"{"command":"addRoleACL","rolename":"reader","acltype":"publishClientSend","topic":"a#"}"#, "Invalid ACL topic"),
        (
            #"{"command":"addRoleACL","rolename":"reader","acltype":"PUBLISHCLIENTRECEIVE","topic":"a/#"}"#,
            "ACL with this topic already exists"
        ),
        (#"{"command":"removeRoleACL","rolename":"reader","acltype":"publishClientSend","topic":"a/#"}"#, "ACL not found"),
        (
            #"{"command":"addRoleACL","rolename":"reader","acltype":"publishClientSend","topic":"q","qos":[3]}"#,
            "Invalid qos: expected a list of 0, 1 and 2"
        ),
        (
            #"{"command":"addRoleACL","rolename":"reader","acltype":"publishClientSend","topic":"q","retain":1}"#,
            "Invalid retain: expected true or false"
        ),
        (
            #"{"command":"addRoleACL","rolename":"reader","acltype":"subscribePattern","topic":"q","qos":[1]}"#,
            "qos and retain are for publishClientSend only"
        ),
        (
            #"{"command":"createRole","rolename":"new","acls":[{"acltype":"subscribePattern","topic":"q","from":"x"}]}"#,
            "Invalid from: expected addresses or networks, such as 10.0.0.0/8"
        ),
        (#"{"command":"setDefaultACLAccess"}"#, "Missing/invalid actions array"),
    ])
    func `an error has mosquitto's words and changes nothing`(command: String, words: String) {
        var conversation = Self.populated()
        let before = conversation.ask(#"{"command":"getDetails"}"#)
        #expect(conversation.error(command) == words)
        #expect(conversation.outcome.changes.isEmpty)
        #expect(conversation.ask(#"{"command":"getDetails"}"#) == before)
    }

    @Test(arguments: [
        (
            #"{"command":"GETCLIENT","username":"anna","correlationData":"c"}"#,
            #"{"command":"getClient","data":{"client":{"username":"anna","clientid":"a1","textname":"Anna","roles":[{"rolename":"writer"}],"groups":[{"groupname":"staff","priority":7}],"connections":[{"address":"192.0.2.1"}]}},"correlationData":"c"}"#
        ),
        (
            #"{"command":"listClients"}"#,
            #"{"command":"listClients","data":{"totalCount":2,"clients":["anna","bert"]}}"#
        ),
        (
            #"{"command":"listClients","verbose":true,"offset":1}"#,
            #"{"command":"listClients","data":{"totalCount":2,"clients":[{"username":"bert","roles":[],"groups":[],"connections":[]}]}}"#
        ),
        (
            #"{"command":"listClients","count":0}"#,
            #"{"command":"listClients","data":{"totalCount":2,"clients":["anna"]}}"#
        ),
        (
            #"{"command":"getGroup","groupname":"staff"}"#,
            #"{"command":"getGroup","data":{"group":{"groupname":"staff","clients":[{"username":"anna"}],"roles":[{"rolename":"reader","priority":3}]}}}"#
        ),
        (
            #"{"command":"listGroups","verbose":true,"count":1}"#,
            #"{"command":"listGroups","data":{"totalCount":2,"groups":[{"groupname":"guests","clients":[],"roles":[]}]}}"#
        ),
        (
            #"{"command":"getAnonymousGroup"}"#,
            #"{"command":"getAnonymousGroup","data":{"group":{"groupname":"guests"}}}"#
        ),
        (
            #"{"command":"getRole","rolename":"reader"}"#,
            #"{"command":"getRole","data":{"role":{"rolename":"reader","allowwildcardsubs":true,"acls":[{"acltype":"publishClientReceive","topic":"a/#","priority":0,"allow":true}]}}}"#
        ),
        (
            #"{"command":"listRoles","verbose":true,"offset":1}"#,
            #"{"command":"listRoles","data":{"totalCount":2,"roles":[{"rolename":"writer","textname":"W","allowwildcardsubs":false,"acls":[]}]}}"#
        ),
        (
            #"{"command":"getDefaultACLAccess"}"#,
            #"{"command":"getDefaultACLAccess","data":{"acls":[{"acltype":"publishClientSend","allow":false},{"acltype":"publishClientReceive","allow":true},{"acltype":"subscribe","allow":false},{"acltype":"unsubscribe","allow":true}]}}"#
        ),
        (
            #"{"command":"getDetails"}"#,
            #"{"command":"getDetails","data":{"clientCount":2,"groupCount":2,"roleCount":2,"changeIndex":7}}"#
        ),
        (#"{"command":"ENABLEclient","username":"anna"}"#, #"{"command":"ENABLEclient"}"#),
    ])
    func `an answer is what mosquitto's is`(command: String, answer: String) {
        var conversation = Self.populated()
        #expect(conversation.ask(command) == answer)
    }

    /// Who has to go after each command; "*" for who has no user name.
    @Test(arguments: [
        (#"{"command":"createClient","username":"x"}"#, []),
        (#"{"command":"enableClient","username":"anna"}"#, []),
        (#"{"command":"disableClient","username":"anna"}"#, ["anna"]),
        (#"{"command":"deleteClient","username":"anna"}"#, ["anna"]),
        (#"{"command":"setClientPassword","username":"anna","password":"x"}"#, ["anna"]),
        (#"{"command":"setClientId","username":"anna"}"#, ["anna"]),
        (#"{"command":"modifyClient","username":"bert","textname":"B"}"#, ["bert"]),
        (#"{"command":"addClientRole","username":"bert","rolename":"reader"}"#, ["bert"]),
        (#"{"command":"removeClientRole","username":"anna","rolename":"writer"}"#, ["anna"]),
        (#"{"command":"createGroup","groupname":"x"}"#, []),
        (#"{"command":"deleteGroup","groupname":"staff"}"#, ["anna"]),
        (#"{"command":"modifyGroup","groupname":"staff","clients":[{"username":"bert"}]}"#, ["anna", "bert"]),
        (#"{"command":"addGroupClient","groupname":"staff","username":"bert"}"#, ["bert"]),
        (#"{"command":"removeGroupClient","groupname":"staff","username":"anna"}"#, ["anna"]),
        (#"{"command":"addGroupRole","groupname":"guests","rolename":"reader"}"#, ["*"]),
        (#"{"command":"removeGroupRole","groupname":"staff","rolename":"reader"}"#, ["anna"]),
        (#"{"command":"setAnonymousGroup","groupname":"staff"}"#, ["*"]),
        (#"{"command":"createRole","rolename":"x"}"#, []),
        (#"{"command":"modifyRole","rolename":"reader","textname":"R"}"#, []),
        (#"{"command":"modifyRole","rolename":"writer","allowwildcardsubs":true}"#, ["anna"]),
        (#"{"command":"modifyRole","rolename":"reader","acls":[]}"#, ["anna"]),
        (#"{"command":"addRoleACL","rolename":"reader","acltype":"subscribeLiteral","topic":"x"}"#, ["anna"]),
        (#"{"command":"removeRoleACL","rolename":"reader","acltype":"publishClientReceive","topic":"a/#"}"#, ["anna"]),
        (#"{"command":"deleteRole","rolename":"reader"}"#, ["anna"]),
        (#"{"command":"setDefaultACLAccess","acls":[{"acltype":"subscribe","allow":true}]}"#, []),
    ])
    func `a change sends away exactly those whom it concerns`(command: String, kicked: [String]) {
        var conversation = Self.populated()
        #expect(conversation.error(command) == nil)
        let people = conversation.outcome.changes.kicked
        #expect((people.users.map { "\($0)" } + (people.hasAnonymous ? ["*"] : [])).sorted() == kicked)
        #expect(!conversation.outcome.changes.isEmpty)
        #expect(conversation.ask(#"{"command":"getDetails"}"#).contains(#""changeIndex":8"#))
    }

    @Test func `roles are asked by priority, then by name, and rules of one priority in the order in which they came`() {
        var conversation = Conversation()
        for name in ["b", "a", "c", "d"] { _ = conversation.ask(#"{"command":"createRole","rolename":"\#(name)"}"#) }
        _ = conversation.ask(
            #"{"command":"createClient","username":"u","roles":[{"rolename":"b"},{"rolename":"d","priority":200000},{"rolename":"c","priority":5},{"rolename":"a"},{"rolename":"a","priority":9}]}"#
        )
        #expect(
            conversation.ask(#"{"command":"getClient","username":"u"}"#).contains(
                #"[{"rolename":"d","priority":100000},{"rolename":"c","priority":5},{"rolename":"a"},{"rolename":"b"}]"#))
        for (topic, priority) in [("1", 0), ("2", 7), ("3", 7), ("4", -3)] {
            _ = conversation.ask(
                #"{"command":"addRoleACL","rolename":"a","acltype":"subscribePattern","topic":"\#(topic)","priority":\#(priority)}"#
            )
        }
        let answer = conversation.ask(#"{"command":"getRole","rolename":"a"}"#)
        let topics = answer.split(separator: #""topic":""#).dropFirst().map { String($0.prefix(1)) }
        #expect(topics == ["2", "3", "1", "4"])
    }

    @Test func `an empty password is left out of a modification, and a change leaves a line without the password`() {
        var conversation = Self.populated()
        let before = conversation.dispatcher.model.clients["anna"]?.password
        #expect(conversation.error(#"{"command":"modifyClient","username":"anna","password":""}"#) == nil)
        #expect(conversation.dispatcher.model.clients["anna"]?.password == before)
        #expect(conversation.error(#"{"command":"createClient","username":"eve","password":"topsecret"}"#) == nil)
        #expect(conversation.outcome.lines == ["dynsec: shell/admin | createClient | username=eve | password=*****"])
    }

    @Test func `a change that is not saved is answered with the reason`() {
        var conversation = Conversation()
        _ = conversation.say(
            #"{"commands":[{"command":"createRole","rolename":"r"},{"command":"listRoles"},{"command":"createRole"}]}"#)
        #expect(
            String(decoding: conversation.outcome.text(failure: "no room"), as: UTF8.self)
                == #"{"responses":[{"command":"createRole","error":"no room"},{"command":"listRoles","data":{"totalCount":1,"roles":["r"]}},{"command":"createRole","error":"Invalid/missing rolename"}]}"#
        )
    }
}
