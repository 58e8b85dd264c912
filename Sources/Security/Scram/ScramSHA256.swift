internal import Bytes
public import MQTTCodec

/// SCRAM-SHA-256 (RFC 5802, RFC 7677): client and broker prove to each other that they know the password, and none of it is sent.
///
/// Without channel binding. Names are prepared with SASLprep, here and where they are kept; passwords where they are kept, and by the client.
public final class ScramSHA256: EnhancedAuthenticator {
    public let method: EncodedString = "SCRAM-SHA-256"
    private let users: ScramFile
    private let makeNonce: @Sendable () -> [UInt8]

    /// - Parameters:
    ///   - users: who may log in.
    ///   - makeNonce: at least 18 new random bytes for each exchange, of which nobody knows any before.
    public init(users: ScramFile, makeNonce: @escaping @Sendable () -> [UInt8]) {
        self.users = users
        self.makeNonce = makeNonce
    }

    public func makeExchange() -> any EnhancedExchange { ScramExchange(users: users, nonce: Base64.encode(makeNonce())) }

    public func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool {
        guard let earlier = earlier as? ScramSHA256 else { return false }
        return earlier === self || users.hasSameEntry(of: userName.bytes, as: earlier.users)
    }
}
