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
        func levels(_ topic: BridgeTopic) -> [Substring] {
            let levels = (topic.remotePrefix + topic.pattern).split(separator: "/", omittingEmptySubsequences: false)
            return levels.first == "$share" ? Array(levels.dropFirst(2)) : levels
        }
        let (mine, others) = (levels(self), levels(other))
        for place in 0..<max(mine.count, others.count) {
            let pair = [mine, others].map { place < $0.count ? $0[place] : nil }
            if pair.contains("#") { return true }
            guard let one = pair[0], let two = pair[1], one == two || pair.contains("+") else { return false }
        }
        return true
    }
}
