import Testing

@testable import Configuration

/// A `connection` section that stands in no file.
@Suite struct BridgeSectionTests {
    private func section(_ options: KeyValuePairs<String, [String]?>) throws -> BridgeSection {
        var section = try BridgeSection(name: "b")
        for (name, values) in options { try section.set(name, to: values) }
        return section
    }

    private func complaint(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test func `it says what the same lines of a file say`() throws {
        let section = try section([
            "topic": ["a/# both 1 l/ r/", "b"], "clientid": ["me"], "address": ["h:1884", "unix:/s"],
            "bridge_protocol_version": ["mqttv50"],
            "remote_password": [" s e c "], "username": ["u"], "martlet_bridge_queue_drop": ["oldest"],
        ])
        let file = read(
            """
            connection b
            address h:1884
            address unix:/s
            topic a/# both 1 l/ r/
            topic b
            bridge_protocol_version mqttv50
            remote_clientid me
            remote_username u
            remote_password s e c
            martlet_bridge_queue_drop oldest
            """)
        let found = section.read()
        #expect([found.bridge] == file.configuration.bridges && found.diagnostics.isEmpty)
        #expect(
            section.lines.map(\.name) == [
                "address", "topic", "bridge_protocol_version", "remote_clientid", "remote_username", "remote_password",
                "martlet_bridge_queue_drop",
            ], "in the order of the table")
        #expect(section.lines.filter(\.isSecret).map(\.name) == ["remote_password"])
    }

    @Test func `an option is changed and taken away`() throws {
        var section = try section(["address": ["a"], "topic": ["x", "y"], "keepalive_interval": ["17"]])
        try section.set("topic", to: ["z"])
        try section.set("keepalive_interval", to: nil)
        try section.set("addresses", to: ["b"])
        #expect(section == (try self.section(["topic": ["z"], "address": ["b"]])))
    }

    @Test func `what is wrong with a value is said as of a file, without a place`() throws {
        let diagnostics = try section(["address": ["h:0"], "keepalive_interval": ["70000 x"], "remote_password": ["p"]]).read()
            .diagnostics
        #expect(
            diagnostics.map(\.description) == [
                #"Error: address: found "h:0", expected HOST or HOST:PORT."#,
                #"Warning: keepalive_interval: the rest of the line, "x", is ignored."#,
                #"Error: keepalive_interval: found "70000", expected a number from 5 to 65535."#,
                "Error: connection: the bridge has no address.", "Warning: connection: the bridge has no topic.",
                "Error: connection: remote_password needs remote_username too.",
            ])
    }

    @Test(arguments: [
        ("adress", ["h"], "Unknown configuration variable 'adress'. Did you mean address?"),
        ("listener", ["1883"], "listener: it is no option of a bridge."),
        ("connection", ["c"], "connection: it is no option of a bridge."),
        ("max_qos", ["1"], "max_qos: it is no option of a bridge."),
        ("start_type", ["once", "lazy"], "start_type: it is given more than once."),
        ("topic", ["a", " "], "Empty topic value in configuration; expected topic PATTERN"),
        ("remote_username", ["a\nlistener 1883"], "remote_username: the line holds the control character U+000A."),
        ("topic", [String(repeating: "a", count: 65_536)], "topic: the value is longer than 65535 bytes."),
    ])
    func `what no section may hold is refused`(option: String, values: [String], words: String) throws {
        var section = try BridgeSection(name: "b")
        #expect(complaint { try section.set(option, to: values) }?.hasPrefix(words) == true)
        #expect(section.lines.isEmpty)
    }

    @Test(arguments: ["", " b", "a\nb", String(repeating: "b", count: 256)])
    func `a name is short and printable`(name: String) {
        #expect(complaint { _ = try BridgeSection(name: name) }?.hasPrefix("the name of a bridge has 1 to 255 bytes") == true)
    }
}
