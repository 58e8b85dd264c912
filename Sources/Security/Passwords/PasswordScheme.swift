/// The ways in which `martlet passwd` can keep a password, by the names that its `-H` takes: mosquitto_passwd's, and one more.
public enum PasswordScheme: String, CaseIterable, Sendable {
    case argon2id
    case sha512PBKDF2 = "sha512-pbkdf2"
    case sha512
    /// For `martlet_scram_file`.
    case scramSHA256 = "scram-sha-256"

    /// What stands in a file for a password; nil when there is no memory for it.
    ///
    /// - Parameter iterations: how often the work is repeated; nil for the usual. It means passes for Argon2 and nothing for sha512.
    public func entry(for password: [UInt8], iterations: Int? = nil) -> String? {
        switch self {
        case .argon2id:
            var cost = Argon2.Cost.standard
            if let iterations { cost.passes = UInt32(clamping: iterations) }
            return PasswordRecipe.argon2id(cost).hash(of: password)?.text
        case .sha512PBKDF2:
            return PasswordRecipe.pbkdf2(iterations: iterations ?? Self.pbkdf2Iterations).hash(of: password)?.text
        case .sha512:
            return PasswordRecipe.sha512.hash(of: password)?.text
        case .scramSHA256:
            return ScramCredentials(password: password, iterations: iterations ?? ScramCredentials.iterationsStandard).text
        }
    }

    /// The values that make sense for `iterations`; nil when it has no meaning.
    public var iterationsRange: ClosedRange<Int>? {
        switch self {
        case .argon2id: 1...Int(Argon2.Cost.maximum.passes)
        case .sha512PBKDF2: 1...PasswordRecipe.iterationsMax
        case .sha512: nil
        case .scramSHA256: ScramCredentials.iterationsStandard...PasswordRecipe.iterationsMax
        }
    }

    /// mosquitto 2.1's.
    private static let pbkdf2Iterations = 1000
}
