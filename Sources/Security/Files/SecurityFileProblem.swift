/// One thing that is wrong with a file of users, rules or keys.
public struct SecurityFileProblem: Sendable, Equatable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// The file is not usable.
        case error
        /// The file is usable; a line is probably not what was meant.
        case warning
    }

    public var severity: Severity
    /// The option that names the file, where it is known.
    public var option: String?
    /// As the configuration names it.
    public var file: String
    /// Counted from 1; nil when the whole file is meant.
    public var line: Int?
    /// A sentence with its full stop. Never holds a password or a key.
    public var message: String

    public init(severity: Severity = .error, file: String, line: Int? = nil, message: String) {
        self.severity = severity
        self.file = file
        self.line = line
        self.message = message
    }

    /// One line for the log, without its severity: `users:3: the user anna stands in line 1 already.`
    public var description: String {
        "\(option.map { "\($0) " } ?? "")\(file)\(line.map { ":\($0)" } ?? ""): \(message)"
    }
}

/// Why a file of users, rules or keys cannot be used: everything that is wrong with it, in the order of its lines.
public struct SecurityFileError: Error, Sendable, Equatable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    public init(_ problems: [SecurityFileProblem]) { self.problems = problems }

    public init(file: String, message: String) { self.init([SecurityFileProblem(file: file, message: message)]) }

    public var description: String { problems.map(\.description).joined(separator: "\n") }
}
