import MQTTCodec

@testable import BrokerCore

/// All topics and all filters of up to three levels over a small alphabet, and which of them match.
///
/// The oracle is `TopicFilter.matches`, level by level and byte by byte.
struct TopicUniverse: Sendable {
    static let small = TopicUniverse(levels: ["", "a", "b", "$x"])

    let topics: [TopicName]
    let filters: [TopicFilter]
    /// By filter, then by topic.
    let matches: [[Bool]]

    init(levels: [String]) {
        let paths = Self.paths(levels, depth: 3)
        let filterPaths = Self.paths(levels + ["+"], depth: 3)
        let open = [[]] + Self.paths(levels + ["+"], depth: 2)
        topics = paths.compactMap { TopicName($0.joined(separator: "/")) }
        filters = (filterPaths + open.map { $0 + ["#"] }).compactMap { TopicFilter($0.joined(separator: "/")) }
        matches = filters.map { [topics] filter in topics.map { filter.matches($0) } }
    }

    /// The filters that match a topic, by their positions.
    func filtersMatching(_ topic: Int) -> Set<Int> { Set(filters.indices.filter { matches[$0][topic] }) }

    /// The topics that match a filter, by their positions.
    func topicsMatching(_ filter: Int) -> Set<Int> { Set(topics.indices.filter { matches[filter][$0] }) }

    private static func paths(_ levels: [String], depth: Int) -> [[String]] {
        var all: [[String]] = []
        var longest: [[String]] = [[]]
        for _ in 0..<depth {
            longest = longest.flatMap { path in levels.map { path + [$0] } }
            all += longest
        }
        return all
    }
}

/// Messages and publications for tests of the structures that hold them.
enum StructureMessage {
    static func make(
        _ topic: [UInt8], payload: [UInt8] = [1], qos: QoS = .atLeastOnce, properties: [UInt8] = [], ledger: MessageLedger
    ) -> Message {
        topic.withUnsafeBytes { topic in
            properties.withUnsafeBytes { properties in
                payload.withUnsafeBytes { payload in
                    Message.make(
                        topic: topic, properties: properties, payload: payload, qos: qos, retain: false,
                        expiresAt: Message.neverExpires, publisher: 0, ledger: ledger)
                }
            }
        }
    }

    static func make(_ topic: String, payload: [UInt8] = [1], qos: QoS = .atLeastOnce, ledger: MessageLedger) -> Message {
        make(Array(topic.utf8), payload: payload, qos: qos, ledger: ledger)
    }
}
