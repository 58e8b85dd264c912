internal import Bytes

/// A layer between a socket and the broker's core: it decodes what comes in and encodes what goes out. Never blocks, owns no socket.
///
/// ```
///   socket ─► PROXY ─► TLS ─► WebSocket ─► core          decode, upwards
///   socket ◄─ PROXY ◄─ TLS ◄─ WebSocket ◄─ core          encode, downwards
/// ```
/// Called once per read and once per write of a connection, so an existential costs nothing that counts. A connection without
/// layers has none: its channel is the socket itself.
protocol StreamFilter: AnyObject {
    /// Puts onto the end of `target` what this side says before it has heard anything: a client's handshake. Called once, when the
    /// layers below are open.
    func begin(into target: ByteBlock)

    /// Decodes everything in `source`, whatever its alignment, into the front of `target`.
    ///
    /// - Parameters:
    ///   - target: holds at least as much as `source` and `Limits.filteredSlackBytes`.
    ///   - reply: gets what this layer itself has to say to its peer, encoded by this layer.
    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding

    /// Encodes all of the slices onto the end of `target`. Only to be called when `isOpen`.
    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) throws(FilterRefusal)

    /// Puts this layer's farewell onto the end of `target`; nothing when it has none to give now.
    func finish(into target: ByteBlock)

    /// Whether the peer has done what this layer demands first: bytes may be sent, and its part of the identity is known.
    var isOpen: Bool { get }

    /// Whether this layer has done its work and may be left out.
    var isSpent: Bool { get }

    /// Writes down what this layer knows of the peer. Called when it is open.
    func describe(_ identity: inout PeerIdentity)
}

extension StreamFilter {
    func begin(into target: ByteBlock) {}

    var isSpent: Bool { false }
}
