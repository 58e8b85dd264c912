import BrokerModel

/// Single records, looked at one after the other.
extension SubscriptionTree {
    /// The numbers of a topic's levels, `LevelTable.none` for those that no filter has; and whether it begins with `$`, so that no wildcard in
    /// front matches it.
    struct LevelNumbers {
        fileprivate let levels: [UInt32]
        fileprivate let isHidden: Bool
    }

    func levelNumbers(of topic: [UInt8]) -> LevelNumbers {
        var numbers: [UInt32] = []
        topic.withUnsafeBytes { bytes in
            var sequence = LevelSequence(bytes)
            while let text = sequence.next() { numbers.append(levels.find(text)) }
        }
        return LevelNumbers(levels: numbers, isHidden: topic.first == UInt8(ascii: "$"))
    }

    /// Whether the filter of a record that is there matches a topic. O(levels). [MQTT-4.7.2-1 v5]
    func matches(_ record: UInt32, _ topic: LevelNumbers) -> Bool {
        var node = records[record].node
        var depth = 0
        var above = node
        while above != Self.root {
            depth += 1
            above = nodes[above].parent
        }
        if nodes[node].level == Self.multiLevelWildcard {
            // `a/#` matches `a` too.
            depth -= 1
            guard depth <= topic.levels.count, depth > 0 || !topic.isHidden else { return false }
            node = nodes[node].parent
        } else {
            guard depth == topic.levels.count else { return false }
        }
        while node != Self.root {
            depth -= 1
            let level = nodes[node].level
            if level == Self.singleLevelWildcard {
                if depth == 0, topic.isHidden { return false }
            } else if level != topic.levels[depth] {
                return false
            }
            node = nodes[node].parent
        }
        return true
    }

    /// Who holds the record at an index below `recordLimit`; nil if there is none now. O(1).
    func holder(at record: UInt32) -> (subscriber: Subscriber, terms: SubscriptionTerms)? {
        // A record that was removed is still legible, but nobody finds it.
        let (node, subscriber) = (records[record].node, records[record].subscriber)
        guard index.find(node: node, subscriber: subscriber, in: records.base) == record else { return nil }
        return (subscriber, records[record].terms)
    }
}
