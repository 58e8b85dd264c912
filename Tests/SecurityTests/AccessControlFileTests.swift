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
