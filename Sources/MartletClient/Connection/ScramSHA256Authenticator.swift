internal import Bytes
internal import Platform

/// SCRAM-SHA-256 (RFC 5802, RFC 7677): client and server prove to each other that they know the password, and none of
/// it is sent.
///
/// Without channel binding.
package struct ScramSHA256Authenticator: Authenticator {
    package let method = "SCRAM-SHA-256"
    private let user: String
    private let password: String
    private let nonce: @Sendable () -> [UInt8]

    package init(user: String, password: String) {
        self.init(user: user, password: password) {
            var bytes = [UInt8](repeating: 0, count: 18)
            bytes.withUnsafeMutableBytes { RandomBytes.fill($0) }
            return bytes
        }
    }

    /// - Parameter nonce: at least 18 new random bytes for each exchange.
    init(user: String, password: String, nonce: @escaping @Sendable () -> [UInt8]) {
        (self.user, self.password, self.nonce) = (user, password, nonce)
    }

    package func makeExchange() -> any AuthenticationExchange {
        ScramExchange(user: user, password: password, nonce: Base64.encode(nonce()))
    }
}

/// The client's side of one run.
struct ScramExchange: AuthenticationExchange {
    let user: String
    let password: String
    let nonce: String
    private var clientFirst = ""
    private var expectedVerifier: String?

    init(user: String, password: String, nonce: String) {
        (self.user, self.password, self.nonce) = (user, password, nonce)
    }

    mutating func begin() throws -> [UInt8]? {
        guard let name = SASLprep.prepare(Array(user.utf8), for: .asking) else {
            throw ClientError.settings("login: SASLprep (RFC 4013) forbids the user's name")
        }
        let escaped = String(decoding: name, as: UTF8.self).flatMap { $0 == "," ? "=2C" : $0 == "=" ? "=3D" : String($0) }
        clientFirst = "n=\(String(escaped)),r=\(nonce)"
        return Array("n,,\(clientFirst)".utf8)
    }

    mutating func answer(_ data: [UInt8]) throws -> [UInt8] {
        let serverFirst = String(decoding: data, as: UTF8.self)
        let parts = serverFirst.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[0].hasPrefix("r=\(nonce)"), parts[0].utf8.count > nonce.utf8.count + 2,
            parts[1].hasPrefix("s="),
            let salt = Base64.decode(parts[1].dropFirst(2)), !salt.isEmpty, parts[2].hasPrefix("i="),
            let iterations = Int(parts[2].dropFirst(2))
        else { throw ClientError.refused(.badAuthenticationMethod, "the server's SCRAM challenge cannot be read") }
        // Fewer would give the password away to who only pretends to be the server. [RFC 7677, section 4]
        guard (Self.iterationsLeast...Limits.scramIterationsMax).contains(iterations) else {
            throw ClientError.refused(
                .badAuthenticationMethod,
                "the server asks for \(iterations) iterations of SCRAM; \(Self.iterationsLeast) to \(Limits.scramIterationsMax) are right"
            )
        }
        guard let prepared = SASLprep.prepare(Array(password.utf8), for: .asking) else {
            throw ClientError.settings("login: SASLprep (RFC 4013) forbids the password")
        }
        let hash = HashFunction.sha256
        let salted = hash.derivedKey(password: prepared, salt: salt, iterations: iterations)
        let clientKey = hash.authenticationCode(Array("Client Key".utf8), key: salted)
        let withoutProof = "c=biws,\(parts[0])"
        let message = Array("\(clientFirst),\(serverFirst),\(withoutProof)".utf8)
        let signature = hash.authenticationCode(message, key: hash.digest(clientKey))
        let serverKey = hash.authenticationCode(Array("Server Key".utf8), key: salted)
        expectedVerifier = "v=\(Base64.encode(hash.authenticationCode(message, key: serverKey)))"
        return Array("\(withoutProof),p=\(Base64.encode(zip(clientKey, signature).map { $0 ^ $1 }))".utf8)
    }

    func finish(_ data: [UInt8]?) throws {
        guard let expectedVerifier, let data, ConstantTime.equal(data, Array(expectedVerifier.utf8)) else {
            throw ClientError.refused(
                .badAuthenticationMethod, "the server does not know the password, and is not who it should be")
        }
    }

    private static let iterationsLeast = 4096
}

/// Extended authentication: how a client shows who it is in several steps, and perhaps has the server do the same. MQTT
/// 5.0 only.
public protocol Authenticator: Sendable {
    /// The Authentication Method's name, such as `SCRAM-SHA-256`.
    var method: String { get }

    /// A new run of it, for one connection.
    func makeExchange() -> any AuthenticationExchange
}

/// One run of an extended authentication. Each step may take its time, for no loop waits for it.
///
/// What a step throws ends the attempt to connect, and the client goes on by its ``ReconnectPolicy``: a
/// `ClientError.refused` is asked about as a server's refusal is (``ReconnectPolicy/isFinal``), so throw that with
/// ``ReasonCode/badAuthenticationMethod`` where nobody else's secret will do. A `ClientError.settings` is final.
/// Everything else, as of a token server that is away, counts as a failed attempt.
public protocol AuthenticationExchange: Sendable {
    /// The data that goes with CONNECT, nil for none.
    mutating func begin() async throws -> [UInt8]?

    /// The answer to the server's data.
    mutating func answer(_ data: [UInt8]) async throws -> [UInt8]

    /// The server lets us in. Throws if its last data shows that it is not who it should be.
    mutating func finish(_ data: [UInt8]?) throws
}

extension Limits {
    /// Iterations of SCRAM that a server may ask for; more are refused, for they cost seconds.
    static let scramIterationsMax = 1_000_000
}
