import MQTTCodec
import Testing

@testable import Cluster

struct SubjectSpaceTests {
    private let space = SubjectSpace(cluster: "c")

    private func subject(_ topic: String) -> String? {
        var subject: [UInt8] = []
        let isNamed = Array(topic.utf8).withUnsafeBytes { space.write(topic: $0, to: &subject) }
        return isNamed ? String(decoding: subject, as: UTF8.self) : nil
    }

    private func topic(_ subject: String) -> String? {
        var topic: [UInt8] = []
        let isTopic = Array(subject.utf8).withUnsafeBytes { space.read(subject: $0, topic: &topic) }
        return isTopic ? String(decoding: topic, as: UTF8.self) : nil
    }

    private func subjects(_ filter: String) -> [String] {
        space.subjects(of: Array(filter.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(arguments: [
        ("a/b", "martlet.c.t.a.b"), ("a", "martlet.c.t.a"), ("/", "martlet.c.t.%.%"), ("a//b/", "martlet.c.t.a.%.b.%"),
        ("a.b/*/>", "martlet.c.t.a%2Eb.%2A.%3E"), ("100% \t\u{7F}", "martlet.c.t.100%25%20%09%7F"), ("é/Ω", "martlet.c.t.é.Ω"),
        ("$x/y", "martlet.c.d.$x.y"), ("a/$x", "martlet.c.t.a.$x"), ("%", "martlet.c.t.%25"),
    ])
    func `each topic has one subject, and is read from it`(_ name: String, _ expected: String) {
        #expect(subject(name) == expected)
        #expect(topic(expected) == name)
    }

    @Test(arguments: [
        "martlet.c.t", "martlet.c.t.", "martlet.d.t.a", "martlet.c.t.%2", "martlet.c.t.%2g", "martlet.c.t.%%", "martlet.c.o", "",
        "martlet.c.t.$x", "martlet.c.d.x",
    ])
    func `what is no topic's subject is not read as one`(_ subject: String) {
        #expect(topic(subject) == nil)
    }

    @Test(arguments: [
        ("martlet.c.t.a", true), ("martlet.c.d.$x.y", true), ("martlet.c.o", true), ("martlet.c.t", false), ("martlet.c.oo", false),
        ("martlet.c.o.x", false), ("martlet.b.t.a", false), ("martlet.c.l.0", false), ("martlet.c.n.0000000000000001.f", false),
        ("martlet.c.r.t.a", false), ("_INBOX.martlet.c.t.a", false), ("", false),
    ])
    func `what clients publish is told from all else by its subject`(_ subject: String, isTopics: Bool) {
        #expect(Array(subject.utf8).withUnsafeBytes { space.isTopics($0) } == isTopics)
    }

    @Test(arguments: [
        ("a/b", ["martlet.c.t.a.b"]), ("a/+/c", ["martlet.c.t.a.*.c"]), ("a/#", ["martlet.c.t.a", "martlet.c.t.a.>"]),
        ("#", ["martlet.c.t.>"]), ("+/#", ["martlet.c.t.*", "martlet.c.t.*.>"]), ("$x/#", ["martlet.c.d.$x", "martlet.c.d.$x.>"]),
        ("/+", ["martlet.c.t.%.*"]),
    ])
    func `each filter has the subjects of all its topics`(_ filter: String, _ expected: [String]) {
        #expect(subjects(filter) == expected)
    }

    /// As the engine matches.
    private func matches(_ pattern: String, _ subject: String) -> Bool {
        let wanted = pattern.split(separator: ".", omittingEmptySubsequences: false)
        let found = subject.split(separator: ".", omittingEmptySubsequences: false)
        for (index, token) in wanted.enumerated() {
            if token == ">" { return found.count > index }
            guard index < found.count, token == "*" || token == found[index] else { return false }
        }
        return wanted.count == found.count
    }

    @Test func `the engine matches subjects as MQTT matches topics`() {
        let topics = SmallTexts.topics(levels: ["a", "", "$s"])
        for filter in SmallTexts.filters(levels: ["a", "", "$s"]) {
            let patterns = subjects(filter.description)
            for topic in topics {
                guard let subject = subject(topic.description) else { continue }
                let isMatched = patterns.contains { matches($0, subject) }
                #expect(isMatched == filter.matches(topic), "\(filter) and \(topic)")
            }
        }
    }

    @Test func `a topic that is too long for a subject goes to the overflow, and no filter asks for more than a line holds`() {
        let prefix = "martlet.c.t.".count
        for (topic, isNamed) in [("a", true), ("aa", false), ("*", false)] {
            #expect((subject(String(repeating: "a", count: 3499 - prefix) + topic) != nil) == isNamed)
        }
        let longest = String(repeating: "a", count: 3498 - prefix)
        for (filter, count) in [("/#", 2), ("a/#", 1), ("aa", 1), ("aaa", 0), ("aaa/#", 0), ("/+", 1), ("a/+", 0)] {
            #expect(subjects(longest + filter).count == count)
        }
    }

    @Test func `messages name their node, and their fence`() {
        let (one, two) = (NodeID(1), NodeID(.max))
        let answer = space.answer(to: one, from: two, fence: 77)
        answer.withUnsafeBytes { bytes in
            #expect(space.nodeMessage(bytes)?.node == one)
            #expect(space.nodeMessage(bytes)?.nodeMessage == .answer(from: two, fence: 77))
        }
        space.fence(to: two).withUnsafeBytes { #expect(space.nodeMessage($0)?.nodeMessage == .fence) }
        space.arrival(to: two).withUnsafeBytes { #expect(space.nodeMessage($0)?.nodeMessage == .arrival) }
        for wrong in ["martlet.c.n.", "martlet.c.n.1.f", "martlet.c.n.0000000000000001.x", "martlet.c.t.a"] {
            Array(wrong.utf8).withUnsafeBytes { #expect(space.nodeMessage($0) == nil) }
        }
        #expect(String(decoding: space.nodeMessages(to: one), as: UTF8.self) == "martlet.c.n.0000000000000001.>")
    }

    @Test func `a cluster's name is one token`() {
        #expect(String(decoding: SubjectSpace(cluster: "my cluster.1").overflow, as: UTF8.self) == "martlet.my%20cluster%2E1.o")
    }
}

/// All topics and filters of up to three levels.
enum SmallTexts {
    private static func texts(_ levels: [String]) -> [String] {
        levels + levels.flatMap { first in levels.map { "\(first)/\($0)" } }
            + levels.flatMap { first in levels.flatMap { second in levels.map { "\(first)/\(second)/\($0)" } } }
    }

    static func topics(levels: [String]) -> [TopicName] { texts(levels).compactMap { TopicName($0) } }

    static func filters(levels: [String]) -> [TopicFilter] { texts(levels + ["+", "#"]).compactMap { TopicFilter($0) } }
}
