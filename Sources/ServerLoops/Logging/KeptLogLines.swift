import BrokerModel

/// The last lines of the log, packed one behind the other: a busy broker writes many, and few ever ask for them.
///
///     blocks:  [ line line line … ] [ line line … ]        the oldest block goes when it is not needed for `linesMax`, or bytes run out
///     line:    seconds 8 │ nanoseconds 4 │ topic 2 │ parts 1 │ text │ client? │ user? │ address? │ topic? │ reason?
///
/// A text is its length in four bytes, and its bytes; `parts` says which of the five are there, and whether there are fields at all.
/// Starts empty, and grows with use.
package struct KeptLogLines {
    private struct Block {
        package var bytes: [UInt8] = []
        package var count = 0

        /// The first one grows with use; the others will be full.
        init(isFirst: Bool) { if !isFirst { bytes.reserveCapacity(KeptLogLines.blockBytes + 1024) } }
    }

    private var blocks: [Block] = []
    private var count = 0
    private var byteCount = 0
    private let linesMax: Int
    private let bytesMax: Int

    init(linesMax: Int = Limits.keptLogLinesMax, bytesMax: Int = Limits.keptLogBytesMax) {
        (self.linesMax, self.bytesMax) = (linesMax, bytesMax)
    }

    /// Adds the newest one.
    package mutating func add(_ line: LogLine) {
        if blocks.last.map({ $0.bytes.count >= Self.blockBytes }) ?? true { blocks.append(Block(isFirst: blocks.isEmpty)) }
        let last = blocks.count - 1
        let before = blocks[last].bytes.count
        Self.write(line, to: &blocks[last].bytes)
        blocks[last].count += 1
        count += 1
        byteCount += blocks[last].bytes.count - before
        while let first = blocks.first, count - first.count >= linesMax || byteCount > bytesMax {
            count -= first.count
            byteCount -= first.bytes.count
            blocks.removeFirst()
        }
    }

    /// The newest ones, the oldest of them first; no more than are kept.
    package func last(_ countMax: Int) -> [LogLine] {
        var left = max(0, countMax)
        var lines: [LogLine] = []
        for block in blocks.reversed() where left > 0 {
            let read = Self.lines(of: block.bytes).suffix(left)
            left -= read.count
            lines = read + lines
        }
        return lines
    }

    private static func write(_ line: LogLine, to bytes: inout [UInt8]) {
        func write(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) } }
        func write(_ text: String) {
            var text = text
            text.withUTF8 {
                write(UInt32(clamping: $0.count))
                bytes.append(contentsOf: $0)
            }
        }
        write(Int64(line.seconds))
        write(Int32(clamping: line.nanoseconds))
        write(line.topic.rawValue)
        let parts = line.fields.map { [$0.client, $0.user, $0.address, $0.topic, $0.reason] } ?? []
        var present: UInt8 = line.fields == nil ? 0 : hasFields
        for (position, part) in parts.enumerated() where part != nil { present |= 1 << UInt8(position) }
        write(present)
        write(line.text)
        for case let part? in parts { write(part) }
    }

    private static func lines(of bytes: [UInt8]) -> [LogLine] {
        bytes.withUnsafeBytes { bytes in
            var (offset, lines) = (0, [LogLine]())
            func read<Number: FixedWidthInteger & BitwiseCopyable>(_: Number.Type) -> Number {
                defer { offset += MemoryLayout<Number>.size }
                return bytes.loadUnaligned(fromByteOffset: offset, as: Number.self)
            }
            func text() -> String {
                let count = Int(read(UInt32.self))
                defer { offset += count }
                return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
            }
            while offset < bytes.count {
                let (seconds, nanoseconds) = (read(Int64.self), read(Int32.self))
                let topic = LogTopics(rawValue: read(UInt16.self))
                let present = read(UInt8.self)
                let line = text()
                func part(_ position: UInt8) -> String? { present & 1 << position == 0 ? nil : text() }
                let parts = (part(0), part(1), part(2), part(3), part(4))
                let fields =
                    present & hasFields == 0
                    ? nil : LogFields(client: parts.0, user: parts.1, address: parts.2, topic: parts.3, reason: parts.4)
                lines.append(LogLine(topic, line, seconds: Int(seconds), nanoseconds: Int(nanoseconds), fields: fields))
            }
            return lines
        }
    }

    private static let hasFields: UInt8 = 1 << 7
    /// Some 200 lines.
    private static let blockBytes = 31 << 10
}
