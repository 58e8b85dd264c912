/// What has become of a packet identifier with which a session's client sends QoS 2, as the log has it.
public struct LoggedReceipt: Hashable, Sendable {
    /// By which claim its node kept the session. Of an identifier's receipts the one with the highest epoch counts, and of these the one with the
    /// highest number.
    public var epoch: UInt64
    public var number: UInt64
    /// 0 for none: then it says that a node takes the session up from the log.
    public var packetIdentifier: UInt16
    /// Tells the message that was received with it from others; nil if the identifier was released.
    public var digest: UInt32?

    public init(epoch: UInt64, number: UInt64, packetIdentifier: UInt16, digest: UInt32?) {
        (self.epoch, self.number) = (epoch, number)
        (self.packetIdentifier, self.digest) = (packetIdentifier, digest)
    }
}
