import MQTTCodec
import TestBasics
import Testing

@testable import BrokerModel

@Suite struct AccessPolicyTests {
    private let universe = TopicUniverse.small
    private static let permissions: [AccessPermission] = [.read, .write, [.read, .write], .deny]

    @Test func `every filter alone grants what it matches, and a second line that denies takes it away`() {
        for (position, filter) in universe.filters.enumerated() {
            let text = filter.description
            let granting = AccessOracle(
                own: [.init(permission: .read, filter: text)], patterns: [], clientIdentifier: "c", userName: "u")
            let denying = AccessOracle(
                own: [.init(permission: [.read, .write], filter: "#"), .init(permission: .deny, filter: text)], patterns: [],
                clientIdentifier: "c", userName: nil)
            for (topicPosition, topic) in universe.topics.enumerated() {
                let isMatch = universe.matches[position][topicPosition]
                #expect(granting.policy.mayReceive(topic) == isMatch, "\(text) \(topic)")
                #expect(!granting.policy.mayPublish(topic))
                #expect(
                    denying.policy.mayPublish(topic) == (!isMatch && topic.bytes.first != UInt8(ascii: "$")), "\(text) \(topic)")
            }
        }
    }

    @Test(arguments: [UInt64(1), 2, 3, 4], [false, true])
    func `random files give mosquitto's answers on every topic`(seed: UInt64, spansLevels: Bool) {
        var random = SeededGenerator(seed: seed)
        let identities: [(String, String?)] = [
            ("a", "b"), ("b", nil), ("a/b", "a"), ("$x", "$x"), ("a+", "b"), ("", ""), ("b", "#"),
        ]
        for _ in 0..<150 {
            let (clientIdentifier, userName) = identities[random.below(identities.count)]
            let oracle = AccessOracle(
                own: lines(&random, levels: ["a", "b", "$x", "+", ""]),
                patterns: lines(&random, levels: ["a", "%c", "%u", "+", "$x"]),
                clientIdentifier: clientIdentifier, userName: userName, spansLevels: spansLevels)
            let policy = oracle.policy
            for topic in universe.topics {
                #expect(policy.mayReceive(topic) == oracle.grants(.read, topic), "\(oracle) \(topic)")
                #expect(policy.mayPublish(topic) == oracle.grants(.write, topic), "\(oracle) \(topic)")
            }
        }
    }

    @Test(arguments: [UInt64(5), 6])
    func `a subscription is refused only if nothing could come of it`(seed: UInt64) {
        // Levels and a depth that no rule names stand for the infinitely many topics outside of the files.
        let wide = TopicUniverse(levels: ["", "a", "b", "$x", "z"])
        var random = SeededGenerator(seed: seed)
        for _ in 0..<60 {
            let oracle = AccessOracle(
                own: lines(&random, levels: ["a", "b", "$x", "+"], depth: 2),
                patterns: lines(&random, levels: ["a", "%c", "+"], depth: 2),
                clientIdentifier: "b", userName: "u")
            let policy = oracle.policy
            let isExact = (oracle.own + oracle.patterns).count { $0.permission == .deny } <= 1
            for filter in universe.filters where filter.matchingBytes.count <= 3 {
                let expected = wide.topics.contains { filter.matches($0) && oracle.grants(.read, $0) }
                let answer = filter.bytes.withUnsafeBytes { policy.maySubscribe(filter: $0) }
                if expected || isExact { #expect(answer == expected, "\(filter) \(oracle)") }
            }
        }
    }

    @Test func `intersections and coverings of filters are those of their topics`() {
        let wide = TopicUniverse(levels: ["", "a", "b", "$x", "z"])
        let filters = universe.filters.filter { $0.matchingBytes.count <= 3 }
        let sets = filters.map { filter in Set(wide.topics.indices.filter { filter.matches(wide.topics[$0]) }) }
        let levels = filters.compactMap { AccessFilter($0.bytes, isPattern: false)?.levels }
        for left in filters.indices {
            for right in filters.indices {
                let common = AccessOverlap.intersection(levels[left], levels[right])
                #expect((common != nil) == !sets[left].isDisjoint(with: sets[right]), "\(filters[left]) \(filters[right])")
                #expect(
                    AccessOverlap.covers(levels[left], levels[right]) == sets[left].isSuperset(of: sets[right]),
                    "\(filters[left]) \(filters[right])")
            }
        }
    }

    @Test func `a name with a slash opens nobody else's topics, and escapes no prohibition`() {
        let control = AccessControl(
            anonymous: [], users: [:],
            patterns: [
                pattern([.read, .write], "home/%u/#"), pattern([.read], "news/#"), pattern([.write], "devices/%c"),
                pattern(.deny, "news/%u"),
            ])
        let sneaky = control.policy(userName: "anna/safe", clientIdentifier: "a/b")
        #expect(
            !sneaky.mayPublish("home/anna/safe") && !sneaky.mayReceive("home/anna/safe/code") && !sneaky.mayPublish("devices/a/b"))
        #expect(sneaky.mayReceive("news/today"), "what has nothing to do with names is as for everybody")
        #expect(!sneaky.mayReceive("news/anna/safe"))
        #expect(!sneaky.maySubscribe(filter: "home/anna/safe/#"))
        #expect(control.policy(userName: "anna", clientIdentifier: "a").mayReceive("home/anna/safe/code"))
    }

    /// What mosquitto's manual page says of its access files.
    @Test func `the examples of mosquitto's manual hold`() {
        let control = AccessControl(
            anonymous: [rule(.read, "public/#")], users: ["roger": [rule([.read, .write], "foo/bar")]],
            patterns: [pattern(.write, "sensor/%u/data"), pattern(.write, "$SYS/broker/connection/%c/state")])
        let roger = control.policy(userName: "roger", clientIdentifier: "id1")
        #expect(roger.mayPublish("foo/bar") && roger.mayReceive("foo/bar"))
        #expect(roger.mayPublish("sensor/roger/data") && !roger.mayReceive("sensor/roger/data"))
        #expect(!roger.mayPublish("sensor/rog/data") && !roger.mayPublish("sensor/rogers/data"))
        #expect(roger.mayPublish("$SYS/broker/connection/id1/state") && !roger.mayPublish("$SYS/broker/connection/id/state"))
        #expect(!roger.mayReceive("public/news"))
        let nobody = control.policy(userName: nil, clientIdentifier: "id1")
        #expect(nobody.mayReceive("public/news") && nobody.mayReceive("public") && !nobody.mayReceive("$SYS/broker/uptime"))
        #expect(!nobody.mayPublish("sensor//data"))
        let stranger = control.policy(userName: "stranger", clientIdentifier: "id2")
        #expect(!stranger.mayReceive("foo/bar") && stranger.mayPublish("sensor/stranger/data"))
        let dangerous = control.policy(userName: "+", clientIdentifier: "id3")
        #expect(!dangerous.mayPublish("$SYS/broker/connection/id3/state"))
    }

    @Test func `without a rule everything is denied`() {
        let policy = AccessControl(anonymous: [], users: [:], patterns: []).policy(userName: nil, clientIdentifier: "c")
        #expect(!policy.mayReceive("a") && !policy.mayPublish("a") && !policy.maySubscribe(filter: "#"))
    }

    @Test(arguments: ["", "a+", "+a/b", "#/a", "a/#b", "a/##", "++"])
    func `filters whose wildcards do not fill their levels are none`(text: String) {
        #expect(AccessFilter(Array(text.utf8), isPattern: false) == nil)
    }

    @Test func `names that are only part of a level are taken as they are written, and found`() throws {
        let filter = try #require(AccessFilter(Array("a/b%c/%u".utf8), isPattern: true))
        #expect(filter.hasPartialSubstitution && filter.isPersonal)
        #expect(try !#require(AccessFilter(Array("a/%c/100%".utf8), isPattern: true)).hasPartialSubstitution)
        #expect(try !#require(AccessFilter(Array("a/%c".utf8), isPattern: false)).isPersonal)
    }

    private func lines(_ random: inout SeededGenerator, levels: [String], depth: Int = 3) -> [AccessOracle.Line] {
        (0..<random.below(5)).map { _ in
            var parts = (0..<(1 + random.below(depth))).map { _ in levels[random.below(levels.count)] }
            if random.oneIn(3) { parts[parts.count - 1] = "#" }
            if parts == [""] { parts = ["a"] }
            return .init(permission: Self.permissions[random.below(4)], filter: parts.joined(separator: "/"))
        }
    }

    private func rule(_ permission: AccessPermission, _ text: String) -> AccessRule {
        AccessRule(permission, AccessFilter(Array(text.utf8), isPattern: false) ?? .nothing)
    }

    private func pattern(_ permission: AccessPermission, _ text: String) -> AccessRule {
        AccessRule(permission, AccessFilter(Array(text.utf8), isPattern: true) ?? .nothing)
    }
}

extension AccessFilter {
    /// A filter that no test's topic matches, in place of a text that is none.
    fileprivate static var nothing: AccessFilter {
        guard let filter = AccessFilter(Array("never".utf8), isPattern: false) else { preconditionFailure() }
        return filter
    }
}

extension AccessPolicy {
    fileprivate func mayReceive(_ topic: TopicName) -> Bool { topic.bytes.withUnsafeBytes { mayReceive(topic: $0) } }
    fileprivate func mayPublish(_ topic: TopicName) -> Bool { topic.bytes.withUnsafeBytes { mayPublish(topic: $0) } }
    fileprivate func maySubscribe(filter: TopicFilter) -> Bool { filter.bytes.withUnsafeBytes { maySubscribe(filter: $0) } }
}
