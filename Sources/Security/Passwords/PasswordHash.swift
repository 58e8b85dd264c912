internal import Cryptography

/// A password as a file keeps it: what it takes to check one, not to know it.
enum PasswordHash: Sendable, Equatable {
    /// `$6$`: SHA-512 of the password and the salt behind it. Fast, so weak; from mosquitto before 1.6.
    case sha512(salt: [UInt8], digest: [UInt8])
    /// `$7$`: PBKDF2 with HMAC-SHA-512.
    case pbkdf2(iterations: Int, salt: [UInt8], digest: [UInt8])
    /// `$argon2id$`: Argon2id, which needs memory as well as time.
    case argon2id(Argon2.Cost, salt: [UInt8], digest: [UInt8])

    /// Whether the password is the one; nil when there is no memory to find out.
    ///
    /// From a microsecond to seconds of work, as the hash says; the comparison takes the same time for every password.
    func matches(_ password: [UInt8]) -> Bool? {
        switch self {
        case .sha512(let salt, let digest):
            return ConstantTime.equal(HashFunction.sha512.digest(password + salt), digest)
        case .pbkdf2(let iterations, let salt, let digest):
            let found = HashFunction.sha512.derivedKey(password: password, salt: salt, iterations: iterations)
            return ConstantTime.equal(found, digest)
        case .argon2id(let cost, let salt, let digest):
            guard let found = Argon2.hash(password: password, salt: salt, cost: cost, count: digest.count) else { return nil }
            return ConstantTime.equal(found, digest)
        }
    }

    /// The kind and the cost, without the salt and the digest.
    var recipe: PasswordRecipe {
        switch self {
        case .sha512: .sha512
        case .pbkdf2(let iterations, _, _): .pbkdf2(iterations: iterations)
        case .argon2id(let cost, _, _): .argon2id(cost)
        }
    }
}
