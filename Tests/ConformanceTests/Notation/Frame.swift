import MQTTCodec

/// Bytes as a person writes them down, for a connection of some version.
///
///     30 { 't/1' ~ "hello" }     a PUBLISH: remaining length, topic, property length, payload
///
/// | written | means |
/// |---|---|
/// | `3000` | bytes in hexadecimal |
/// | `61*300` | the same bytes so many times over |
/// | `'text'` | a text behind its two-byte length |
/// | `"text"` | a text's bytes alone |
/// | `( … )` | what stands inside, behind its two-byte length |
/// | `{ … }` | what stands inside, behind its variable byte integer: a remaining length or a property length |
/// | `{}` | the same with nothing inside |
/// | `~` | a property length of 0 in MQTT 5.0, nothing before |
/// | `$` | the protocol level of the version |
///
/// Words stand apart by spaces, so a text has none. Tests/Integration/harness/frame.py reads the same.
struct Frame: Hashable, CustomStringConvertible {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(_ text: String, _ version: ProtocolVersion) {
        var reader = FrameReader(words: text.split(separator: " ").map(String.init), version: version)
        bytes = reader.readToEnd()
    }

    /// A packet of `first` and the remaining length in front of `body`.
    init(first: UInt8, body: [UInt8]) { bytes = [first] + Self.variableLength(body.count) + body }

    /// The bytes in hexadecimal, the first 40.
    var description: String { bytes.prefix(40).map(Self.hexadecimal).joined(separator: " ") + (bytes.count > 40 ? " …" : "") }

    static func variableLength(_ number: Int) -> [UInt8] {
        number < 128 ? [UInt8(number)] : [UInt8(number % 128) | 0x80] + variableLength(number / 128)
    }

    static func twoBytes(_ number: Int) -> [UInt8] { [UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)] }

    static func hexadecimal(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }
}
