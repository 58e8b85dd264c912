internal import Platform

/// Cuts the bytes of a file into its lines that name an option.
///
///     name  blanks  value  blanks  [CR] LF
///
/// A comment is a line whose first character is `#`; there is none at the end of a line, and nothing is quoted or
/// escaped.
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

/// A line that names an option.
struct ConfigurationLine: Sendable, Equatable {
    var position: SourcePosition
    /// The first word.
    var name: String
    /// The rest, without blanks at its ends. May be empty.
    var value: String
}

/// Where a line stands.
struct SourcePosition: Sendable, Equatable {
    /// The file as it was named.
    var file: String
    /// Counted from 1.
    var line: Int

    /// How a message about `other` names this position: the file only if it is another one.
    func location(from other: SourcePosition) -> String {
        file == other.file ? "line \(line)" : "\(file):\(line)"
    }
}

/// The diagnostics so far, bounded so that a file of noise costs neither memory nor time without end.
struct DiagnosticLog: Sendable {
    private(set) var diagnostics: [Diagnostic] = []

    /// Nothing more will be kept: reading on is of no use.
    var isFull: Bool { diagnostics.count > Limits.diagnosticsMax }

    /// In the order of the lines, file by file; what concerns no line in particular comes last, and behind it that
    /// there is too much.
    var sorted: [Diagnostic] {
        var ranks: [String: Int] = [:]
        for diagnostic in diagnostics where ranks[diagnostic.file] == nil { ranks[diagnostic.file] = ranks.count }
        let kept = diagnostics.prefix(Limits.diagnosticsMax).enumerated().map { entry in
            let (index, diagnostic) = (entry.offset, entry.element)
            return (
                place: (diagnostic.line == nil ? 1 : 0, ranks[diagnostic.file] ?? 0, diagnostic.line ?? 0, index),
                diagnostic: diagnostic
            )
        }
        return kept.sorted { $0.place < $1.place }.map(\.diagnostic) + diagnostics.dropFirst(Limits.diagnosticsMax)
    }

    mutating func error(_ message: String, at position: SourcePosition, option: String? = nil) {
        add(Diagnostic(severity: .error, file: position.file, line: position.line, option: option, message: message))
    }

    mutating func warning(_ message: String, at position: SourcePosition, option: String? = nil) {
        add(Diagnostic(severity: .warning, file: position.file, line: position.line, option: option, message: message))
    }

    mutating func add(_ diagnostic: Diagnostic) {
        if diagnostics.count < Limits.diagnosticsMax {
            diagnostics.append(diagnostic)
        } else if !isFull {
            diagnostics.append(
                Diagnostic(
                    severity: .error, file: diagnostic.file, line: diagnostic.line,
                    message: "too many problems; the rest is not read."))
        }
    }
}

/// Finds what is wrong with the options of a cluster together.
struct ClusterCheck {
    let cluster: ClusterConfiguration
    /// Where its options stand.
    let positions: [String: SourcePosition]

    func run(log: inout DiagnosticLog) {
        if cluster == ClusterConfiguration() { return }
        guard cluster.isEnabled else {
            // A line that was refused says what is wrong.
            guard positions["martlet_cluster_servers"] == nil else { return }
            for option in ConfigurationOption.clusterOptions {
                guard let position = positions[option.name] else { continue }
                log.warning("it has no effect without martlet_cluster_servers.", at: position, option: option.name)
            }
            return
        }
        if cluster.name == nil {
            error("martlet_cluster_servers", "it needs martlet_cluster_name too, the same name on all nodes.", &log)
        }
        if (cluster.userName == nil) != (cluster.password == nil) {
            error(
                cluster.userName == nil ? "martlet_cluster_password" : "martlet_cluster_user",
                "martlet_cluster_user and martlet_cluster_password need each other.", &log)
        }
        if [cluster.userName, cluster.token, cluster.keyFile].compactMap({ $0 }).count > 1 {
            error(
                cluster.keyFile == nil ? "martlet_cluster_token" : "martlet_cluster_nkey_file",
                "give one login only: a user, a token or an NKey.", &log)
        }
        if (cluster.certificateFile == nil) != (cluster.certificateKeyFile == nil) {
            error(
                cluster.certificateFile == nil ? "martlet_cluster_keyfile" : "martlet_cluster_certfile",
                "martlet_cluster_certfile and martlet_cluster_keyfile need each other.", &log)
        }
    }

    private func error(_ option: String, _ message: String, _ log: inout DiagnosticLog) {
        guard let position = positions[option] else { return }
        log.error(message, at: position, option: option)
    }
}

extension Limits {
    /// Bytes of a line: a value, its name, and blanks. A longer one is an error.
    static let lineBytesMax = valueBytesMax + 1024
}
