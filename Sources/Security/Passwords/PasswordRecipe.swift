internal import MQTTCodec
internal import Platform

/// How passwords are hashed: the kind of hash and what it costs.
enum PasswordRecipe: Sendable, Hashable {
    case sha512
    case pbkdf2(iterations: Int)
    case argon2id(Argon2.Cost)

    /// A new hash of a password, with a salt of its own; nil when there is no memory for it.
    func hash(of password: [UInt8]) -> PasswordHash? {
        switch self {
        case .sha512:
            let salt = Salt.make(count: Self.shortSaltCount)
            return .sha512(salt: salt, digest: HashFunction.sha512.digest(password + salt))
        case .pbkdf2(let iterations):
            let salt = Salt.make(count: Self.shortSaltCount)
            let digest = HashFunction.sha512.derivedKey(password: password, salt: salt, iterations: iterations)
            return .pbkdf2(iterations: iterations, salt: salt, digest: digest)
        case .argon2id(let cost):
            let salt = Salt.make(count: Self.saltCount)
            guard let digest = Argon2.hash(password: password, salt: salt, cost: cost, count: 64) else { return nil }
            return .argon2id(cost, salt: salt, digest: digest)
        }
    }

    /// A hash with Argon2id and this salt; nil for the other kinds, and when there is no memory for it.
    func hash(of password: [UInt8], salt: [UInt8]) -> PasswordHash? {
        guard case .argon2id(let cost) = self else { return nil }
        return Argon2.hash(password: password, salt: salt, cost: cost, count: 64).map { .argon2id(cost, salt: salt, digest: $0) }
    }

    /// A hash that costs as much to check as a real one and that no password has: its digest is chance.
    func impossibleHash() -> PasswordHash {
        let salt = Salt.make(count: Self.saltCount)
        let digest = Salt.make(count: 64)
        return switch self {
        case .sha512: .sha512(salt: salt, digest: digest)
        case .pbkdf2(let iterations): .pbkdf2(iterations: iterations, salt: salt, digest: digest)
        case .argon2id(let cost): .argon2id(cost, salt: salt, digest: digest)
        }
    }

    /// In bytes. mosquitto 2.0 reads no longer ones in the kinds of hashes that it knows.
    private static let shortSaltCount = 12
    /// In bytes, as mosquitto 2.1 makes them for Argon2.
    private static let saltCount = 64
}

/// mosquitto's `password_file`: `user:HASH` on each line. Lines that begin with # say nothing; those without a colon
/// are warned of.
///
/// Immutable; shared by the threads that check passwords.
public struct PasswordFile: Sendable {
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]
    private let hashes: [EncodedString: PasswordHash]
    /// What an unknown user's password is checked against, so that it takes as long as a known one's.
    private let impossible: PasswordHash

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path)
    }

    /// Reads the bytes of a file; `file` is what messages call it.
    public init(_ bytes: [UInt8], file: String) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var places: [EncodedString: Int] = [:]
        var hashes: [EncodedString: PasswordHash] = [:]
        for line in lines.lines {
            guard let entry = CredentialLine(line.text) else {
                lines.report(
                    "the line has no colon between a user and a hash, and is passed over. Set the user's password: martlet passwd \(file) "
                        + "USER.", line: line.number, severity: .warning)
                continue
            }
            guard let user = EncodedString(entry.user), !user.isEmpty else {
                lines.report(
                    entry.user.isEmpty
                        ? "the user's name is empty." : "the user's name is not valid UTF-8, or longer than 65535 bytes.",
                    line: line.number)
                continue
            }
            if let place = places.updateValue(line.number, forKey: user) {
                lines.report("the user \(user) is already in line \(place).", line: line.number)
                continue
            }
            // A second colon ends the hash, as with mosquitto.
            let text = String(decoding: entry.secret.prefix { $0 != UInt8(ascii: ":") }.trimmedEnd, as: UTF8.self)
            if text.hasPrefix(ScramCredentials.prefix) {
                lines.report("this is an entry for SCRAM; name its file with martlet_scram_file.", line: line.number)
                continue
            }
            if text.isEmpty {
                lines.report(
                    "the hash of the password of \(user) is missing. Set it: martlet passwd \(file) \(user).", line: line.number)
                continue
            }
            do throws(PasswordHash.Complaint) {
                hashes[user] = try PasswordHash(text)
            } catch {
                let words = error.words.replacing(every: "passwd -U FILE", by: "passwd -U \(file)")
                let remedy = words == error.words ? " Set it again: martlet passwd \(file) \(user)." : ""
                lines.report("the hash of the password of \(user) \(words)\(remedy)", line: line.number)
            }
        }
        try lines.check()
        warnings = lines.problems
        self.hashes = hashes
        impossible = Self.commonRecipe(of: hashes.values).impossibleHash()
    }

    /// No file: without users.
    public init() {
        (warnings, hashes) = ([], [:])
        impossible = PasswordRecipe.argon2id(.standard).impossibleHash()
    }

    /// A copy of the file with one more user, whose password is known; where the file has a user of this name already,
    /// the file's entry counts. nil when there is no memory to hash the password, or MQTT has no such name.
    /// Milliseconds of work.
    public func adding(_ name: String, password: [UInt8]) -> PasswordFile? {
        guard let user = EncodedString(name) else { return nil }
        guard hashes[user] == nil else { return self }
        guard let hash = PasswordRecipe.argon2id(.standard).hash(of: password, salt: Self.salt) else { return nil }
        return PasswordFile(adding: user, hash, to: self)
    }

    private init(adding user: EncodedString, _ hash: PasswordHash, to file: PasswordFile) {
        warnings = file.warnings
        hashes = file.hashes.merging([user: hash]) { kept, _ in kept }
        impossible = Self.commonRecipe(of: hashes.values).impossibleHash()
    }

    /// One salt as long as the process runs, so that the same password is the same entry at each reload: its user
    /// stays.
    private static let salt = Salt.make(count: 64)

    public var count: Int { hashes.count }

    /// Whether a user is in both files, with the same hash.
    func hasSameEntry(of user: EncodedString, as other: PasswordFile) -> Bool {
        guard let hash = hashes[user] else { return false }
        return other.hashes[user] == hash
    }

    /// Whether there is a user of this name.
    func knows(_ user: EncodedString) -> Bool { hashes[user] != nil }

    /// Whether the user has this password; nil when there is no memory to find out. Takes as long for a user that is
    /// not there.
    func matches(user: EncodedString, password: [UInt8]) -> Bool? {
        guard let hash = hashes[user] else { return impossible.matches(password).map { _ in false } }
        return hash.matches(password)
    }

    /// The recipe that most users' hashes have; the dearest of several.
    private static func commonRecipe(of hashes: some Sequence<PasswordHash>) -> PasswordRecipe {
        var counts: [PasswordRecipe: Int] = [:]
        for hash in hashes { counts[hash.recipe, default: 0] += 1 }
        let common = counts.max { ($0.value, $0.key.weight) < ($1.value, $1.key.weight) }
        return common?.key ?? .argon2id(.standard)
    }
}

extension PasswordRecipe {
    /// Grows with the work.
    fileprivate var weight: Int {
        switch self {
        case .sha512: 0
        case .pbkdf2(let iterations): iterations
        case .argon2id(let cost): Limits.iterationsMax + Int(cost.memoryKiB) * Int(cost.passes)
        }
    }
}
