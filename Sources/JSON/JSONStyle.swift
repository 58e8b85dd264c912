/// How JSON looks, where readers have the choice: what is written means the same.
public enum JSONStyle: Sendable {
    /// Without blanks; control characters and DEL as `\n`, `\r`, `\t` and `\u00XX`.
    case plain
    /// As the library cJSON prints it, which mosquitto uses: without blanks; `\b` and `\f` too, and DEL as it is.
    case cJSON
    /// The same for people: a line for each member, behind tabulators.
    case cJSONLines
}

/// Texts as JSON writes them.
enum JSONText {
    /// Appends a text in quotes, with what may not stand in a JSON string escaped. Bytes that are no UTF-8 stay as they are. RFC 8259, section 7.
    @inline(__always)
    static func append(_ text: some Collection<UInt8>, to bytes: inout [UInt8], _ style: JSONStyle) {
        bytes.append(UInt8(ascii: "\""))
        let isDone: Void? = text.withContiguousStorageIfAvailable { append($0, to: &bytes, style) }
        if isDone == nil { Array(text).withUnsafeBufferPointer { append($0, to: &bytes, style) } }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func append(_ text: UnsafeBufferPointer<UInt8>, to bytes: inout [UInt8], _ style: JSONStyle) {
        var written = 0
        for place in text.indices where isEscaped(text[place]) {
            bytes.append(contentsOf: text[written..<place])
            written = place + 1
            append(escaped: text[place], to: &bytes, style)
        }
        bytes.append(contentsOf: text[written...])
    }

    private static func append(escaped byte: UInt8, to bytes: inout [UInt8], _ style: JSONStyle) {
        let short: Unicode.Scalar? =
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): Unicode.Scalar(byte)
            case 0x0A: "n"
            case 0x0D: "r"
            case 0x09: "t"
            case 0x08 where style != .plain: "b"
            case 0x0C where style != .plain: "f"
            default: nil
            }
        if byte == 0x7F, style != .plain { return bytes.append(byte) }
        bytes.append(UInt8(ascii: "\\"))
        if let short { return bytes.append(UInt8(ascii: short)) }
        bytes.append(contentsOf: "u00".utf8)
        for digit in [byte >> 4, byte & 15] { bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
    }

    @inline(__always)
    private static func isEscaped(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F }
}
