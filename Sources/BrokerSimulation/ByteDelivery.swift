/// How the simulated network cuts what a client sends into pieces. The broker gets one piece per connection and
/// round, and a turn has one round, seldom more.
public enum ByteDelivery: Sendable {
    /// All that was sent since the last turn in one piece, as a fast network does.
    case joined
    /// Each call of `send` is a piece.
    case separate
    /// Each byte is a piece.
    case byteByByte
}
