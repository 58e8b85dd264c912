import Testing

@testable import Security

@Suite struct PreSharedKeyFileTests {
    @Test func `identities and their keys are read`() throws {
        let file = try PreSharedKeyFile(Array("# keys\nanna:00ff10\n\nbob : ABCDEF \nodd:f01\nno colon here\n".utf8), file: "psk")
        #expect(
            file.warnings.map(\.description) == ["psk:6: the line has no colon between an identity and a key, and is passed over."])
        #expect(file.count == 3)
        #expect(file.key(for: Array("anna".utf8)) == [0x00, 0xff, 0x10])
        #expect(file.key(for: Array("bob".utf8)) == [0xab, 0xcd, 0xef])
        #expect(file.key(for: Array("odd".utf8)) == [0x0f, 0x01])
        #expect(file.key(for: Array("carl".utf8)) == nil)
    }

    @Test func `all that is wrong is told, and no key with it`() throws {
        let long = String(repeating: "ab", count: 513)
        let error = try #require(throws: SecurityFileError.self) {
            try PreSharedKeyFile(Array("a:\n:00\nb:xyzzy\nc:00\nc:11\nd:\(long)".utf8), file: "psk")
        }
        #expect(error.problems.map(\.line) == [1, 2, 3, 5, 6])
        #expect(!error.description.contains("xyzzy"))
    }
}
