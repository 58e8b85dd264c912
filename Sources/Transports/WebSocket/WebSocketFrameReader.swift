/// Takes a client's frames apart, whatever their alignment to reads and to MQTT packets. [MQTT-6.0.0-2 v5]
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
    private var state = State.head
    private var head = InlineArray<14, UInt8>(repeating: 0)
    private var headCount = 0
    /// How much of the frame's payload is still to come.
    private var remaining = 0
    /// The mask, turned so that its lowest byte is for the next one.
    private var mask: UInt32 = 0
    private var control: [UInt8] = []
    /// Whether a message has begun whose last frame has not.
    private var isInMessage = false

    init(frameBytesMax: UInt64) {
        self.frameBytesMax = frameBytesMax
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
                    try begin(WebSocketFrameHead(head))
                } catch {
                    return .violation(error)
                }
            case .data:
                let taken = min(remaining, source.count)
                unmask(source, taken, into: UnsafeMutableRawBufferPointer(rebasing: target[count...]))
                advance(&source, by: taken)
                count += taken
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
        let taken = min(remaining, source.count)
        let start = control.count
        control.append(contentsOf: repeatElement(0, count: taken))
        var bytes = control
        control = []
        bytes.withUnsafeMutableBytes { unmask(source, taken, into: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        control = bytes
        advance(&source, by: taken)
        return remaining == 0
    }

    private mutating func advance(_ source: inout UnsafeRawBufferPointer, by taken: Int) {
        source = UnsafeRawBufferPointer(rebasing: source[taken...])
        remaining -= taken
        let turn = 8 * UInt32(taken & 3)
        if turn > 0 { mask = mask >> turn | mask << (32 - turn) }
    }

    /// Copies and unmasks eight bytes at a time. The target is at least as long.
    private func unmask(_ source: UnsafeRawBufferPointer, _ taken: Int, into target: UnsafeMutableRawBufferPointer) {
        precondition(target.count >= taken, "a target holds what the source gives")
        guard taken > 0, let from = source.baseAddress, let to = target.baseAddress else { return }
        let wide = (UInt64(mask) << 32 | UInt64(mask)).littleEndian
        var offset = 0
        while offset &+ 8 <= taken {
            let word = from.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            to.storeBytes(of: word ^ wide, toByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
        while offset < taken {
            let byte = UInt8(truncatingIfNeeded: mask >> (8 * UInt32(offset & 3)))
            to.storeBytes(of: from.load(fromByteOffset: offset, as: UInt8.self) ^ byte, toByteOffset: offset, as: UInt8.self)
            offset &+= 1
        }
    }
}
