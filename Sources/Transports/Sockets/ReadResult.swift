public import Platform

/// What a read from a channel came to.
public enum ReadResult {
    /// That many bytes, at least 1, were put at the beginning of the buffer.
    case bytes(Int)
    /// Nothing is there now; the channel will become readable.
    case wouldBlock
    /// The peer has ended its sending direction. It may still be reading.
    case endOfStream
    /// A layer below MQTT does not go on with this peer. An explanation for the peer is on its way: end the connection gracefully.
    case refused(FilterRefusal)
    /// The connection is broken: reset, timed out, or out of the kernel's memory.
    case failed(SystemError)
}
