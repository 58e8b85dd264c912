/// The diagnostics so far, bounded so that a file of noise costs neither memory nor time without end.
struct DiagnosticLog: Sendable {
    private(set) var diagnostics: [Diagnostic] = []

    /// Nothing more will be kept: reading on is of no use.
    var isFull: Bool { diagnostics.count > Limits.diagnosticsMax }

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
