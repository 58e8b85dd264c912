/// One `topic` line of a bridge: what crosses it, which way, and under which names.
///
///     local topic  = localPrefix  + pattern
///     remote topic = remotePrefix + pattern
///
/// `pattern` is empty when the two prefixes name one topic each.
public struct BridgeTopic: Sendable, Hashable {
    public var pattern: String
    public var direction: Direction
    public var qos: UInt8
    public var localPrefix: String
    public var remotePrefix: String

    public enum Direction: String, Sendable, CaseIterable {
        case out
        case `in`
        case both
    }

    public init(
        pattern: String, direction: Direction = .out, qos: UInt8 = 0, localPrefix: String = "", remotePrefix: String = ""
    ) {
        self.pattern = pattern
        self.direction = direction
        self.qos = qos
        self.localPrefix = localPrefix
        self.remotePrefix = remotePrefix
    }

    /// Whether a topic of the other broker may be one of this line and of `other`.
    func crosses(_ other: BridgeTopic) -> Bool {
        Self.overlap(levels(behind: remotePrefix), other.levels(behind: other.remotePrefix))
    }

    /// A topic of the line with one of its prefixes, by level, as subscriptions match it.
    func levels(behind prefix: String) -> [Substring] {
        let levels = (prefix + pattern).split(separator: "/", omittingEmptySubsequences: false)
        return levels.first == "$share" ? Array(levels.dropFirst(2)) : levels
    }

    /// Whether a topic may be of both filters.
    static func overlap(_ one: [Substring], _ other: [Substring]) -> Bool {
        let wild: Set<Substring?> = ["+", "#"]
        for (first, second) in [(one, other), (other, one)]
        where first.first?.first == "$" && wild.contains(second.first) { return false }
        for place in 0..<max(one.count, other.count) {
            let pair = [one, other].map { place < $0.count ? $0[place] : nil }
            if pair.contains("#") { return true }
            guard let mine = pair[0], let others = pair[1], mine == others || pair.contains("+") else { return false }
        }
        return true
    }
}
