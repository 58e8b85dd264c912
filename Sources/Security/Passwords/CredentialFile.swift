internal import Platform

/// A file of passwords or SCRAM entries as it is edited: every line stays as it is and where it is, but for the users
/// that are changed.
public struct CredentialFile: Sendable {
    /// Why a user cannot be entered.
    public enum NameComplaint: Error, Sendable {
        case empty
        /// It holds a colon, a line break or a zero byte, begins with #, or begins or ends with a blank.
        case unwritable
        case tooLong
    }

    private var lines: [[UInt8]]

    /// A new file, without users.
    public init() { lines = [] }

    /// Takes the bytes of a file; a byte order mark in front of them, which no user's name begins with, goes when it is
    /// written.
    public init(_ bytes: [UInt8]) {
        var bytes = bytes
        ByteOrderMark.drop(from: &bytes)
        lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
            // However many there are: of two that stood there one would stay, and go when the file is edited next.
            Array(line[..<(line.lastIndex { $0 != UInt8(ascii: "\r") }.map { $0 + 1 } ?? line.startIndex)])
        }
        if lines.last?.isEmpty == true { lines.removeLast() }
    }

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        self.init(try SecurityFileReader.contents(of: path))
    }

    /// The bytes of the file; each line ends with a line feed.
    public var bytes: [UInt8] { lines.flatMap { $0 + [UInt8(ascii: "\n")] } }

    /// Whether the user has a line.
    public func contains(_ user: String) -> Bool { lines.contains { Self.names($0, user) } }

    /// The users in the order of the file, each with its line, counted from 1, and the kind of its hash, as `argon2id`.
    public var users: [(name: String, line: Int, scheme: String)] {
        lines.enumerated().compactMap { index, line in
            guard let parts = CredentialLine(line), !parts.user.isEmpty else { return nil }
            let secret = String(decoding: parts.secret, as: UTF8.self)
            return (String(decoding: parts.user, as: UTF8.self), index + 1, Self.scheme(of: secret))
        }
    }

    private static func scheme(of secret: String) -> String {
        if ScramCredentials(secret) != nil { return PasswordScheme.scramSHA256.rawValue }
        return switch (try? PasswordHash(secret))?.recipe {
        case .sha512: PasswordScheme.sha512.rawValue
        case .pbkdf2: PasswordScheme.sha512PBKDF2.rawValue
        case .argon2id: PasswordScheme.argon2id.rawValue
        case nil: "unknown"
        }
    }

    /// Gives a user an entry, in place of the one before or at the end.
    public mutating func set(_ user: String, to entry: String) throws(NameComplaint) {
        let name = Array(user.utf8)
        guard !name.isEmpty else { throw .empty }
        guard name.count <= 65_535 else { throw .tooLong }
        let isWritable = !name.contains { [0, 10, 13, UInt8(ascii: ":")].contains($0) }
        guard isWritable, name.first != UInt8(ascii: "#"), name.trimmedBlanks.count == name.count else { throw .unwritable }
        let line = name + [UInt8(ascii: ":")] + Array(entry.utf8)
        guard let place = lines.firstIndex(where: { Self.names($0, user) }) else {
            lines.append(line)
            return
        }
        lines[place] = line
        // Whatever line of the user counted before, one counts now.
        lines = lines.enumerated().filter { $0.offset <= place || !Self.names($0.element, user) }.map(\.element)
    }

    /// Takes a user's lines out; false when there is none.
    public mutating func remove(_ user: String) -> Bool {
        let count = lines.count
        lines.removeAll { Self.names($0, user) }
        return lines.count < count
    }

    /// Puts an entry in the place of each password that stands in the file as it is, and returns how many there were.
    ///
    /// - Parameter entry: makes one of a password; when it throws nothing is changed.
    public mutating func hashPlainPasswords<Refusal: Error>(
        _ entry: (_ password: [UInt8]) throws(Refusal) -> String
    ) throws(Refusal) -> Int {
        var changed = lines
        var count = 0
        for (index, line) in lines.enumerated() {
            guard let parts = CredentialLine(line), !parts.user.isEmpty, !parts.secret.isEmpty else { continue }
            let secret = String(decoding: parts.secret, as: UTF8.self)
            if (try? PasswordHash(secret)) != nil || ScramCredentials(secret) != nil { continue }
            changed[index] = Array(parts.user) + [UInt8(ascii: ":")] + Array(try entry(Array(parts.secret)).utf8)
            count += 1
        }
        lines = changed
        return count
    }

    private static func names(_ line: [UInt8], _ user: String) -> Bool {
        CredentialLine(line).map { $0.user.elementsEqual(user.utf8) } ?? false
    }
}

/// The ways in which `martlet passwd` can keep a password, by the names that its `-H` takes: mosquitto_passwd's, and
/// one more.
public enum PasswordScheme: String, CaseIterable, Sendable {
    case argon2id
    case sha512PBKDF2 = "sha512-pbkdf2"
    case sha512
    /// For `martlet_scram_file`.
    case scramSHA256 = "scram-sha-256"

    /// Why there is no entry for a password.
    public enum Refusal: Error, Sendable {
        case noMemory
        /// SCRAM passwords are prepared with SASLprep, which forbids something in it. [RFC 4013]
        case forbiddenCharacters
    }

    /// What stands in a file for a password.
    ///
    /// - Parameters:
    ///   - password: its bytes, as they were typed.
    ///   - iterations: how often the work is repeated; nil for the usual. It means passes for Argon2 and nothing for
    ///     sha512.
    public func entry(for password: [UInt8], iterations: Int? = nil) throws(Refusal) -> String {
        switch self {
        case .scramSHA256:
            guard let prepared = SASLprep.prepare(password, for: .storing) else { throw .forbiddenCharacters }
            return ScramCredentials(password: prepared, iterations: iterations ?? ScramKeys.iterationsStandard).text
        case .argon2id, .sha512PBKDF2, .sha512:
            guard let hash = recipe(iterations: iterations)?.hash(of: password) else { throw .noMemory }
            return hash.text
        }
    }

    /// Nil for SCRAM.
    private func recipe(iterations: Int?) -> PasswordRecipe? {
        switch self {
        case .argon2id:
            var cost = Argon2.Cost.standard
            if let iterations { cost.passes = UInt32(clamping: iterations) }
            return .argon2id(cost)
        case .sha512PBKDF2: return .pbkdf2(iterations: iterations ?? Self.pbkdf2Iterations)
        case .sha512: return .sha512
        case .scramSHA256: return nil
        }
    }

    /// The values that make sense for `iterations`; nil when it has no meaning.
    public var iterationsRange: ClosedRange<Int>? {
        switch self {
        case .argon2id: 1...Int(Argon2.Cost.maximum.passes)
        case .sha512PBKDF2: 1...Limits.iterationsMax
        case .sha512: nil
        case .scramSHA256: ScramKeys.iterationsStandard...Limits.iterationsMax
        }
    }

    /// mosquitto 2.1's.
    private static let pbkdf2Iterations = 1000
}
