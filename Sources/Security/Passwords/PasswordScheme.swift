internal import Cryptography

/// The ways in which `martlet passwd` can keep a password, by the names that its `-H` takes: mosquitto_passwd's, and one more.
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
    ///   - iterations: how often the work is repeated; nil for the usual. It means passes for Argon2 and nothing for sha512.
    public func entry(for password: [UInt8], iterations: Int? = nil) throws(Refusal) -> String {
        switch self {
        case .scramSHA256:
            guard let prepared = SASLprep.prepare(password, for: .storing) else { throw .forbiddenCharacters }
            return ScramCredentials(password: prepared, iterations: iterations ?? ScramCredentials.iterationsStandard).text
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
        case .scramSHA256: ScramCredentials.iterationsStandard...Limits.iterationsMax
        }
    }

    /// mosquitto 2.1's.
    private static let pbkdf2Iterations = 1000
}
