/// Takes the peer's frames apart, whatever their alignment to reads and to MQTT packets. [MQTT-6.0.0-2 v5]
///
/// ```
///   head ──► data ──► head              head ──► control ──► head
/// ```
/// head: the beginning of a frame is collected, 14 bytes at most. data: its bytes are unmasked straight into the target, as they come.
/// control: its bytes, 125 at most, are collected.
struct WebSocketFrameReader: ~Copyable {
    /// What the reader stopped at.
    enum Event {
        /// The source is empty.
        case exhausted
        case ping([UInt8])
        case close([UInt8])
        case violation(WebSocketViolation)
    }

    private enum State {
        case head
        case data
        case control(WebSocketOpcode)
    }

    private let frameBytesMax: UInt64
    private let isMasked: Bool
    private var state = State.head
    private var head = InlineArray<14, UInt8>(repeating: 0)
    private var headCount = 0
    /// How much of the frame's payload is still to come.
    private var remaining = 0
    private var mask = WebSocketMask(0)
    private var control: [UInt8] = []
    /// Whether a message has begun whose last frame has not.
    private var isInMessage = false

    /// - Parameter isMasked: whether the peer has to mask its frames: a client has to, a server must not.
    init(frameBytesMax: UInt64, isMasked: Bool) {
        self.frameBytesMax = frameBytesMax
        self.isMasked = isMasked
    }

    /// Reads on from the front of `source` until it is empty or something happens; adds data to `target` behind `count` bytes.
    mutating func read(
        _ source: inout UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, count: inout Int
    ) -> Event {
        while true {
            switch state {
            case .head:
                guard collectHead(&source) else { return .exhausted }
                do throws(WebSocketViolation) {
                    try begin(WebSocketFrameHead(head, isMasked: isMasked))
                } catch {
                    return .violation(error)
                }
            case .data:
                count += take(&source, into: UnsafeMutableRawBufferPointer(rebasing: target[count...]))
                guard remaining == 0 else { return .exhausted }
                state = .head
            case .control(let opcode):
                guard collectControl(&source) else { return .exhausted }
                state = .head
                switch opcode {
                case .ping: return .ping(control)
                case .close: return .close(control)
                case .pong, .continuation, .text, .binary: continue
                }
            }
        }
    }

    /// Takes bytes until the head is complete.
    private mutating func collectHead(_ source: inout UnsafeRawBufferPointer) -> Bool {
        while headCount < 2 || headCount < WebSocketFrameHead.byteCount(head[1]) {
            guard let byte = source.first else { return false }
            head[headCount] = byte
            headCount += 1
            source = UnsafeRawBufferPointer(rebasing: source[1...])
        }
        headCount = 0
        return true
    }

    private mutating func begin(_ head: WebSocketFrameHead) throws(WebSocketViolation) {
        mask = head.mask
        if head.opcode.isControl {
            remaining = Int(head.length)
            control = []
            state = .control(head.opcode)
            return
        }
        // [MQTT-6.0.0-1 v5]
        guard head.opcode != .text else { throw .init(.unacceptableData, "a text frame came, and MQTT is binary") }
        guard isInMessage == (head.opcode == .continuation) else {
            throw .init(.protocolError, isInMessage ? "a message began inside another" : "a continuation came without a beginning")
        }
        guard head.length <= frameBytesMax else {
            throw .init(.messageTooLarge, "a frame of \(head.length) bytes exceeds \(frameBytesMax)")
        }
        isInMessage = !head.isFinal
        remaining = Int(head.length)
        state = .data
    }

    private mutating func collectControl(_ source: inout UnsafeRawBufferPointer) -> Bool {
        let start = control.count
        var bytes = control + repeatElement(0, count: min(remaining, source.count))
        bytes.withUnsafeMutableBytes { _ = take(&source, into: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        control = bytes
        return remaining == 0
    }

    /// Moves what has come of the payload from the front of `source` to the front of `target`, without its mask; returns how much.
    private mutating func take(_ source: inout UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Int {
        let taken = min(remaining, source.count)
        mask.copy(UnsafeRawBufferPointer(rebasing: source[..<taken]), into: target)
        source = UnsafeRawBufferPointer(rebasing: source[taken...])
        remaining -= taken
        return taken
    }
}
