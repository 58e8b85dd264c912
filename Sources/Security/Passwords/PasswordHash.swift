internal import Bytes
internal import Platform

/// A password as a file keeps it: what it takes to check one, not to know it.
enum PasswordHash: Sendable, Equatable {
    /// `$6$`: SHA-512 of the password and the salt behind it. Fast, so weak; from mosquitto before 1.6.
    case sha512(salt: [UInt8], digest: [UInt8])
    /// `$7$`: PBKDF2 with HMAC-SHA-512.
    case pbkdf2(iterations: Int, salt: [UInt8], digest: [UInt8])
    /// `PBKDF2$`: the same with a digest as long as the line says, as mosquitto-go-auth keeps it.
    case derivedKey(HashFunction, iterations: Int, salt: [UInt8], digest: [UInt8])
    /// `$argon2id$`: Argon2id, which needs memory as well as time.
    case argon2id(Argon2.Cost, salt: [UInt8], digest: [UInt8])
    /// `$2b$`: bcrypt, from databases of others.
    case bcrypt(Bcrypt)

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
        case .derivedKey(let function, let iterations, let salt, let digest):
            let found = function.derivedKey(password: password, salt: salt, iterations: iterations)
            // A shorter key is the beginning of a longer one.
            return ConstantTime.equal(Array(found.prefix(digest.count)), digest)
        case .argon2id(let cost, let salt, let digest):
            guard let found = Argon2.hash(password: password, salt: salt, cost: cost, count: digest.count) else { return nil }
            return ConstantTime.equal(found, digest)
        case .bcrypt(let hash): return hash.matches(password)
        }
    }

    /// The kind and the cost, without the salt and the digest.
    var recipe: PasswordRecipe {
        switch self {
        case .sha512: .sha512
        case .pbkdf2(let iterations, _, _), .derivedKey(_, let iterations, _, _): .pbkdf2(iterations: iterations)
        case .argon2id(let cost, _, _): .argon2id(cost)
        // None is made: what costs as much is.
        case .bcrypt: .argon2id(.standard)
        }
    }
}

/// The forms of hashes in files:
///
///     $6$SALT$DIGEST                                      Base64
///     $7$ITERATIONS$SALT$DIGEST                           Base64
///     $argon2id$v=19$m=47104,t=1,p=1$SALT$DIGEST          Base64 without padding
///     PBKDF2$sha512$ITERATIONS$SALT$DIGEST                mosquitto-go-auth's, Base64; or sha256
///     $2b$10$SALTDIGEST                                   bcrypt's own Base64; $2a$ and $2y$ are the same
extension PasswordHash {
    /// Why a text is no hash, as the end of a sentence after "the password's hash".
    struct Complaint: Error {
        let words: String
    }

