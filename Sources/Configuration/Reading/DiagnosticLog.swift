/// The diagnostics so far, bounded so that a file of noise costs neither memory nor time without end.
struct DiagnosticLog: Sendable {
    private(set) var diagnostics: [Diagnostic] = []

    /// Nothing more will be kept: reading on is of no use.
    var isFull: Bool { diagnostics.count > Limits.diagnosticsMax }

    /// In the order of the lines, file by file; what concerns no line in particular comes last, and behind it that there is too much.
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
