/// Names a message of a cluster's log, on all nodes alike: its partition, its record there, and its place in that.
///
///     record 36 bits │ whether a share group has dealt it 1 │ place 19 │ partition 8        0 for none
///
/// Of the record's number there are the lowest bits: that tells it from all that a log holds at a time. What a share group deals a session is
/// another message to it than what its own subscriptions bring.
public struct MessageName: Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - partition: from 0.
    ///   - sequence: the record's number, from 1.
    ///   - index: how many messages stand before it in the record.
    public init(partition: Int, sequence: UInt64, index: Int) {
        rawValue = sequence << 28 | UInt64(index & 0x7_ffff) << 8 | UInt64(partition & 0xff)
    }

    /// Of a message that stands in no log.
    public static let none = MessageName(rawValue: 0)

    /// The same message as a share group deals it.
    var dealt: MessageName { MessageName(rawValue: rawValue | Self.dealtBit) }

    /// Whether a share group has dealt it.
    var isDealt: Bool { rawValue & Self.dealtBit != 0 }

    var partition: Int { Int(rawValue & 0xff) }

    /// The record's number, if that is not before `place`; else one far behind that.
    func sequence(from place: UInt64) -> UInt64 { place + (rawValue >> 28 &- place) & Self.recordBits }

    /// The record's number, which is before `place` or not far behind it.
    func sequence(near place: UInt64) -> UInt64 {
        let ahead = (rawValue >> 28 &- place) & Self.recordBits
        return ahead <= Self.recordBits / 2 ? place &+ ahead : place &- (Self.recordBits + 1 - ahead)
    }

    private static let dealtBit: UInt64 = 1 << 27
    private static let recordBits: UInt64 = 0xf_ffff_ffff
}
