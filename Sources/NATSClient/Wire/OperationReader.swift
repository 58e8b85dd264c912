/// Cuts a server's bytes into operations, wherever the pieces end in which they come. What is not exactly as the protocol has it is refused.
///
///     line ──► operation
///       └────► MSG, HMSG ──► payload, CR LF ──► operation
///
/// Source: NATS client protocol; names of operations may be in either case, fields are parted by blanks and tabulators.
/// Invariant: `waiting` begins with an operation that is not complete, and no `missing` bytes more could complete it before all of them
/// have come.
public struct OperationReader: Sendable {
    private var waiting: [UInt8] = []
    /// How many bytes `waiting` needs at least before it is worth a look.
    private var needed = 0

    public init() {}

    /// How many bytes wait for the rest of their operation.
    public var waitingByteCount: Int { waiting.count }

    /// Gives every operation that is complete, in order. After an error nothing more may be read. `body` gets operations whose views are valid
    /// during the call; with false it ends the reading, and the rest is dropped.
    public mutating func read(_ bytes: UnsafeRawBufferPointer, _ body: (ServerOperation) -> Bool) throws(WireError) {
        guard !waiting.isEmpty else {
            let done = try Self.take(bytes, &needed, body)
            if done < bytes.count { waiting.append(contentsOf: bytes[done...]) }
            return
        }
        waiting.append(contentsOf: bytes)
        guard waiting.count >= needed else { return }
        var whole: [UInt8] = []
        swap(&whole, &waiting)
        let done = try whole.withUnsafeBufferPointer { (bytes) throws(WireError) in
            try Self.take(UnsafeRawBufferPointer(bytes), &needed, body)
        }
        if done == whole.count {
            if whole.capacity <= Limits.keptBufferBytesMax {
                whole.removeAll(keepingCapacity: true)
                waiting = whole
            }
        } else {
            whole.removeFirst(done)
            waiting = whole
        }
    }

    /// Works off complete operations; returns how many bytes that were.
    private static func take(
        _ bytes: UnsafeRawBufferPointer, _ needed: inout Int, _ body: (ServerOperation) -> Bool
    ) throws(WireError) -> Int {
        var head = 0
        needed = 0
        while head < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
            guard let lineCount = try lineLength(rest) else {
                needed = rest.count + 1
                return head
            }
            let line = ControlLine(UnsafeRawBufferPointer(rebasing: rest[..<lineCount]))
            var count = lineCount + 2
            let operation: ServerOperation
            if let envelope = try line.envelope() {
                count += envelope.byteCount + 2
                guard rest.count >= count else {
                    needed = count
                    return head
                }
                operation = try .message(envelope.message(UnsafeRawBufferPointer(rebasing: rest[(lineCount + 2)..<count])))
            } else {
                operation = try line.operation()
            }
            head += count
            if !body(operation) { return bytes.count }
        }
        return head
    }

    /// How long the line is, without its end; nil if that has not come.
    private static func lineLength(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> Int? {
        let window = min(bytes.count, Limits.lineBytesMax)
        var end = 0
        while end < window, bytes[end] != 0x0A { end += 1 }
        guard end < window else {
            guard bytes.count < Limits.lineBytesMax else {
                throw WireError(description: "a control line has more than \(Limits.lineBytesMax) bytes")
            }
            return nil
        }
        guard end > 0, bytes[end - 1] == 0x0D else {
            throw WireError(description: "a control line does not end with CR LF")
        }
        return end - 1
    }
}
