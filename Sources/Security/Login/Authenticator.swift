public import BrokerCore

/// Decides who may log in with a user name and a password, for all connections of a listener: a file, later a directory or a web service.
public protocol Authenticator: AnyObject, Sendable {
    /// Decides a request whose step is `.password`; `reply` is called once, now or later, on any thread.
    func authenticate(_ request: AuthenticationRequest, reply: @escaping @Sendable (AuthenticationOutcome) -> Void)
}
