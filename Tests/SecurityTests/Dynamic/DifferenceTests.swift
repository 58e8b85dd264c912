import MQTTCodec
import Testing

@testable import Security

/// What another node has changed touches whom the command touches that has changed it.
struct DifferenceTests {
    /// Performs commands on a node, and gives what they have changed and what another node sees of that.
    private func compare(_ commands: String, after preparation: String) throws -> (own: SecurityChanges, seen: SecurityChanges) {
        var conversation = Conversation()
        _ = conversation.say(#"{"commands":[\#(preparation)]}"#)
        let before = try SecurityFile.model(reading: SecurityFile.bytes(of: conversation.dispatcher.model))
        _ = conversation.say(#"{"commands":[\#(commands)]}"#)
        #expect(!conversation.outcome.changes.isEmpty)
        let after = try SecurityFile.model(reading: SecurityFile.bytes(of: conversation.dispatcher.model))
        return (conversation.outcome.changes, SecurityChanges(from: before, to: after))
    }

    private static let preparation = """
        {"command":"createRole","rolename":"reader","acls":[{"acltype":"subscribeLiteral","topic":"a","allow":true}]},
        {"command":"createRole","rolename":"other"},
        {"command":"createGroup","groupname":"staff","roles":[{"rolename":"reader"}]},
        {"command":"createGroup","groupname":"guests"},
        {"command":"createClient","username":"anna","password":"a","roles":[{"rolename":"reader"}]},
        {"command":"createClient","username":"bert","groups":[{"groupname":"staff"}]},
        {"command":"createClient","username":"carl"},
        {"command":"createClient","username":"idle"},
        {"command":"disableClient","username":"idle"},
        {"command":"addRoleACL","rolename":"other","acltype":"subscribeLiteral","topic":"x","allow":true},
        {"command":"removeRoleACL","rolename":"other","acltype":"subscribeLiteral","topic":"x"}
        """

    @Test(arguments: [
        #"{"command":"createClient","username":"dora","password":"x"}"#,
        #"{"command":"createClient","username":"dora","groups":[{"groupname":"staff"}]}"#,
        #"{"command":"deleteClient","username":"bert"}"#,
        #"{"command":"disableClient","username":"anna"}"#,
        #"{"command":"enableClient","username":"idle"}"#,
        #"{"command":"setClientPassword","username":"anna","password":"longer"}"#,
        #"{"command":"setClientId","username":"anna","clientid":"one"}"#,
        #"{"command":"addClientRole","username":"carl","rolename":"other"}"#,
        #"{"command":"removeClientRole","username":"anna","rolename":"reader"}"#,
        #"{"command":"addGroupClient","groupname":"staff","username":"carl"}"#,
        #"{"command":"removeGroupClient","groupname":"staff","username":"bert"}"#,
        #"{"command":"addGroupRole","groupname":"staff","rolename":"other"}"#,
        #"{"command":"removeGroupRole","groupname":"staff","rolename":"reader"}"#,
        #"{"command":"deleteGroup","groupname":"staff"}"#,
        #"{"command":"createGroup","groupname":"new"}"#,
        #"{"command":"createRole","rolename":"new"}"#,
        #"{"command":"deleteRole","rolename":"reader"}"#,
        #"{"command":"addRoleACL","rolename":"reader","acltype":"subscribeLiteral","topic":"b","allow":true}"#,
        #"{"command":"removeRoleACL","rolename":"reader","acltype":"subscribeLiteral","topic":"a"}"#,
        #"{"command":"modifyRole","rolename":"reader","allowwildcardsubs":false}"#,
        #"{"command":"setAnonymousGroup","groupname":"guests"}"#,
        #"{"command":"setDefaultACLAccess","acls":[{"acltype":"subscribe","allow":true}]}"#,
    ])
    func `each command touches the same here and there`(command: String) throws {
        let (own, seen) = try compare(command, after: Self.preparation)
        #expect(own.kicked == seen.kicked)
        // Who has to go needs no new rights.
        #expect(own.renewed.users.subtracting(own.kicked.users) == seen.renewed.users.subtracting(seen.kicked.users))
        #expect(own.hasNewDefaults == seen.hasNewDefaults)
        #expect(own.clients.isSubset(of: seen.clients.union(own.kicked.users)) && own.roles.isSubset(of: seen.roles))
    }

    @Test func `texts touch nobody`() throws {
        let (_, seen) = try compare(
            #"{"command":"modifyRole","rolename":"reader","textname":"Readers"},{"command":"createRole","rolename":"x"}"#,
            after: Self.preparation)
        #expect(seen.kicked.isEmpty && seen.renewed.isEmpty && seen.roles == ["x"])
    }

    @Test func `a directory that took over what was seen grants what the other one grants`() throws {
        var conversation = Conversation()
        _ = conversation.say(#"{"commands":[\#(Self.preparation)]}"#)
        let document = SecurityDocument(path: "/dev/null/none", model: SecurityModel())
        let (changes, complaint) = document.adopt(
            try SecurityFile.model(reading: SecurityFile.bytes(of: conversation.dispatcher.model)))
        #expect(changes.renewed.users == ["anna", "bert", "carl", "idle"] && complaint != nil)
        #expect(document.directory.rights(of: "anna") != nil && document.directory.rights(of: "nobody") == nil)
    }

    @Test func `what is proposed is made when it is to be, and not before`() throws {
        let document = SecurityDocument(path: "/dev/null/none", model: SecurityModel())
        let context = SecurityContext(clientIdentifier: "shell", userName: "admin", hash: Conversation.hash)
        let request = SecurityRequest(Array(#"{"commands":[{"command":"createClient","username":"anna"}]}"#.utf8))
        let proposal = document.propose(request, context)
        #expect(!proposal.isEmpty && document.model.clients.count == 0 && document.directory.rights(of: "anna") == nil)
        let refused = String(decoding: proposal.answer(failure: "not now").text, as: UTF8.self)
        #expect(refused == #"{"responses":[{"command":"createClient","error":"not now"}]}"#)
        // Others have changed something meanwhile: the command is performed on that.
        _ = document.adopt(try SecurityFile.model(reading: Array(#"{"clients":[{"username":"bert"}]}"#.utf8)))
        let (answer, complaint) = document.make(document.propose(request, context))
        #expect(answer.failure == nil && complaint != nil && document.model.clients.names == ["anna", "bert"])
    }
}
