import Configuration
import Testing

/// Bridges of 3.1.1 that carry messages round, said when the configuration is read.
@Suite struct BridgeLoopTests {
    private static let listener = "listener 1883\nallow_anonymous true\n"

    private func loops(_ text: String) -> [String] {
        read(Self.listener + text).texts.filter { $0.contains("for ever") }
    }

    private func bridge(_ name: String, _ address: String, _ lines: String...) -> String {
        (["connection \(name)", "address \(address)"] + lines).joined(separator: "\n") + "\n"
    }

    @Test func `a bridge to the broker itself is told with its lines and what to do`() {
        #expect(
            loops(bridge("b", "127.0.0.1", "topic # both 1")) == [
                "Warning: m.conf:3: connection: 127.0.0.1:1883 is this broker itself, and messages of \"topic # both 1\" (line 5, line 1) "
                    + "come back and are forwarded again, for ever. With bridge_protocol_version mqttv50 the loop is detected and ends."
            ])
    }

    @Test(arguments: [
        "topic # out", "topic # in", "topic # out 0 \"\" copy/", "topic a/+ both", "topic a/# out 0 \"\" a/",
        "topic x/# out\ntopic x/y both",
        "topic # out 0 a/ b/\ntopic # out 0 b/ a/",
    ])
    func `what comes back to where it was taken goes round`(topics: String) {
        #expect(loops(bridge("b", "localhost:1883", topics)).count == 1)
    }

    @Test(arguments: [
        "topic a/# out 0 \"\" copy/", "topic # out 0 a/ b/", "topic a out 0 \"\" b/\ntopic b/a out 0 \"\" c/",
        "topic $SYS/# out 0 \"\" far/",
        "topic a/# both\nbridge_protocol_version mqttv50",
    ])
    func `what ends is not told of`(topics: String) {
        #expect(loops(bridge("b", "localhost:1883", topics)) == [])
    }

    @Test(arguments: ["example.org", "192.0.2.1", "127.0.0.1:1884", "[::1]:1884"])
    func `a bridge to somewhere else, be it both ways, is not told of`(address: String) {
        #expect(loops(bridge("b", address, "topic # both")) == [])
    }

    @Test func `two bridges to one other broker are told of, unless their topics keep apart or all messages say their way`() {
        let there = "example.org"
        let found = loops(bridge("a", there, "topic # out") + bridge("b", there, "topic # in"))
        #expect(found.count == 1)
        #expect(found[0].contains("m.conf:3: connection: example.org:1883 is also the address of bridge b"))
        #expect(found[0].contains("\"topic # out 0\" and \"topic # in 0\" (line 5, line 8)"))
        #expect(loops(bridge("a", there, "topic # both") + bridge("b", there, "topic # both")).count == 1)
        #expect(loops(bridge("a", there, "topic x/# out") + bridge("b", there, "topic y/# in")) == [])
        #expect(loops(bridge("a", there, "topic # out") + bridge("b", there, "topic # out")) == [])
        #expect(loops(bridge("a", there, "topic # out") + bridge("b", "example.com", "topic # in")) == [])
        let v5 = "bridge_protocol_version mqttv50"
        #expect(loops(bridge("a", there, "topic # out", v5) + bridge("b", there, "topic # in", v5)) == [])
        // Each leg of 3.1.1 forgets what messages have said before.
        #expect(loops(bridge("a", there, "topic # out", v5) + bridge("b", there, "topic # in")).count == 1)
        #expect(
            loops(bridge("a", there, "topic # both", v5, "martlet_bridge_path false") + bridge("b", there, "topic # both", v5))
                .count == 1)
    }

    @Test func `a broker that many bridges with many lines lead from is read at once`() {
        let lines = (0..<60).map { "topic t\($0)/# both" }.joined(separator: "\n")
        #expect(loops((0..<50).map { bridge("b\($0)", "h\($0).example.org", lines) }.joined()) == [])
        #expect(loops((0..<50).map { bridge("b\($0)", "one.example.org", lines) }.joined()) == [])
    }
}