    init(_ text: String) throws(Complaint) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false).map(String.init)
        if parts[0] == "PBKDF2" {
            self = try Self.derivedKey(parts)
            return
        }
        guard parts.count > 1, parts[0].isEmpty else {
            throw Complaint(
                words: "is not a hash: it seems to be the password itself; \"martlet passwd -U FILE\" hashes such files.")
        }
        switch parts[1] {
        case "6":
            guard parts.count == 4 else { throw Self.wrongShape("$6$SALT$DIGEST") }
            self = .sha512(salt: try Self.salt(parts[2]), digest: try Self.digest(parts[3]))
        case "7":
            guard parts.count == 5 else { throw Self.wrongShape("$7$ITERATIONS$SALT$DIGEST") }
            guard let iterations = Int(parts[2]), iterations >= 1, iterations <= Limits.iterationsMax else {
                throw Complaint(words: "asks for \"\(parts[2])\" iterations; expected 1 to \(Limits.iterationsMax).")
            }
            self = .pbkdf2(iterations: iterations, salt: try Self.salt(parts[3]), digest: try Self.digest(parts[4]))
        case "argon2id": self = try Self.argon2id(parts)
        case "2a", "2b", "2y": self = .bcrypt(try Self.bcrypt(text))
        default:
            throw Complaint(words: "is of the unknown type $\(parts[1])$; expected $6$, $7$, $2b$ or $argon2id$.")
        }
    }

    private static func bcrypt(_ text: String) throws(Complaint) -> Bcrypt {
        guard let hash = Bcrypt(text) else { throw wrongShape("$2b$COST$ and 53 letters") }
        guard hash.cost <= Limits.bcryptCostMax else {
            throw Complaint(words: "asks bcrypt for a cost of \(hash.cost); at most \(Limits.bcryptCostMax) is possible.")
        }
        return hash
    }

    private static func derivedKey(_ parts: [String]) throws(Complaint) -> PasswordHash {
        guard parts.count == 5 else { throw wrongShape("PBKDF2$sha512$ITERATIONS$SALT$DIGEST") }
        let function: HashFunction
        switch parts[1] {
        case "sha512": function = .sha512
        case "sha256": function = .sha256
        default: throw Complaint(words: "asks for PBKDF2 with \"\(parts[1])\"; expected sha512 or sha256.")
        }
        guard let iterations = Int(parts[2]), iterations >= 1, iterations <= Limits.iterationsMax else {
            throw Complaint(words: "asks for \"\(parts[2])\" iterations; expected 1 to \(Limits.iterationsMax).")
        }
        guard let digest = Base64.decode(parts[4]), digest.count >= 16, digest.count <= function.digestCount else {
            throw Complaint(words: "has a digest that is not Base64 of 16 to \(function.digestCount) bytes.")
        }
        return .derivedKey(function, iterations: iterations, salt: try salt(parts[3]), digest: digest)
    }

    var text: String {
        switch self {
        case .sha512(let salt, let digest):
            return "$6$\(Base64.encode(salt))$\(Base64.encode(digest))"
        case .pbkdf2(let iterations, let salt, let digest):
            return "$7$\(iterations)$\(Base64.encode(salt))$\(Base64.encode(digest))"
        case .derivedKey(let function, let iterations, let salt, let digest):
            let name = function == .sha512 ? "sha512" : "sha256"
            return "PBKDF2$\(name)$\(iterations)$\(Base64.encode(salt))$\(Base64.encode(digest))"
        case .argon2id(let cost, let salt, let digest):
            let (salt, digest) = (Base64.encode(salt, padding: .none), Base64.encode(digest, padding: .none))
            return "$argon2id$v=\(Argon2.version)$m=\(cost.memoryKiB),t=\(cost.passes),p=\(cost.lanes)$\(salt)$\(digest)"
        case .bcrypt(let hash): return hash.text
        }
    }

    private static func argon2id(_ parts: [String]) throws(Complaint) -> PasswordHash {
        guard parts.count == 6 else { throw wrongShape("$argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$DIGEST") }
        guard parts[2] == "v=\(Argon2.version)" else {
            throw Complaint(words: "is of another version of Argon2 than v=\(Argon2.version).")
        }
        var values: [String: UInt32] = [:]
        for part in parts[3].split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", omittingEmptySubsequences: false)
            guard pair.count == 2, let value = UInt32(pair[1]), values.updateValue(value, forKey: String(pair[0])) == nil else {
                throw wrongShape("m=KIB,t=PASSES,p=LANES")
            }
        }
        guard values.count == 3, let memory = values["m"], let passes = values["t"], let lanes = values["p"] else {
            throw wrongShape("m=KIB,t=PASSES,p=LANES")
        }
        let cost = Argon2.Cost(memoryKiB: memory, passes: passes, lanes: lanes)
        guard cost.isAcceptable else {
            throw Complaint(
                words: "asks Argon2 for \(parts[3]); at most m=\(Argon2.Cost.maximum.memoryKiB),t=\(Argon2.Cost.maximum.passes),"
                    + "p=\(Argon2.Cost.maximum.lanes) and at least m=8 a lane are possible.")
        }
        guard let salt = Base64.decode(parts[4], padding: .none), salt.count >= 8, salt.count <= 1024 else {
            throw Complaint(words: "has a salt that is not Base64 of 8 to 1024 bytes.")
        }
        guard let digest = Base64.decode(parts[5], padding: .none), digest.count >= 16, digest.count <= 1024 else {
            throw Complaint(words: "has a digest that is not Base64 of 16 to 1024 bytes.")
        }
        return .argon2id(cost, salt: salt, digest: digest)
    }

    private static func salt(_ text: String) throws(Complaint) -> [UInt8] {
        guard let salt = Base64.decode(text), !salt.isEmpty, salt.count <= 1024 else {
            throw Complaint(words: "has a salt that is not Base64 of 1 to 1024 bytes.")
        }
        return salt
    }

    private static func digest(_ text: String) throws(Complaint) -> [UInt8] {
        guard let digest = Base64.decode(text), digest.count == HashFunction.sha512.digestCount else {
            throw Complaint(words: "has a digest that is not Base64 of \(HashFunction.sha512.digestCount) bytes.")
        }
        return digest
    }

    private static func wrongShape(_ shape: String) -> Complaint { Complaint(words: "does not have the form \(shape).") }
}

/// A password as a file keeps it: a hash, and its text.
public struct StoredPassword: Sendable, Equatable {
    /// As files have it, `$argon2id$…`, `$7$…` or `$6$…`.
    public let text: String
    private let hash: PasswordHash

    /// Takes a text; nil for one that is no hash.
    public init?(_ text: String) {
        guard let hash = try? PasswordHash(text) else { return nil }
        (self.text, self.hash) = (text, hash)
    }

    private init(_ hash: PasswordHash) { (text, self.hash) = (hash.text, hash) }

    /// Whether the password is the one; nil when there is no memory to find out. Takes milliseconds to seconds.
    public func matches(_ password: [UInt8]) -> Bool? { hash.matches(password) }

    /// What no password matches, and costs as much to check as one that is kept now.
    public static func impossible() -> StoredPassword { StoredPassword(PasswordRecipe.argon2id(.standard).impossibleHash()) }

    public static func == (left: StoredPassword, right: StoredPassword) -> Bool { left.text == right.text }
}
