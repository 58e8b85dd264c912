/// A part of a session on its way from the node that kept it to the one that does.
public struct SessionPiece: Equatable, Sendable {
    /// From 0 on.
    public var number: Int
    public var isLast: Bool
    /// At most 256 KiB, or one message. Of the first piece nothing, if there is nothing of the session.
    public var bytes: [UInt8]

    /// By which claim the node that gives it has kept it; 0 for none.
    public var epoch: UInt64

    public init(number: Int, isLast: Bool, bytes: [UInt8], epoch: UInt64 = 0) {
        (self.number, self.isLast, self.bytes, self.epoch) = (number, isLast, bytes, epoch)
    }
}
