public import BrokerCore

/// Decides who may log in with a user name and a password, for all connections of a listener: a file, later a directory or a web service.
public protocol Authenticator: AnyObject, Sendable {
    /// Decides a request whose step is `.password`; `reply` is called once, now or later, on any thread.
    ///
    /// - Parameter subject: whom `LoginThrottle` takes the client for.
    /// - Returns: what may be abandoned as long as it waits; nil when nothing does.
    func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> PasswordCheck?
}
