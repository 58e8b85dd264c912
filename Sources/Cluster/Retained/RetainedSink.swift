/// What the engine answers to a change that is to be stored.
public enum RetainedAnswer: Equatable, Sendable {
    case stored
    /// Of an offer: the stream has a message of this topic.
    case known
    /// There is no leader or no majority just now, or no answer has come: it is tried again.
    case unavailable
    /// The engine does not take it, and would not take it again.
    case refused
}

/// A change on its way to the stream.
public struct RetainedChangeToStore: Equatable, Sendable {
    public let subject: [UInt8]
    public let record: [UInt8]
    /// Names it in the answer, and, with the node, as Nats-Msg-Id to the engine.
    public let number: UInt64
    /// After how many seconds the stream forgets it; nil for never.
    public let secondsToLive: UInt64?
    /// Whether it is to be stored only if the stream has nothing of its topic.
    public let isOffer: Bool

    public init(subject: [UInt8], record: [UInt8], number: UInt64, secondsToLive: UInt64?, isOffer: Bool = false) {
        (self.subject, self.record, self.number) = (subject, record, number)
        (self.secondsToLive, self.isOffer) = (secondsToLive, isOffer)
    }
}

/// Carries out what a `RetainedLane` decides. It does not call the lane from its methods.
public protocol RetainedSink: AnyObject {
    /// Asks the engine to store a change; its answer goes to `RetainedLane.answered` with the same number.
    func store(_ change: RetainedChangeToStore)

    /// What a shard had to tell up to this serial is in the stream.
    func isSafe(_ serial: UInt64, of shard: Int)

    /// Asks for the records of the stream from this number on, in order.
    func follow(from sequence: UInt64)

    /// A record has come out of the stream: its shard is to settle it.
    func settle(_ record: RetainedRecord)

    /// All of the stream is about to be read: the shards are to mark what it has from now on.
    func beginReading()

    /// A shard is to remove what the stream does not have, or to offer it; `RetainedLane.swept` follows.
    func sweep(_ shard: Int, from place: Int, offers: Bool, round: UInt64)

    /// The cluster has all retained messages of this node.
    func becameMember()
}
