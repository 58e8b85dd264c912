public import MQTTCodec

/// A login that was accepted.
public struct VerifiedLogin: Sendable {
    /// Nil for a client without a user name.
    public let userName: EncodedString?
    /// What CONNACK carries of an enhanced authentication.
    public let authenticationData: [UInt8]?
}
