/// What a descriptor is ready for. The bits are epoll's own, so nothing is translated on the way.
public struct ReadyEvents: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// A read gives bytes, the end of the stream, or the error; on a listener an accept gives a connection.
    public static let readable = ReadyEvents(rawValue: 0x1)
    /// A write takes at least some bytes, or gives the error; a connection in the making has been made or refused.
    public static let writable = ReadyEvents(rawValue: 0x4)
    /// The socket failed. Reported whatever the interest, at each turn until the descriptor is deregistered.
    public static let error = ReadyEvents(rawValue: 0x8)
    /// Both directions are closed. Reported whatever the interest, at each turn until the descriptor is deregistered.
    public static let hangUp = ReadyEvents(rawValue: 0x10)
}
