internal import Platform

/// Cuts the bytes of a file into its lines that name an option.
///
///     name  blanks  value  blanks  [CR] LF
///
/// A comment is a line whose first character is `#`; there is none at the end of a line, and nothing is quoted or escaped.
enum LineReader {
    /// The lines of `bytes` that name an option, in order. What cannot be one is reported and left out.
    static func lines(of bytes: [UInt8], file: String, log: inout DiagnosticLog) -> [ConfigurationLine] {
        var lines: [ConfigurationLine] = []
        var rest = bytes[...]
        if rest.starts(with: ByteOrderMark.bytes) {
            rest = rest.dropFirst(ByteOrderMark.bytes.count)
            log.warning(
                "the file begins with a byte order mark; mosquitto would not read its first line.",
                at: SourcePosition(file: file, line: 1))
        }
        var number = 0
        while !rest.isEmpty && !log.isFull {
            number += 1
            let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
            let position = SourcePosition(file: file, line: number)
            if let line = line(rest[rest.startIndex..<end], at: position, log: &log) { lines.append(line) }
            rest = rest[min(end + 1, rest.endIndex)...]
        }
        return lines
    }

    /// The option that one line names; nil for a comment, an empty line, and a line that is reported instead.
    private static func line(
        _ bytes: ArraySlice<UInt8>, at position: SourcePosition, log: inout DiagnosticLog
    ) -> ConfigurationLine? {
        var bytes = bytes
        if bytes.last == UInt8(ascii: "\r") { bytes = bytes.dropLast() }
        if bytes.first == UInt8(ascii: "#") { return nil }
        guard bytes.count <= Limits.lineBytesMax else {
            log.error("the line is longer than \(Limits.lineBytesMax) bytes.", at: position)
            return nil
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            log.error("the line is not valid UTF-8; save the file in that encoding.", at: position)
            return nil
        }
        if let complaint = complaint(about: text) {
            log.error(complaint, at: position)
            return nil
        }
        let trimmed = text.trimmed
        guard let first = trimmed.first else { return nil }
        guard first != "#" else {
            log.warning("a comment has to begin at the first character of its line; mosquitto would refuse this one.", at: position)
            return nil
        }
        let name = trimmed.prefix { $0 != " " && $0 != "\t" }
        return ConfigurationLine(
            position: position, name: String(name), value: trimmed[name.endIndex...].trimmed)
    }

    /// Why no value may hold `text`, as a sentence; nil if one may.
    static func complaint(about text: String) -> String? {
        for scalar in text.unicodeScalars where scalar != "\t" {
            if scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) {
                let digits = String(scalar.value, radix: 16, uppercase: true)
                return "the line holds the control character U+\(String(repeating: "0", count: 4 - digits.count))\(digits)."
            }
        }
        return nil
    }
}
