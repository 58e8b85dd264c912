import BrokerModel
import MQTTCodec
import Testing

@testable import Security

/// An access file that is edited, and what decides by it.
@Suite struct AccessFileEditTests {
    private static let text = """
        # who may what
        topic read public/#

        # Anna
        user anna
        topic home/anna/#
        # not the safe
        topic deny home/anna/safe
        pattern write devices/%c/#
        user bob
        topic read with some space
        """

    private func edit(_ text: String = Self.text) -> AccessFileEdit { AccessFileEdit(Array(text.utf8)) }

    private func lines(_ file: AccessFileEdit) -> [String] {
        String(decoding: file.bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    @Test func `rules are found with their subjects as the broker reads them`() {
        let entries = edit().entries
        #expect(entries.map(\.line) == [2, 6, 8, 9, 11])
        #expect(entries.map(\.rule.subject) == [.anonymous, .user("anna"), .user("anna"), .everybody, .user("bob")])
        #expect(entries.map(\.rule.access) == ["read", "readwrite", "deny", "write", "read"])
        #expect(entries.map(\.rule.topic) == ["public/#", "home/anna/#", "home/anna/safe", "devices/%c/#", "with some space"])
    }

    @Test func `a new rule stands behind those of its subject, and all else stays as it is`() throws {
        var file = edit()
        #expect(try file.add(.init(.user("anna"), access: "read", topic: "news/#")) == 9)
        #expect(lines(file)[8] == "topic read news/#")
        #expect(try file.add(.init(.anonymous, access: "write", topic: "box")) == 3)
        #expect(try file.add(.init(.user("carl"), access: "readwrite", topic: "#")) == lines(file).count - 1)
        #expect(lines(file).suffix(4) == ["", "user carl", "topic readwrite #", ""])
        let kept = lines(file).filter {
            !["topic read news/#", "topic write box", "", "user carl", "topic readwrite #"].contains($0)
        }
        #expect(kept == Self.text.split(separator: "\n").map(String.init))
        let read = try AccessControlFile(file.bytes, file: "acl")
        #expect(read.control.policy(userName: "carl", clientIdentifier: "c").explanation(of: .publish, topic: "x/y").isAllowed)
        #expect(read.control.policy(userName: nil, clientIdentifier: "c").explanation(of: .publish, topic: "box").isAllowed)
    }

    @Test func `what a rule asks beside its topic is shown apart, and can be changed`() throws {
        var file = edit("topic write,qos<=1,from=10.0.0.0/8 a b\ntopic strange,x\n")
        #expect(file.entries.map(\.rule.access) == ["write", "readwrite"])
        #expect(file.entries.map(\.rule.conditions) == ["qos<=1,from=10.0.0.0/8", ""])
        try file.change(
            line: 1, from: "topic write,qos<=1,from=10.0.0.0/8 a b", access: "readwrite", conditions: "retain=no", topic: "a b")
        #expect(lines(file)[0] == "topic readwrite,retain=no a b")
        #expect(throws: AccessFileEdit.Complaint.self) {
            try file.add(.init(.anonymous, access: "read", conditions: "qos=1", topic: "a"))
        }
        #expect(throws: AccessFileEdit.Complaint.self) {
            try file.add(.init(.anonymous, access: "write", conditions: "qos=1 x", topic: "a"))
        }
        _ = try file.add(.init(.anonymous, access: "deny", conditions: "from=::1", topic: "a"))
        #expect(lines(file)[2] == "topic deny,from=::1 a")
    }

    @Test func `the first anonymous rule stands before the users and their comment`() throws {
        var file = edit("# Anna\nuser anna\ntopic a\n")
        #expect(try file.add(.init(.anonymous, access: "read", topic: "b")) == 1)
        #expect(lines(file) == ["topic read b", "# Anna", "user anna", "topic a", ""])
        var empty = edit("")
        #expect(try empty.add(.init(.everybody, access: "read", topic: "u/%u")) == 1)
    }

    @Test func `a rule is changed and removed only as it was seen`() throws {
        var file = edit()
        try file.change(line: 8, from: "topic deny home/anna/safe", access: "read", topic: "home/anna/safe")
        #expect(lines(file)[7] == "topic read home/anna/safe")
        #expect(throws: AccessFileEdit.Complaint.moved) { try file.remove(line: 8, text: "topic deny home/anna/safe") }
        #expect(throws: AccessFileEdit.Complaint.moved) { try file.remove(line: 5, text: "user anna") }
        try file.remove(line: 9, text: "pattern write devices/%c/#")
        #expect(file.entries.map(\.line) == [2, 6, 8, 10])
    }

    @Test(arguments: ["a\ntopic write #", "a\r", "", " a", "a ", "a\u{0}"])
    func `nothing that would be another line or another name is written`(_ text: String) {
        var file = edit()
        #expect(throws: AccessFileEdit.Complaint.unwritable) { _ = try file.add(.init(.anonymous, access: "read", topic: text)) }
        #expect(throws: AccessFileEdit.Complaint.unwritable) { _ = try file.add(.init(.user(text), access: "read", topic: "a")) }
        #expect(throws: AccessFileEdit.Complaint.unknownAccess) { _ = try file.add(.init(.anonymous, access: "all", topic: "a")) }
        #expect(lines(file).dropLast() == Self.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)[...])
    }

    @Test func `the line that decides is named`() throws {
        let control = try AccessControlFile(Array(Self.text.utf8), file: "/etc/acl").control
        let anna = control.policy(userName: "anna", clientIdentifier: "d1")
        func says(_ action: AccessAction, _ topic: TopicName, _ policy: AccessPolicy) -> AccessExplanation {
            policy.explanation(of: action, topic: topic)
        }
        #expect(says(.publish, "home/anna/x", anna) == AccessExplanation(isAllowed: true, decider: .line(6), file: "/etc/acl"))
        #expect(says(.receive, "home/anna/safe", anna) == AccessExplanation(isAllowed: false, decider: .line(8), file: "/etc/acl"))
        #expect(says(.publish, "devices/d1/x", anna).decider == .line(9))
        #expect(says(.publish, "devices/d2/x", anna).decider == .noLine && !says(.publish, "devices/d2/x", anna).isAllowed)
        #expect(says(.receive, "public/x", control.policy(userName: nil, clientIdentifier: "c")).decider == .line(2))
        #expect(anna.explanation(ofSubscribing: "home/#").decider == .line(6))
        #expect(
            anna.explanation(ofSubscribing: "home/anna/safe")
                == AccessExplanation(isAllowed: false, decider: .line(8), file: "/etc/acl"))
        #expect(anna.explanation(ofSubscribing: "other/#").decider == .noLine)
    }

    @Test func `users of a password file are named with their lines and kinds of hash`() throws {
        let entry = try PasswordScheme.sha512.entry(for: Array("x".utf8))
        let file = CredentialFile(Array("# users\nanna:\(entry)\n\nbob:$7$101$AAAA$BBBB\n".utf8))
        #expect(file.users.map(\.name) == ["anna", "bob"])
        #expect(file.users.map(\.line) == [2, 4])
        #expect(file.users.map(\.scheme) == ["sha512", "unknown"])
    }
}
