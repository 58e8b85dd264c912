import Configuration
import Testing

/// Every row of the table is refused when its value is wrong, with its name and what was expected: none can be
/// forgotten.
@Suite struct EveryOptionRefusedTests {
    /// What stands above the line, so that it is where it belongs.
    private func above(_ option: ConfigurationOption) -> String {
        switch option.section {
        case .global, .listenerOrGlobal: ""
        case .security: option.name.hasSuffix("opt_") ? "plugin mosquitto_acl_file.so\n" : ""
        case .listener: "listener 1\n"
        case .bridge: "connection b\naddress h\ntopic #\n"
        }
    }

    private func name(_ option: ConfigurationOption) -> String {
        option.name.hasSuffix("_") ? option.name + "acl_file" : option.name
    }

    /// What is said of the last line.
    private func errors(_ option: ConfigurationOption, _ value: String) -> [String] {
        let lines = above(option) + "\(name(option)) \(value)"
        let number = lines.split(separator: "\n").count
        return read("# above it\n" + lines).diagnostics
            .filter { $0.severity == .error && $0.line == number + 1 }.map(\.description)
    }

    @Test(arguments: ConfigurationOption.all) func `an option without a value is refused by name`(_ option: ConfigurationOption) {
        let found = errors(option, "")
        #expect(
            found.count == 1
                && found[0].hasSuffix(
                    ": \(name(option)): Empty \(name(option)) value in configuration; expected \(name(option)) \(option.shape)."),
            "\(found)")
    }

    @Test(arguments: ConfigurationOption.all.filter { $0.shape == "true|false" && !isIgnored($0) })
    func `a switch takes true, false, 1 and 0 alone`(_ option: ConfigurationOption) {
        for value in ["yes", "TRUE", "on", "2", "-1"] {
            let found = errors(option, value)
            #expect(
                found.count == 1 && found[0].hasSuffix("\(option.name): found \"\(value)\", expected true or false."), "\(found)")
        }
        for value in ["true", "false", "1", "0"] { #expect(errors(option, value) == []) }
    }

    @Test(arguments: ConfigurationOption.all.filter { range($0) != nil && !isIgnored($0) })
    func `a number keeps to its range`(_ option: ConfigurationOption) throws {
        let (least, most) = try #require(Self.range(option))
        // As in mosquitto, what is too low for a bridge is raised.
        let isRaised = ["keepalive_interval", "threshold", "idle_timeout"].contains(option.name)
        if isRaised { #expect(errors(option, "\(least - 1)") == []) }
        for value in (isRaised ? [] : ["\(least - 1)"]) + ["\(most + 1)", "many", "1.5", "0x10"] {
            let found = errors(option, value)
            #expect(found.count == 1 && found[0].contains("\(option.name): found \"\(value)\", expected "), "\(found)")
            #expect(found.first?.contains("\(least)") ?? false, "\(found)")
        }
        for value in [least, most] { #expect(errors(option, "\(value)") == []) }
    }

    @Test(arguments: ConfigurationOption.all.filter { isChoice($0) && !isIgnored($0) })
    func `a choice names what there is to choose from`(_ option: ConfigurationOption) {
        let found = errors(option, "nonsense")
        #expect(found.count == 1 && found[0].contains("\(option.name): found \"nonsense\", expected "), "\(found)")
        for word in option.shape.split(separator: "|").map({ $0.split(separator: " ")[0] }) {
            #expect(found.first?.contains(word) ?? false, "\(word) in \(found)")
        }
    }

    @Test(arguments: ConfigurationOption.all.filter { isText($0) })
    func `a text is given once`(_ option: ConfigurationOption) {
        let value = option.shape == "HEX" ? "ab" : "a"
        let lines = above(option) + "\(option.name) \(value)\n\(option.name) \(value)"
        let found = read(lines).texts.filter { $0.hasPrefix("Error") && $0.contains("Duplicate") }
        #expect(
            found.count == 1 && found[0].contains("\(option.name): Duplicate \(option.name) value in configuration"), "\(found)")
    }

    private static func isIgnored(_ option: ConfigurationOption) -> Bool {
        if case .withoutEffect = option.status { true } else { false }
    }

    /// Of a shape such as `0 to 65535`.
    private static func range(_ option: ConfigurationOption) -> (least: Int, most: Int)? {
        let words = option.shape.split(separator: " ")
        guard words.count == 3, words[1] == "to", let least = Int(words[0]), let most = Int(words[2]) else { return nil }
        return (least, most)
    }

    private static func isChoice(_ option: ConfigurationOption) -> Bool {
        option.shape.contains("|") && option.shape != "true|false" && !option.shape.contains("[")
            && option.shape.first?.isLowercase == true
    }

    private static func isText(_ option: ConfigurationOption) -> Bool {
        !option.isRepeatable && option.shape.allSatisfy { $0.isUppercase }
    }
}
