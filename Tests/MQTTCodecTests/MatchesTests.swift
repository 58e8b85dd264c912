import MQTTCodec
import MartletTestKit
import Testing

/// The oracle that faster matching is tested against, itself tested on all topics and filters of up to three levels.
@Suite struct MatchesTests {
    /// All ways to join up to three of the levels.
    private static func joined(_ levels: [String]) -> [String] {
        let twice = levels.flatMap { first in levels.map { first + "/" + $0 } }
        return levels + twice + twice.flatMap { first in levels.map { first + "/" + $0 } }
    }

    static let topics = joined(["", "a", "b", "$s"]).compactMap { TopicName($0) }
    static let filters = joined(["", "a", "b", "$s", "+", "#"]).compactMap { TopicFilter($0) }

    private static func levels(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    }

    @Test(arguments: [
        ("sport/tennis/player1/#", "sport/tennis/player1", true), ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/#", "sport", true), ("#", "sport/tennis", true), ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false), ("sport/+", "sport", false), ("sport/+", "sport/", true),
        ("+/+", "/finance", true), ("/+", "/finance", true), ("+", "/finance", false), ("#", "$SYS/x", false),
        ("+/x", "$SYS/x", false),
        ("$SYS/#", "$SYS/x", true), ("$SYS/+", "$SYS/x", true), ("a/+", "a/$x", true), ("ACCOUNTS", "Accounts", false),
        ("/a", "a", false), ("a/", "a", false), ("a", "a", true), ("a/#", "ab", false), ("a/#", "a/", true),
    ])
    func `the standard's examples hold`(_ filter: String, _ topic: String, _ isMatch: Bool) throws {
        #expect(try #require(TopicFilter(filter)).matches(#require(TopicName(topic))) == isMatch)
    }

    @Test(.statement("MQTT-4.7.2-1", .v5)) func `a leading wildcard passes over topics that begin with a dollar sign`() {
        for topic in Self.topics where topic.bytes.first == UInt8(ascii: "$") {
            for filter in Self.filters where filter.bytes.first == UInt8(ascii: "+") || filter.bytes.first == UInt8(ascii: "#") {
                #expect(!filter.matches(topic))
            }
        }
    }

    @Test func `the filter of everything matches all that does not begin with a dollar sign`() {
        for topic in Self.topics where topic.bytes.first != UInt8(ascii: "$") { #expect(TopicFilter("#").matches(topic)) }
    }

    @Test(.statement("MQTT-4.7.3-4", .v5)) func `a filter without wildcards matches the same bytes alone`() {
        for filter in Self.filters where TopicName(filter.bytes) != nil {
            for topic in Self.topics { #expect(filter.matches(topic) == (filter.bytes == topic.bytes)) }
        }
        #expect(!TopicFilter("\u{E9}").matches("e\u{301}"))
    }

    @Test func `a filter without the multi-level wildcard matches as many levels as it has`() {
        for filter in Self.filters where filter.bytes.last != UInt8(ascii: "#") {
            for topic in Self.topics where filter.matches(topic) {
                #expect(Self.levels(filter.bytes).count == Self.levels(topic.bytes).count)
            }
        }
    }

    @Test func `a wildcard in place of a level still matches`() {
        for topic in Self.topics {
            let levels = Self.levels(topic.bytes)
            for index in levels.indices where index > 0 || topic.bytes.first != UInt8(ascii: "$") {
                var replaced = levels
                replaced[index] = [UInt8(ascii: "+")]
                #expect(TopicFilter(Array(replaced.joined(separator: [UInt8(ascii: "/")])))?.matches(topic) == true)
            }
        }
    }

    @Test func `a filter with the multi-level wildcard matches the level above and all below`() {
        for prefix in Self.topics {
            guard let filter = TopicFilter(prefix.bytes + Array("/#".utf8)) else { continue }
            for topic in Self.topics {
                let isBelow = topic.bytes.starts(with: prefix.bytes + [UInt8(ascii: "/")])
                #expect(filter.matches(topic) == (topic == prefix || isBelow))
            }
        }
    }

    @Test func `a filter of single-level wildcards matches every topic of its length`() {
        for topic in Self.topics where topic.bytes.first != UInt8(ascii: "$") {
            for (count, filter) in [(1, TopicFilter("+")), (2, "+/+"), (3, "+/+/+")] {
                #expect(filter.matches(topic) == (Self.levels(topic.bytes).count == count))
            }
        }
    }
}
