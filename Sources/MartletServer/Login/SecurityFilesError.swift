import Configuration
import Platform
public import Security

/// Why the files of users, rules and keys cannot be used: all that is wrong with any of them.
public struct SecurityFilesError: Error, Sendable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    /// One problem a line, without the last full stop.
    public var description: String { String(problems.map(\.description).joined(separator: "\n").dropLast()) }
}

extension SecurityFileProblem {
    /// As the start and the check of a configuration say it: at its own line, or else at the option that names the file.
    func diagnostic(in result: ConfigurationResult) -> Diagnostic {
        let severity: Diagnostic.Severity = severity == .error ? .error : .warning
        guard line == nil else { return Diagnostic(severity: severity, file: FullPath.of(file), line: line, message: message) }
        let remark = StartRemark(option: option, value: file, message: advice ?? "\(FullPath.of(file)) \(message)")
        return remark.diagnostic(severity, in: result)
    }

    /// Says what is in the way of the file, and what to type against it; nil when nothing is.
    private var advice: String? {
        // What makes a file that is missing says itself why it cannot.
        if option?.hasPrefix("plugin_opt_") == true { return nil }
        guard let obstacle = FileAdvice.obstacle(toReading: file) else { return nil }
        guard case .missing(let path) = obstacle else { return "\(obstacle.advice())." }
        let missing = MissingFile(path)
        // A file that is there under nearly the same name is meant, and none is made where there is no directory.
        guard missing.directory == nil, missing.neighbour == nil else { return "\(missing.words)." }
        switch option {
        case "password_file": return "\(path) does not exist. Make it: martlet passwd -c \(path) USER."
        case "martlet_scram_file": return "\(path) does not exist. Make it: martlet passwd -H scram-sha-256 -c \(path) USER."
        default: return "\(path) does not exist."
        }
    }
}
