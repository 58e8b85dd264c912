public import BrokerModel
public import MQTTCodec

/// Decides who may log in with a user name and a password, for all connections of a listener: a file, later a directory or a web service.
public protocol Authenticator: AnyObject, Sendable {
    /// Decides a request.
    ///
    /// - Parameters:
    ///   - request: its step is `.password`.
    ///   - subject: whom `LoginThrottle` takes the client for.
    ///   - reply: called once, now or later, on any thread.
    /// - Returns: what may be abandoned as long as it waits; nil when nothing does.
    func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> PasswordCheck?

    /// Whether a user whom `earlier` has let in would be let in still, as far as can be told without asking for the password again: false
    /// for one that is gone, or has another password. Cheap, for a reload asks for every connection.
    func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool
}
