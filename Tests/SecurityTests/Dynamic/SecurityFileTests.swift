import BrokerCore
import BrokerModel
import MQTTCodec
import Security
import Testing

@Suite struct SecurityFileTests {
    private func text(_ model: SecurityModel) -> String { String(decoding: SecurityFile.bytes(of: model), as: UTF8.self) }

    private func read(_ text: String) throws -> SecurityModel { try SecurityFile.model(reading: Array(text.utf8)) }

    @Test func `a file is written as it was read, with what nobody here knows`() throws {
        let first = try read(
            """
            {"roles":[{"rolename":"r","mine":[1,{"a":null}],"acls":[{"acltype":"subscribePattern","topic":"t/#","allow":true}]}],
             "clients":[{"username":"u","textName":"U","password":"\(String(repeating: "A", count: 86))==","salt":"c2FsdHNhbHRzYWx0",
               "iterations":101,"roles":[{"rolename":"r","priority":2},{"rolename":"gone"}],"colour":"red"}],
             "groups":[{"groupname":"g","roles":[{"rolename":"r"}],"clients":[{"username":"u","priority":4},{"username":"gone"}]}],
             "anonymousGroup":"g","defaultACLAccess":{"subscribe":true,"publishClientReceive":false},"changeIndex":12,"more":{"x":1.5}}
            """)
        let second = try read(text(first))
        #expect(text(second) == text(first))
        #expect(second.clients["u"]?.password?.text == "$7$101$c2FsdHNhbHRzYWx0$\(String(repeating: "A", count: 86))==")
        #expect(second.clients["u"]?.texts.name == "U")
        #expect(second.groups["g"]?.clients["u"] == 4)
        #expect(second.clients["u"]?.groups.entries.map(\.priority) == [4])
        #expect(second.anonymousGroup == "g")
        #expect(second.defaults.subscribes && !second.defaults.receives)
        #expect(second.changeIndex == 12)
        for kept in [#""mine":[1,{"a":null}]"#, #""colour":"red""#, #""more":{"x":1.5}"#, #""iterations":101"#] {
            #expect(text(second).contains(kept), "\(kept)")
        }
    }

    @Test func `a hash of an unknown kind stays in the file, and nobody logs in by it`() throws {
        let model = try read(#"{"clients":[{"username":"u","encoded_password":"$9$x"}]}"#)
        #expect(model.clients["u"]?.password == nil)
        #expect(text(model).contains(#""encoded_password":"$9$x""#))
    }

    @Test func `what is no such file is refused with the reason`() {
        #expect(throws: SecurityFile.Complaint.self) { try read("{") }
        #expect(throws: SecurityFile.Complaint.self) { try read("[]") }
        #expect(throws: SecurityFile.Complaint.self) { try read(#"{"clients":{}}"#) }
    }

    @Test func `a new file has mosquitto's roles, an administrator and the group of those who do not log in`() {
        let model = SecurityModel.first(.init(admin: "x", demonstration: "y"), hash: Conversation.hash)
        #expect(
            model.roles.names.map { "\($0)" } == [
                "broker-admin", "client", "dynsec-admin", "super-admin", "sys-notify", "sys-observe", "topic-observe",
            ])
        #expect(model.clients.names == ["admin", "democlient"])
        #expect(model.anonymousGroup == "unauthenticated")
    }
}
