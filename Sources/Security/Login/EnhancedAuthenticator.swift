public import BrokerModel
public import MQTTCodec

/// An Authentication Method of MQTT 5.0, for all connections of a listener. [MQTT 5.0, section 4.12]
public protocol EnhancedAuthenticator: AnyObject, Sendable {
    /// Its name in CONNECT and AUTH.
    var method: EncodedString { get }

    /// The state of one authentication; another one for each, also for each re-authentication.
    func makeExchange() -> any EnhancedExchange

    /// The same as for an `Authenticator`.
    func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool
}

/// One authentication under way. Belongs to its connection's loop; what it does must take microseconds.
public protocol EnhancedExchange: AnyObject {
    /// CONNECT or the AUTH that begins a re-authentication, with what the client sent along. The first call.
    func begin(data: [UInt8]?) -> AuthenticationOutcome

    /// The client's answer to the challenge that the call before returned.
    func proceed(data: [UInt8]?) -> AuthenticationOutcome
}
