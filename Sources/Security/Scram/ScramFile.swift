internal import Cryptography
internal import MQTTCodec

/// `martlet_scram_file`: `user:SCRAM-SHA-256$…` on each line.
///
/// Two names that SASLprep makes one are one user's.
///
/// Immutable; shared by all loops.
public struct ScramFile: Sendable {
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]
    private let credentials: [[UInt8]: ScramCredentials]
    /// What stands in for users that are not there.
    private let standIn: ScramStandIn

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path)
    }

    /// Reads the bytes of a file; `file` is what messages call it.
    public init(_ bytes: [UInt8], file: String) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var credentials: [[UInt8]: ScramCredentials] = [:]
        for line in lines.lines {
            guard let entry = CredentialLine(line.text) else {
                lines.report(
                    "the line has no colon between a user and an entry, and is passed over. Set the user's password: "
                        + "martlet passwd -H scram-sha-256 \(file) USER.", line: line.number, severity: .warning)
                continue
            }
            let name = String(decoding: entry.user, as: UTF8.self)
            if entry.user.isEmpty {
                lines.report("the user's name is empty.", line: line.number)
                continue
            }
            if EncodedString(Array(entry.user)) == nil {
                lines.report("the user's name is not valid UTF-8, or longer than 65535 bytes.", line: line.number)
                continue
            }
            guard let user = SASLprep.prepare(Array(entry.user), for: .storing) else {
                lines.report(
                    "the user's name holds what SASLprep (RFC 4013) forbids, or is longer than \(SASLprep.preparedBytes) bytes.",
                    line: line.number)
                continue
            }
            if credentials[user] != nil {
                lines.report("the user \(name) is in the file twice.", line: line.number)
            } else if let parsed = ScramCredentials(String(decoding: entry.secret, as: UTF8.self)) {
                credentials[user] = parsed
            } else {
                lines.report(
                    "the entry of \(name) does not have the form SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY; "
                        + "\"martlet passwd -H scram-sha-256 FILE USER\" makes such entries.", line: line.number)
            }
        }
        try lines.check()
        warnings = lines.problems
        self.credentials = credentials
        standIn = ScramStandIn(for: credentials.values)
    }

    public var count: Int { credentials.count }

    /// Whether a prepared user is in both files, with the same password.
    func hasSameEntry(of user: [UInt8], as other: ScramFile) -> Bool {
        guard let entry = credentials[user] else { return false }
        return other.credentials[user] == entry
    }

    /// A prepared user's credentials, or for one that is not there such that nobody has, the same each time.
    func credentials(of user: [UInt8]) -> ScramCredentials { credentials[user] ?? standIn.credentials(of: user) }
}
