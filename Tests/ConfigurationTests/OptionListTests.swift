import Testing

@testable import Configuration

/// Tests/options.txt, from which `.ci/options` makes the table of options and their tests.
@Suite struct OptionListTests {
    /// Each option with what the list says becomes of it.
    private let listed: [String: String]

    init() throws {
        let source = #filePath.split(separator: "/", omittingEmptySubsequences: false)
        let text = try DiskFiles().contents(
            ofFile: source.dropLast(2).joined(separator: "/") + "/options.txt", bytesMax: 1 << 20)
        let rows = String(decoding: text, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }.map {
            $0.split(separator: " ")
        }
        listed = Dictionary(uniqueKeysWithValues: rows.map { (String($0[0]), String($0[2])) })
    }

    @Test func `the list names every option and no other`() {
        #expect(listed.keys.sorted() == ConfigurationOption.all.map(\.name).sorted())
    }

    @Test func `what the table calls without effect, and nothing else, the list calls warned of`() {
        // They are warned of when their values, or the lines beside them, ask for it.
        let others: Set = ["set_tcp_nodelay"]
        for option in ConfigurationOption.all {
            var isWithoutEffect = others.contains(option.name)
            if case .withoutEffect = option.status { isWithoutEffect = true }
            #expect((listed[option.name] == "warned") == isWithoutEffect, "\(option.name)")
        }
    }

    @Test func `only options of bridges are without effect and without a warning`() {
        let silent = ConfigurationOption.all.filter { listed[$0.name] == "ignored" }
        #expect(silent.allSatisfy { $0.section == .bridge })
    }
}
