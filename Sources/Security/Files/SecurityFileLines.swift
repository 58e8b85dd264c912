internal import Platform

/// The lines of a file of users, rules or keys that say something: no comment, nothing empty.
struct SecurityFileLines {
    struct Line {
        /// Counted from 1.
        let number: Int
        /// Without blanks at its end.
        let text: [UInt8]
    }

    let file: String
    private(set) var lines: [Line] = []
    private(set) var problems: [SecurityFileProblem] = []

    init(_ bytes: [UInt8], file: String) {
        self.file = file
        var bytes = bytes
        if ByteOrderMark.drop(from: &bytes) {
            report(
                "the file begins with a byte order mark; mosquitto would not read its first line.", line: 1, severity: .warning)
        }
        let parts = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            let text = part.trimmedEnd
            guard let first = text.first, first != UInt8(ascii: "#") else { continue }
            if text.count > Limits.lineBytesMax {
                report("the line is longer than \(Limits.lineBytesMax) bytes.", line: index + 1)
            } else if text.contains(0) {
                report("the line holds a zero byte.", line: index + 1)
            } else {
                lines.append(Line(number: index + 1, text: Array(text)))
            }
        }
    }

    mutating func report(_ message: String, line: Int, severity: SecurityFileProblem.Severity = .error) {
        guard problems.count < Limits.problemsMax else { return }
        problems.append(SecurityFileProblem(severity: severity, file: file, line: line, message: message))
    }

    /// Throws when anything reported is an error.
    func check() throws(SecurityFileError) {
        if problems.contains(where: { $0.severity == .error }) {
            throw SecurityFileError(problems.filter { $0.severity == .error })
        }
    }
}

extension Collection<UInt8> where Self: BidirectionalCollection, SubSequence: BidirectionalCollection {
    /// Without the blanks at its end.
    var trimmedEnd: SubSequence {
        var end = endIndex
        while end > startIndex, self[index(before: end)].isBlank { end = index(before: end) }
        return self[startIndex..<end]
    }

    /// Without the blanks at both ends.
    var trimmedBlanks: SubSequence {
        let start = firstIndex { !$0.isBlank } ?? endIndex
        return self[start...].trimmedEnd[...]
    }
}

extension UInt8 {
    /// What C's `isspace` takes for a blank.
    var isBlank: Bool { self == UInt8(ascii: " ") || (9...13).contains(self) }
}
