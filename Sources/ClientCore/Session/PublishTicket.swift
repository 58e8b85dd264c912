/// Which call of `publish` is meant: they are numbered from 1, and grow for as long as the session object lives. One that is restored goes on
/// behind the highest that is stored.
public struct PublishTicket: Hashable, Sendable, Comparable {
    public let number: UInt64

    public init(number: UInt64) { self.number = number }

    public static func < (left: PublishTicket, right: PublishTicket) -> Bool { left.number < right.number }
}
