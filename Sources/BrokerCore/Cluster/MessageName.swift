/// Names a message of a cluster's log, on all nodes alike: its partition, its record there, and its place in that.
///
///     record 36 bits │ place 20 │ partition 8        0 for none
///
/// Of the record's number there are the lowest bits: that tells it from all that a log holds at a time.
public struct MessageName: Hashable, Sendable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - partition: from 0.
    ///   - sequence: the record's number, from 1.
    ///   - index: how many messages stand before it in the record.
    public init(partition: Int, sequence: UInt64, index: Int) {
        rawValue = sequence << 28 | UInt64(index & 0xf_ffff) << 8 | UInt64(partition & 0xff)
    }

    /// Of a message that stands in no log.
    public static let none = MessageName(rawValue: 0)

    var partition: Int { Int(rawValue & 0xff) }

    /// The record's number, if that is not before `place`; else one far behind that.
    func sequence(from place: UInt64) -> UInt64 { place + (rawValue >> 28 &- place) & 0xf_ffff_ffff }
}
