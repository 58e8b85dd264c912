import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore

@Suite struct TopicAliasTests {
    @Test(.statement("MQTT-3.3.2-12", .v5))
    func `a client's aliases mean the topics set last`() {
        var random = SeededGenerator(seed: 91)
        var aliases = ReceivedAliases()
        var oracle: [UInt16: [UInt8]] = [:]
        for step in 0..<2000 {
            let alias = UInt16(1 + random.below(40))
            #expect(aliases.topic(of: alias) == oracle[alias])
            let topic = Array("topic/\(step)".utf8)
            topic.withUnsafeBytes { aliases.set(alias, to: $0) }
            oracle[alias] = topic
        }
        #expect(aliases.topic(of: 0) == nil)
        #expect(aliases.topic(of: 41) == nil)
        #expect(aliases.topic(of: .max) == nil)
    }

    @Test func `the highest alias leaves the ones below it unset`() {
        var aliases = ReceivedAliases()
        [UInt8(1)].withUnsafeBytes { aliases.set(.max, to: $0) }
        #expect(aliases.topic(of: .max) == [1])
        #expect(aliases.topic(of: .max - 1) == nil)
        #expect(aliases.topic(of: 1) == nil)
    }

    @Test(.statement("MQTT-3.3.2-11", .v5), arguments: [UInt64(92), 93, 94])
    func `a client that follows the broker's aliases always knows the topic`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let maximum = UInt16(1 + random.below(5))
        var aliases = SentAliases(maximum: maximum)
        var client: [UInt16: String] = [:]
        for _ in 0..<3000 {
            let topic = "topic\(random.below(8))"
            switch Self.name(&aliases, topic) {
            case .topic: continue
            case .topicAndAlias(let alias):
                #expect(alias >= 1 && alias <= maximum)
                #expect(!client.values.contains(topic), "a topic has two aliases")
                client[alias] = topic
            case .alias(let alias): #expect(client[alias] == topic)
            }
        }
        #expect(client.count == Int(maximum))
    }

    @Test func `without a Topic Alias Maximum, and for short topics, there is no alias`() {
        var none = SentAliases(maximum: 0)
        var some = SentAliases(maximum: 5)
        for _ in 0..<5 {
            #expect(Self.name(&none, "a/long/topic") == .topic)
            #expect(Self.name(&some, "abc") == .topic)
        }
        #expect(Self.name(&some, "abcd") == .topicAndAlias(1))
        #expect(Self.name(&some, "abcd") == .alias(1))
    }

    @Test func `when all are given, the alias unused for longest goes to a topic that comes twice running`() {
        var aliases = SentAliases(maximum: 2)
        #expect(Self.name(&aliases, "first") == .topicAndAlias(1))
        #expect(Self.name(&aliases, "second") == .topicAndAlias(2))
        #expect(Self.name(&aliases, "first") == .alias(1))
        #expect(Self.name(&aliases, "third") == .topic)
        #expect(Self.name(&aliases, "third") == .topicAndAlias(2))
        #expect(Self.name(&aliases, "first") == .alias(1))
        #expect(Self.name(&aliases, "second") == .topic)
        #expect(Self.name(&aliases, "fourth") == .topic)
        #expect(Self.name(&aliases, "second") == .topic)
        #expect(Self.name(&aliases, "third") == .alias(2))
    }

    private static func name(_ aliases: inout SentAliases, _ topic: String) -> SentAliases.Naming {
        Array(topic.utf8).withUnsafeBytes { aliases.name($0) }
    }
}
