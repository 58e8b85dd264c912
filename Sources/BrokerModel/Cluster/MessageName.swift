/// Names a message of a cluster's log, on all nodes alike: its partition, its record there, and its place in that.
///
///     record 36 bits │ share 7 │ place 13 │ partition 8        0 for none
///
/// Of the record's number there are the lowest bits: that tells it from all that a log holds at a time. A record of 32 KiB has fewer messages than a
/// place can say. What a share group deals a session is another message to it than what its own subscriptions or another group bring: share says by
/// which of the message's share groups, from 1 on; 0 for none of them.
public struct MessageName: Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - partition: from 0.
    ///   - sequence: the record's number, from 1.
    ///   - index: how many messages stand before it in the record.
    public init(partition: Int, sequence: UInt64, index: Int) {
        rawValue = sequence << 28 | UInt64(index & 0x1fff) << 8 | UInt64(partition & 0xff)
    }

    /// Of a message that stands in no log.
    public static let none = MessageName(rawValue: 0)

    /// The same message as one of its share groups deals it.
    ///
    /// - Parameter share: which one of those that stand with it in the log, from 0. All from `SharedLimits.namedSharesMax` on have one name.
    package func dealt(by share: Int) -> MessageName {
        MessageName(rawValue: asPublished.rawValue | UInt64(min(share, SharedLimits.namedSharesMax) + 1) << 21)
    }

    /// The same message as a session's own subscriptions bring it.
    package var asPublished: MessageName { MessageName(rawValue: rawValue & ~Self.shareMask) }

    /// Which of its share groups has dealt it; nil if none has.
    package var share: Int? { isDealt ? Int(rawValue >> 21 & 0x7f) - 1 : nil }

    /// Whether a share group has dealt it.
    package var isDealt: Bool { rawValue & Self.shareMask != 0 }

    package var partition: Int { Int(rawValue & 0xff) }

    /// The record's number, if that is not before `place`; else one far behind that.
    package func sequence(from place: UInt64) -> UInt64 { place + (rawValue >> 28 &- place) & Self.recordBits }

    /// The record's number, which is before `place` or not far behind it.
    package func sequence(near place: UInt64) -> UInt64 {
        let ahead = (rawValue >> 28 &- place) & Self.recordBits
        return ahead <= Self.recordBits / 2 ? place &+ ahead : place &- (Self.recordBits + 1 - ahead)
    }

    private static let shareMask: UInt64 = 0x7f << 21
    private static let recordBits: UInt64 = 0xf_ffff_ffff
}
