/// Cuts a server's bytes into operations, wherever the pieces end in which they come. What is not exactly as the protocol has it is refused.
///
///     line ──► operation
///       └────► MSG, HMSG ──► payload, CR LF ──► operation
///
/// Source: NATS client protocol; names of operations may be in either case, fields are parted by blanks and tabulators.
/// Invariant: `waiting` is empty, or begins with an operation that is not complete, and cannot be with less than `needed` bytes.
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
        var head = 0
        while !waiting.isEmpty {
            // No more is copied than the operation lacks that has begun.
            let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
            let count = lacking(of: rest)
            waiting.append(contentsOf: rest[..<count])
            head += count
            guard waiting.count >= needed, try readWaiting(body) else { return }
        }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
        guard let done = try Self.take(rest, &needed, body), done < rest.count else { return }
        waiting.append(contentsOf: rest[done...])
    }

    /// How many of these bytes come before what waits is worth another look: those that it is known to need, or those up to its line's end.
    private func lacking(of bytes: UnsafeRawBufferPointer) -> Int {
        if needed > waiting.count + 1 { return min(needed - waiting.count, bytes.count) }
        return Self.lineEnd(bytes, within: bytes.count).map { $0 + 1 } ?? bytes.count
    }

    /// Works off what waits; false if the reading has ended.
    private mutating func readWaiting(_ body: (ServerOperation) -> Bool) throws(WireError) -> Bool {
        var whole: [UInt8] = []
        swap(&whole, &waiting)
        let done = try whole.withUnsafeBufferPointer { (bytes) throws(WireError) in
            try Self.take(UnsafeRawBufferPointer(bytes), &needed, body)
        }
        guard let done else { return false }
        whole.removeFirst(done)
        if !whole.isEmpty || whole.capacity <= Limits.keptBufferBytesMax { waiting = whole }
        return true
    }

    /// Works off complete operations; returns how many bytes that were, or nil if the reading has ended.
    private static func take(
        _ bytes: UnsafeRawBufferPointer, _ needed: inout Int, _ body: (ServerOperation) -> Bool
    ) throws(WireError) -> Int? {
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
            if !body(operation) { return nil }
        }
        return head
    }

    /// How long the line is, without its end; nil if that has not come.
    private static func lineLength(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> Int? {
        guard let end = lineEnd(bytes, within: min(bytes.count, Limits.lineBytesMax)) else {
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

    private static func lineEnd(_ bytes: UnsafeRawBufferPointer, within count: Int) -> Int? {
        var end = 0
        while end < count, bytes[end] != 0x0A { end += 1 }
        return end < count ? end : nil
    }
}
