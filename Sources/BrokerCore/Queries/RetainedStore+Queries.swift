/// Single nodes, looked at one after the other.
extension RetainedStore {
    /// A filter by the numbers of its levels.
    struct Pattern {
        fileprivate let levels: [UInt32]
        fileprivate let hasRest: Bool

        /// Stands for `+`; no level has this number.
        fileprivate static let single = UInt32.max - 1
    }

    /// The pattern of a filter without a `$share` prefix; nil if it has a level that no retained topic has.
    func pattern(of filter: some Collection<UInt8>) -> Pattern? {
        Array(filter).withUnsafeBytes { bytes in
            var (numbers, hasRest): ([UInt32], Bool) = ([], false)
            var sequence = LevelSequence(bytes)
            while let text = sequence.next() {
                if LevelSequence.isMultiLevelWildcard(text) {
                    hasRest = true
                } else if LevelSequence.isSingleLevelWildcard(text) {
                    numbers.append(Pattern.single)
                } else {
                    let number = levels.find(text)
                    guard number != LevelTable.none else { return nil }
                    numbers.append(number)
                }
            }
            return Pattern(levels: numbers, hasRest: hasRest)
        }
    }

    /// Whether the topic of a node matches; O(levels). [MQTT-4.7.2-1 v5]
    func matches(_ start: UInt32, _ pattern: borrowing Pattern) -> Bool {
        var depth = 0
        var node = start
        while node != Self.root {
            depth += 1
            node = nodes[node].parent
        }
        let wanted = pattern.levels.count
        guard depth == wanted || (pattern.hasRest && depth > wanted) else { return false }
        node = start
        while node != Self.root {
            depth -= 1
            let level = nodes[node].level
            let pattern = depth < wanted ? pattern.levels[depth] : Pattern.single
            if pattern == Pattern.single {
                if depth == 0, levels.text(of: level).first == UInt8(ascii: "$") { return false }
            } else if pattern != level {
                return false
            }
            node = nodes[node].parent
        }
        return true
    }
}
