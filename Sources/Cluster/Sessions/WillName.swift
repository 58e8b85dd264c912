/// Tells the will of a connection from those of the other connections of its session: later ones are greater.
public struct WillName: Hashable, Comparable, Sendable {
    /// That of the claim by which its node kept the session.
    public var epoch: UInt64
    /// Rises with the connections of a node's incarnation.
    public var number: UInt64

    public init(epoch: UInt64, number: UInt64) { (self.epoch, self.number) = (epoch, number) }

    public static func < (left: WillName, right: WillName) -> Bool { (left.epoch, left.number) < (right.epoch, right.number) }
}
