public import BrokerModel

/// A decision on a login that the broker waits for.
public struct PendingAuthentication {
    /// The connection that wants to come in.
    public let connection: SimulatedConnection
    public let request: AuthenticationRequest
}
