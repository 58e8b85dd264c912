import Testing

@testable import Security

/// Lists of addresses, as they are published.
@Suite struct AddressListFileTests {
    private func read(_ text: String) throws(SecurityFileError) -> AddressListFile<String> {
        try AddressListFile(Array(text.utf8), file: "list") { $0.hasPrefix("10.") || $0.hasPrefix("2001:") ? $0 : nil }
    }

    @Test func `each line has a network, and what follows a number sign or a semicolon is a comment`() throws {
        let list = try read("# DROP\n; of today\n10.0.0.0/8 ; SBL1\n\n  10.1.1.1\t# here\r\n2001:db8::/32\n")
        #expect(list.networks == ["10.0.0.0/8", "10.1.1.1", "2001:db8::/32"])
        #expect(list.warnings.isEmpty)
    }

    @Test func `all that is wrong is told at once, with file and line`() throws {
        let error = try #require(throws: SecurityFileError.self) { try read("10.0.0.1\nhome.example\n10.0.0.2 10.0.0.3\n\u{1}\n") }
        #expect(error.problems.map(\.line) == [2, 4])
        #expect(error.description.hasPrefix("list:2: found \"home.example\", expected an IPv4 or IPv6 address or network"))
    }

    @Test func `a list without a network is remarked on`() throws {
        #expect(try read("# nothing\n").warnings.map(\.message) == ["the file has no network."])
    }
}
