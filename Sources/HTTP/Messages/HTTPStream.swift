/// A body that comes over time: events, a log, a download. Its producer writes, and hears when there is room again and when the peer has gone.
///
/// ```
///             finish()             all of it is taken
///   open ──────────────► finished ────────────────────► gone
///     └──────────────────────────────────────────────────▲
///                     the peer goes, or abandon()
/// ```
/// `waiting.count <= bytesMax`: what does not fit is not taken. Owned by the thread that serves HTTP; it and its producer share it.
public final class HTTPStream {
    private enum State {
        case open
        case finished
        case gone
    }

    /// Bytes that may wait for the peer.
    public let bytesMax: Int
    /// Called when a write was refused and half of the room is free again.
    public var onRoom: (() -> Void)?
    /// Called once, when nothing more reaches the peer: it has gone, the server ends, or all that was to be said was taken.
    public var onGone: (() -> Void)?

    private var state = State.open
    private var waiting: [UInt8] = []
    private var owesRoom = false
    /// The server's: called when there is something to take. Set while the answer is being written.
    private var onChange: (() -> Void)?

    public init(bytesMax: Int = Limits.streamBytesMax) { self.bytesMax = bytesMax }

    // MARK: The producer's side

    /// Bytes that the next write may have.
    public var room: Int { state == .open ? bytesMax - waiting.count : 0 }

    /// Whether what is written may still reach the peer.
    public var isOpen: Bool { state == .open }

    /// Hands bytes to the peer; false when they do not fit, and `onRoom` will be called, or when the stream is not open.
    @discardableResult
    public func write(_ bytes: some Collection<UInt8>) -> Bool {
        guard state == .open else { return false }
        guard bytes.count <= room else {
            owesRoom = true
            return false
        }
        guard !bytes.isEmpty else { return true }
        waiting.append(contentsOf: bytes)
        onChange?()
        return true
    }

    /// Ends the body after what was written.
    public func finish() {
        guard state == .open else { return }
        state = .finished
        onChange?()
    }

    // MARK: The server's side

    /// Whether the body ends with what waits.
    public var isFinished: Bool { state != .open }

    /// Bytes that wait to be taken.
    public var waitingByteCount: Int { waiting.count }

    /// Calls `body` whenever there is something to take, once per write.
    public func serve(_ body: @escaping () -> Void) { onChange = body }

    /// Takes all that waits. Tells the producer of the room.
    public func take() -> [UInt8] {
        let taken = waiting
        waiting = []
        if owesRoom, state == .open {
            owesRoom = false
            onRoom?()
        }
        return taken
    }

    /// Nothing more reaches the peer.
    public func abandon() {
        guard state != .gone else { return }
        state = .gone
        waiting = []
        onChange = nil
        onRoom = nil
        let tell = onGone
        onGone = nil
        tell?()
    }
}
