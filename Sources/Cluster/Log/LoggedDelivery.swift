/// What has become of a packet identifier with which a session's client is sent messages of QoS 2, or what a share group has dealt it, as the log
/// has it.
public struct LoggedDelivery: Hashable, Sendable {
    /// By which claim its node kept the session, and the number of the step: the order of a session's steps.
    public var epoch: UInt64
    public var number: UInt64
    /// 0 for a message that was dealt, and waits for the client.
    public var packetIdentifier: UInt16
    /// Names the message that the client is about to be sent with it, 0 for one that stands in no log; nil if the client has acknowledged what it
    /// was sent.
    public var name: UInt64?
    /// Identifiers whose flows have ended since the session's step before.
    public var finished: [UInt16]

    public init(epoch: UInt64, number: UInt64, packetIdentifier: UInt16, name: UInt64?, finished: [UInt16] = []) {
        (self.epoch, self.number) = (epoch, number)
        (self.packetIdentifier, self.name, self.finished) = (packetIdentifier, name, finished)
    }
}
