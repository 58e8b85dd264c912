internal import Platform

/// SCRAM-SHA-256 (RFC 5802, RFC 7677): client and server prove to each other that they know the password, and none of
/// it is sent.
///
/// Without channel binding.
package struct ScramSHA256Authenticator: Authenticator {
    package let method = "SCRAM-SHA-256"
    private let user: String
    private let password: String

    package init(user: String, password: String) { (self.user, self.password) = (user, password) }

    package func makeExchange() -> any AuthenticationExchange { ScramExchange(user: user, password: password) }
}

/// The client's side of one run.
struct ScramExchange: AuthenticationExchange {
    private let user: String
    private let password: String
    private let nonce: String?
    private var exchange: ScramClientExchange?

    /// - Parameter nonce: nil makes one.
    init(user: String, password: String, nonce: String? = nil) {
        (self.user, self.password, self.nonce) = (user, password, nonce)
    }

    mutating func begin() throws -> [UInt8]? {
        guard let user = SASLprep.prepare(Array(user.utf8), for: .asking) else {
            throw ClientError.settings("login: SASLprep (RFC 4013) forbids the user's name")
        }
        guard let password = SASLprep.prepare(Array(password.utf8), for: .asking) else {
            throw ClientError.settings("login: SASLprep (RFC 4013) forbids the password")
        }
        exchange = ScramClientExchange(user: user, password: password, nonce: nonce)
        return exchange?.first
    }

    mutating func answer(_ data: [UInt8]) throws -> [UInt8] {
        do throws(ScramClientExchange.Failure) {
            return try exchange?.answer(to: data) ?? []
        } catch {
            throw ClientError.refused(.badAuthenticationMethod, error.description)
        }
    }

    mutating func finish(_ data: [UInt8]?) throws {
        guard let data, exchange?.finish(data) == true else {
            throw ClientError.refused(
                .badAuthenticationMethod, "the server does not know the password, and is not who it should be")
        }
    }
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
