/// Extended authentication: how a client shows who it is in several steps, and perhaps has the server do the same. MQTT 5.0 only.
public protocol Authenticator: Sendable {
    /// The Authentication Method's name, such as `SCRAM-SHA-256`.
    var method: String { get }

    /// A new run of it, for one connection.
    func makeExchange() -> any AuthenticationExchange
}

/// One run of an extended authentication. Each step may take its time, for no loop waits for it.
///
/// What a step throws ends the attempt to connect, and the client goes on by its ``ReconnectPolicy``: a `ClientError.refused` is asked about as a
/// server's refusal is (``ReconnectPolicy/isFinal``), so throw that with ``ReasonCode/badAuthenticationMethod`` where nobody else's secret will do. A
/// `ClientError.settings` is final. Everything else, as of a token server that is away, counts as a failed attempt.
public protocol AuthenticationExchange: Sendable {
    /// The data that goes with CONNECT, nil for none.
    mutating func begin() async throws -> [UInt8]?

    /// The answer to the server's data.
    mutating func answer(_ data: [UInt8]) async throws -> [UInt8]

    /// The server lets us in. Throws if its last data shows that it is not who it should be.
    mutating func finish(_ data: [UInt8]?) throws
}
