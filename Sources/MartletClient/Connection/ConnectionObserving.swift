/// A client that tells of its connections, for what begins anew with each of them: a `LiveCollection`.
///
/// What conforms also keeps these rules, so that a subscription can be made afresh without a gap:
///
/// - Every call of `messages` has a SUBSCRIBE of its own that names all its filters in one packet, also where other subscriptions have the same
///   ones: the server sends what it retains again. It leaves at once, or first on the next connection; on a connection without the old
///   session the subscriptions that still live are made again.
/// - In MQTT 5.0 its Subscription Identifier is greater than that of all calls before.
/// - When the value is given up, UNSUBSCRIBE names those of its filters that no other living subscription has.
public protocol ConnectionObserving: Messaging {
    /// The connection that stands, nil while there is none: first as it is now, then after every change. A slow consumer may miss some, never the
    /// latest.
    func connections() -> AsyncStream<ConnectedServer?>

    /// The connection as it is now, nil while there is none. Whoever has a message of a connection in its hands, and asks after that, is told of
    /// that connection or of a later one.
    var connection: ConnectedServer? { get }
}

/// A connection to a server that has let the client in.
public struct ConnectedServer: Hashable, Sendable {
    /// Which connection of the client this is, counted from 1.
    public var connectionNumber: UInt64
    /// The version of MQTT that is spoken.
    public var version: ProtocolVersion
    /// Whether the server still had the client's session, with its subscriptions and what came meanwhile.
    public var isSessionPresent: Bool

    /// What topics for answers to this client begin with, where the server says so: its Response Information.
    public var responseInformation: String?

    /// A connection, for a double that tells of one.
    public init(
        connectionNumber: UInt64, version: ProtocolVersion = .v5, isSessionPresent: Bool = false, responseInformation: String? = nil
    ) {
        (self.connectionNumber, self.version, self.isSessionPresent) = (connectionNumber, version, isSessionPresent)
        self.responseInformation = responseInformation
    }
}
