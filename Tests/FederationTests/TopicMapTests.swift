import Testing

@testable import Federation

/// What topics are called on either side of a bridge.
@Suite struct TopicMapTests {
    private func out(_ topic: String, _ lines: BridgedTopic...) -> String? {
        renamed(topic) { TopicMap(lines).out($0) }
    }

    private func into(_ topic: String, _ lines: BridgedTopic...) -> String? {
        renamed(topic) { TopicMap(lines).in($0) }
    }

    private func renamed(_ topic: String, _ find: (UnsafeRawBufferPointer) -> TopicMap.Renaming?) -> String? {
        Array(topic.utf8).withUnsafeBytes { bytes in
            find(bytes).map { $0.withName(of: bytes) { String(decoding: $0, as: UTF8.self) } }
        }
    }

    @Test func `prefixes are exchanged, each way the other`() {
        let line = BridgedTopic("temperature/#", .both, localPrefix: "house/", remotePrefix: "site/7/")
        #expect(out("house/temperature/hall", line) == "site/7/temperature/hall")
        #expect(into("site/7/temperature/hall", line) == "house/temperature/hall")
        #expect(out("house/humidity", line) == nil)
        #expect(into("house/temperature/hall", line) == nil)
    }

    @Test func `a line goes only the way that it says`() {
        #expect(out("a", BridgedTopic("#", .in)) == nil)
        #expect(into("a", BridgedTopic("#", .out)) == nil)
        #expect(out("a", BridgedTopic("#", .out)) == "a")
        #expect(into("a", BridgedTopic("#", .in)) == "a")
    }

    @Test func `an empty pattern names one topic on either side`() {
        let line = BridgedTopic("", .both, localPrefix: "here/one", remotePrefix: "there/other")
        #expect(out("here/one", line) == "there/other")
        #expect(into("there/other", line) == "here/one")
        #expect(out("here/one/more", line) == nil)
    }

    @Test func `the first line with a prefix that matches decides, whatever stands before it without one`() {
        let lines = [
            BridgedTopic("#", .out), BridgedTopic("a/#", .out, remotePrefix: "x/"), BridgedTopic("a/b", .out, remotePrefix: "y/"),
        ]
        #expect(out("a/b", lines[0], lines[1], lines[2]) == "x/a/b")
        #expect(out("c", lines[0], lines[1], lines[2]) == "c")
    }

    @Test func `a prefix before # has the topic above it cross too, if there is one above the other prefix`() {
        let line = BridgedTopic("#", .both, localPrefix: "a/b/", remotePrefix: "r/")
        #expect(out("a/b", line) == "r")
        #expect(out("a/b/", line) == "r/")
        #expect(into("r", line) == "a/b")
        for prefix in ["", "/", "r-"] { #expect(out("a", BridgedTopic("#", .out, localPrefix: "a/", remotePrefix: prefix)) == nil) }
        #expect(out("a", BridgedTopic("a/#", .out)) == "a")
        #expect(out("l/a", BridgedTopic("a/#", .out, localPrefix: "l/", remotePrefix: "r/")) == "r/a")
    }

    @Test func `filters match as those of subscriptions do`() {
        for (filter, topic, matches) in [
            ("a/#", "a", true), ("a/#", "a/b/c", true), ("a/#", "ab", false), ("a/+", "a", false), ("a/+", "a/", true),
            ("a/+/c", "a/b/c", true), ("a/+/c", "a/b/d", false), ("+/+", "/x", true), ("#", "$SYS/x", false),
            ("+/x", "$SYS/x", false),
            ("$SYS/#", "$SYS/x", true), ("a", "a", true), ("a", "a/", false), ("a/", "a", false), ("", "a", false), ("+", "", true),
            ("a/b/#", "a", false), ("+/#", "a", true),
        ] {
            let found = Array(topic.utf8).withUnsafeBytes { TopicMap.matches(Array(filter.utf8), $0) }
            #expect(found == matches, "\(filter) \(topic)")
        }
    }

    /// Else who may write `out/#` would command the other broker with the bridge's rights.
    @Test(arguments: ["$CONTROL/dynamic-security/v1", "$SYS/broker/version", "$share/g/x", "$", "$x"])
    func `taking a prefix away makes no name that begins with a dollar sign`(_ name: String) {
        let bare = BridgedTopic("#", .both, localPrefix: "out/", remotePrefix: "")
        #expect(isReserved("out/" + name, bare) { $0.out($1) } == true)
        #expect(isReserved("out/a/" + name, bare) { $0.out($1) } == false)
        let inward = BridgedTopic("#", .both, localPrefix: "", remotePrefix: "in/")
        #expect(isReserved("in/" + name, inward) { $0.in($1) } == true)
        let single = BridgedTopic("+/#", .out, localPrefix: "out/")
        #expect(isReserved("out/" + name, single) { $0.out($1) } == true)
    }

    @Test func `a name begins with a dollar sign if the line says so, or the topic did before`() {
        let given = BridgedTopic("#", .out, localPrefix: "out/", remotePrefix: "$SYS/site/")
        #expect(isReserved("out/a", given) { $0.out($1) } == false && out("out/a", given) == "$SYS/site/a")
        let named = BridgedTopic("$SYS/#", .in, remotePrefix: "site/")
        #expect(isReserved("site/$SYS/a", named) { $0.in($1) } == false && into("site/$SYS/a", named) == "$SYS/a")
        let same = BridgedTopic("$SYS/#", .out)
        #expect(isReserved("$SYS/a", same) { $0.out($1) } == false)
        #expect(isReserved("out/$share/g/x", BridgedTopic("$share/g/x", .out, localPrefix: "out/")) { $0.out($1) } == true)
    }

    private func isReserved(
        _ topic: String, _ line: BridgedTopic, _ find: (TopicMap, UnsafeRawBufferPointer) -> TopicMap.Renaming?
    ) -> Bool? {
        Array(topic.utf8).withUnsafeBytes { find(TopicMap([line]), $0)?.isReserved }
    }
}
