/// A body of known length that is kept somewhere else, such as a file: many answers share it, and none holds a copy. Owned by the thread that
/// serves HTTP.
public protocol HTTPContent: AnyObject {
    /// How long it is, in bytes: it does not change.
    var byteCount: Int { get }

    /// The bytes that are in memory for its answers alone.
    var heldByteCount: Int { get }

    /// The bytes from a place on, so many of them or fewer; empty when it cannot be read any more, which ends the connection.
    func bytes(from offset: Int, count: Int) -> [UInt8]
}
