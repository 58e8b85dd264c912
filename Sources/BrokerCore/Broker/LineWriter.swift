import MQTTCodec

/// Puts a line of the log together in one piece of memory: interpolation grows a string again and again, and every client that comes and
/// goes makes three lines.
///
///     String.line(room: 64) { $0.write("Client "); $0.write(identifier); $0.write(" closed its connection.") }
///
/// What has no room is left out.
struct LineWriter {
    private let buffer: UnsafeMutableBufferPointer<UInt8>
    fileprivate private(set) var count = 0

    fileprivate init(_ buffer: UnsafeMutableBufferPointer<UInt8>) { self.buffer = buffer }

    mutating func write(_ words: StaticString) {
        write(UnsafeRawBufferPointer(start: words.utf8Start, count: words.utf8CodeUnitCount))
    }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    /// What a peer called something, as `LoggedText` shows it.
    mutating func write(_ text: EncodedString) {
        guard text.count <= Self.plainBytes else { return write(LoggedText(text.bytes).description) }
        text.bytes.withUnsafeBytes { write($0) }
    }

    mutating func write(_ number: UInt16) {
        var divisor: UInt16 = 10_000
        while divisor > 1, number < divisor { divisor /= 10 }
        while divisor > 0 {
            write(digit: UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    /// - Parameter digit: below 10.
    mutating func write(digit: UInt8) {
        guard count < buffer.count else { return }
        buffer[count] = UInt8(ascii: "0") &+ digit
        count += 1
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let start = buffer.baseAddress, bytes.count <= buffer.count - count else { return }
        UnsafeMutableRawPointer(start + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    /// What `write` of the text takes at most, with the dots behind one that is cut.
    static func room(for text: EncodedString?) -> Int { text.map { min($0.count + 3, longestBytes) } ?? 0 }

    /// A text of no more bytes is certainly shown as it is.
    private static let plainBytes = 128
    /// More than `LoggedText` ever shows.
    private static let longestBytes = 512
}

extension String {
    /// - Parameters:
    ///   - room: the bytes of the line at most.
    ///   - write: writes it.
    static func line(room: Int, _ write: (inout LineWriter) -> Void) -> String {
        String(unsafeUninitializedCapacity: room) { buffer in
            var writer = LineWriter(buffer)
            write(&writer)
            return writer.count
        }
    }
}
