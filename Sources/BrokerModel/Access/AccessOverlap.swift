/// Topic filters as sets of topics. `+` and `#` at the start do not reach into topics that begin with $.
package enum AccessOverlap {
    package typealias Level = AccessFilter.Level

    /// The filter of the topics that both match; nil when there is none. Two filters have always one such filter at most.
    package static func intersection(_ left: [Level], _ right: [Level]) -> [Level]? {
        var common: [Level] = []
        var index = 0
        while true {
            let (first, second) = (level(left, index), level(right, index))
            switch (first, second) {
            case (nil, nil): return nonempty(common)
            case (.rest, _): return isHidden(second, at: index) ? nil : nonempty(common + right.dropFirst(index))
            case (_, .rest): return isHidden(first, at: index) ? nil : nonempty(common + left.dropFirst(index))
            case (nil, _), (_, nil): return nil
            case (.single, let other?), (let other?, .single):
                if isHidden(other, at: index) { return nil }
                common.append(other)
            case (let one?, let other?):
                guard one == other else { return nil }
                common.append(one)
            }
            index += 1
        }
    }

    /// Whether the first filter matches every topic that the second one matches.
    package static func covers(_ wide: [Level], _ narrow: [Level]) -> Bool {
        // Every topic has a first level: # and +/# are the same.
        let narrow = narrow == [.rest] ? [.single, .rest] : narrow
        var index = 0
        while true {
            let (first, second) = (level(wide, index), level(narrow, index))
            switch (first, second) {
            case (nil, nil): return true
            case (.rest, _): return !isHidden(second, at: index)
            case (nil, _), (_, nil), (_, .rest): return false
            case (.single, _):
                if isHidden(second, at: index) { return false }
            default:
                guard first == second else { return false }
            }
            index += 1
        }
    }

    /// No topic is empty: `/#` and `+` have none in common.
    private static func nonempty(_ levels: [Level]) -> [Level]? {
        levels == [.literal([])] ? nil : levels
    }

    private static func level(_ levels: [Level], _ index: Int) -> Level? {
        index < levels.count ? levels[index] : nil
    }

    /// Whether a wildcard at this place does not reach the level, because a topic begins with it and it begins with $.
    private static func isHidden(_ level: Level?, at index: Int) -> Bool {
        guard index == 0, case .literal(let text) = level else { return false }
        return text.first == UInt8(ascii: "$")
    }
}
