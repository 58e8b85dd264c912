import MQTTCodec
import Testing

@testable import Security

/// Files as Windows' editors save them: the mark in front of the first line belongs to nobody's name.
@Suite struct ByteOrderMarkTests {
    private func marked(_ text: String) -> [UInt8] { Array("\u{FEFF}\(text)\n".utf8) }

    private func expectRemark(_ warnings: [SecurityFileProblem]) {
        #expect(
            warnings.map(\.description) == [
                "f:1: the file begins with a byte order mark; mosquitto would not read its first line."
            ])
        #expect(warnings.allSatisfy { $0.severity == .warning })
    }

    @Test func `the first user of a password file logs in`() throws {
        let hash = try #require(PasswordRecipe.pbkdf2(iterations: 1).hash(of: Array("a".utf8))?.text)
        let file = try PasswordFile(marked("anna:\(hash)"), file: "f")
        #expect(file.matches(user: "anna", password: Array("a".utf8)) == true)
        expectRemark(file.warnings)
    }

    @Test func `the first line of rules, keys and SCRAM entries counts`() throws {
        let rules = try AccessControlFile(marked("user anna"), file: "f")
        expectRemark(rules.warnings)
        let keys = try PreSharedKeyFile(marked("sensor:01"), file: "f")
        #expect(keys.key(for: Array("sensor".utf8)) == [1])
        expectRemark(keys.warnings)
        let users = try ScramFile(marked("# none"), file: "f")
        #expect(users.count == 0)
        expectRemark(users.warnings)
        #expect(try PreSharedKeyFile(Array("sensor:01\n".utf8), file: "f").warnings == [])
    }
}
