public import Bytes

/// A connection as a stream of bytes in each direction, whatever carries it. Never blocks, never interprets.
///
/// Owned by one loop's thread at a time. It may be handed to another, complete: deregister it on the one loop, send it through a
/// mailbox, register it on the other.
public protocol ByteChannel: AnyObject, Sendable {
    /// What to register on a loop. Not valid after `close()`.
    var fileDescriptor: Int32 { get }

    /// The other end, as it was when the connection was made.
    var peerAddress: PeerAddress { get }

    /// Reads once, at most as much as the buffer holds. The buffer must not be empty.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult

    /// Writes once, from the front of the slices; of more than 1024 slices only the first 1024.
    func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult

    /// Ends the sending direction after what has been written. The peer reads all of it, then the end of the stream.
    func shutdownSending()

    /// Lets the connection go. To be deregistered first; a second call does nothing.
    ///
    /// When bytes from the peer lie unread the kernel resets the connection, and the peer may lose what it was sent last. A farewell
    /// that must arrive is followed by `shutdownSending()`, reads until the end of the stream or a deadline, and only then by this.
    func close()
}
