import MQTTCodec
import Testing

@testable import Security

@Suite struct CredentialFileTests {
    private let text = "# ours\nanna:a\n\nbob : b \nno colon\nanna:again"

    @Test func `a user's line is replaced where it stands, and a new one comes last`() throws {
        var file = CredentialFile(Array(text.utf8))
        #expect(file.contains("anna") && file.contains("bob") && !file.contains("ann") && !file.contains("# ours"))
        try file.set("bob", to: "B")
        try file.set("carl", to: "C")
        #expect(String(decoding: file.bytes, as: UTF8.self) == "# ours\nanna:a\n\nbob:B\nno colon\nanna:again\ncarl:C\n")
        try file.set("anna", to: "A")
        #expect(String(decoding: file.bytes, as: UTF8.self) == "# ours\nanna:A\n\nbob:B\nno colon\ncarl:C\n")
    }

    @Test func `a byte order mark belongs to no user's name`() throws {
        var file = CredentialFile(Array("\u{FEFF}anna:a\n".utf8))
        #expect(file.contains("anna"))
        try file.set("anna", to: "A")
        #expect(String(decoding: file.bytes, as: UTF8.self) == "anna:A\n")
    }

    @Test(arguments: ["anna:a\r\r\nbob:b\r\n", "anna:a\n\r\r", "\r\r\n\r", "anna:a\n\n\n"])
    func `a file that was written once is read as it was written`(text: String) {
        let written = CredentialFile(Array(text.utf8)).bytes
        #expect(CredentialFile(written).bytes == written)
    }

    @Test func `a user that is removed is gone with every line`() {
        var file = CredentialFile(Array(text.utf8))
        let first = file.remove("anna")
        let second = file.remove("anna")
        #expect(first && !second)
        #expect(String(decoding: file.bytes, as: UTF8.self) == "# ours\n\nbob : b \nno colon\n")
    }

    @Test(arguments: ["", "a:b", "#a", " a", "a ", "a\nb", "a\rb", "a\0b", String(repeating: "x", count: 65_536)])
    func `names that no file can hold are refused`(name: String) {
        var file = CredentialFile()
        #expect(throws: CredentialFile.NameComplaint.self) { try file.set(name, to: "x") }
        #expect(file.bytes.isEmpty)
    }

    @Test func `plain passwords are hashed and hashes are left alone`() throws {
        let hash = try PasswordScheme.sha512.entry(for: [1])
        let scram = try PasswordScheme.scramSHA256.entry(for: Array("x".utf8))
        var file = CredentialFile(Array("# a:b\nanna:plain\nbob:\(hash)\r\ncarl:\(scram)\ndora:\n:x\n".utf8))
        var seen: [[UInt8]] = []
        let count = file.hashPlainPasswords { password in
            seen.append(password)
            return "HASHED"
        }
        #expect(count == 1 && seen == [Array("plain".utf8)])
        #expect(String(decoding: file.bytes, as: UTF8.self) == "# a:b\nanna:HASHED\nbob:\(hash)\ncarl:\(scram)\ndora:\n:x\n")
    }

    @Test func `without memory for a hash nothing changes`() {
        var file = CredentialFile(Array("anna:plain\n".utf8))
        #expect(throws: PasswordScheme.Refusal.noMemory) {
            try file.hashPlainPasswords { _ throws(PasswordScheme.Refusal) in throw .noMemory }
        }
        #expect(String(decoding: file.bytes, as: UTF8.self) == "anna:plain\n")
    }

    @Test(arguments: PasswordScheme.allCases)
    func `what a scheme makes is read back by the file that it is for`(scheme: PasswordScheme) throws {
        let iterations = scheme == .argon2id ? 1 : nil
        var file = CredentialFile()
        try file.set("anna", to: scheme.entry(for: Array("x".utf8), iterations: iterations))
        if scheme == .scramSHA256 {
            #expect(try ScramFile(file.bytes, file: "scram").count == 1)
        } else {
            let users = try PasswordFile(file.bytes, file: "users")
            #expect(users.matches(user: "anna", password: Array("x".utf8)) == true)
            #expect(users.matches(user: "anna", password: Array("y".utf8)) == false)
        }
    }
}
