/// Why a file of users, rules or keys cannot be used: everything that is wrong with it, in the order of its lines.
public struct SecurityFileError: Error, Sendable, Equatable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    init(_ problems: [SecurityFileProblem]) { self.problems = problems }

    init(file: String, message: String) { self.init([SecurityFileProblem(file: file, message: message)]) }

    public var description: String { problems.map(\.description).joined(separator: "\n") }
}
