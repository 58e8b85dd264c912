internal import Bytes
internal import Cryptography

/// What a server keeps of a password for SCRAM-SHA-256: enough to check a client and to prove itself, not enough to log in.
///
///     SCRAM-SHA-256$4096:SALT$STORED_KEY:SERVER_KEY          PostgreSQL's form; Base64
struct ScramCredentials: Sendable, Equatable {
    static let prefix = "SCRAM-SHA-256$"
    /// RFC 7677's least, and what PostgreSQL takes; it is the client that does the work.
    static let iterationsStandard = 4096

    let iterations: Int
    let salt: [UInt8]
    let storedKey: [UInt8]
    let serverKey: [UInt8]

    init(iterations: Int, salt: [UInt8], storedKey: [UInt8], serverKey: [UInt8]) {
        self.iterations = iterations
        self.salt = salt
        self.storedKey = storedKey
        self.serverKey = serverKey
    }

    /// Makes the credentials of a prepared password. [RFC 5802, section 3]
    init(password: [UInt8], iterations: Int = iterationsStandard, salt: [UInt8] = Salt.make(count: 16)) {
        let salted = HashFunction.sha256.derivedKey(password: password, salt: salt, iterations: iterations)
        let clientKey = HashFunction.sha256.authenticationCode(Array("Client Key".utf8), key: salted)
        self.init(
            iterations: iterations, salt: salt, storedKey: HashFunction.sha256.digest(clientKey),
            serverKey: HashFunction.sha256.authenticationCode(Array("Server Key".utf8), key: salted))
    }

    /// Reads the credentials that a file has; nil for a text of another form.
    init?(_ text: String) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        let parts = text.dropFirst(Self.prefix.count).split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let cost = parts[0].split(separator: ":", omittingEmptySubsequences: false)
        let keys = parts[1].split(separator: ":", omittingEmptySubsequences: false)
        guard cost.count == 2, keys.count == 2, let iterations = Int(cost[0]), iterations >= 1,
            iterations <= Limits.iterationsMax, let salt = Base64.decode(cost[1]), !salt.isEmpty, salt.count <= 1024,
            let storedKey = Base64.decode(keys[0]), storedKey.count == HashFunction.sha256.digestCount,
            let serverKey = Base64.decode(keys[1]), serverKey.count == HashFunction.sha256.digestCount
        else { return nil }
        self.init(iterations: iterations, salt: salt, storedKey: storedKey, serverKey: serverKey)
    }

    var text: String {
        "\(Self.prefix)\(iterations):\(Base64.encode(salt))$\(Base64.encode(storedKey)):\(Base64.encode(serverKey))"
    }
}
