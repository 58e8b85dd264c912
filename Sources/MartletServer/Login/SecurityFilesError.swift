public import Security

/// Why the files of users, rules and keys cannot be used: all that is wrong with any of them.
public struct SecurityFilesError: Error, Sendable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    /// One problem a line, without the last full stop.
    public var description: String { String(problems.map(\.description).joined(separator: "\n").dropLast()) }
}
