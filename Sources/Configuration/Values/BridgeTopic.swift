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
}
