/// Which call of `publish` is meant: they are numbered from 1, and grow for as long as the session object lives.
public struct PublishTicket: Hashable, Sendable, Comparable {
    public let number: UInt64

    public static func < (left: PublishTicket, right: PublishTicket) -> Bool { left.number < right.number }
}
