import MQTTCodec

/// The part of a connection that most connections never need.
final class ConnectionExtras {
    /// The CONNECT whose answer waits for a decision.
    var pendingConnect: ConnectPacket?
    /// The topics that the client gave aliases to.
    var receivedAliases = ReceivedAliases()
    /// The topics that the broker gave aliases to.
    var sentAliases = SentAliases(maximum: 0)
    /// The Authentication Method of CONNECT, for AUTH packets.
    var authenticationMethod: EncodedString?
    /// Whether the broker chose the Client Identifier, so that CONNACK tells it.
    var hasAssignedIdentifier = false
    /// Whether an enhanced authentication is going on.
    var isReauthenticating = false
}
