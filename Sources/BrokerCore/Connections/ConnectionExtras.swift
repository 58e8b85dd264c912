import BrokerModel
import MQTTCodec

/// The part of a connection that most connections never need.
final class ConnectionExtras {
    /// The CONNECT whose answer waits for a decision.
    var pendingConnect: ConnectPacket? {
        didSet { pendingConnectBytes = pendingConnect?.heldBytes ?? 0 }
    }
    private var pendingConnectBytes = 0
    /// The bytes of memory that it takes, with the topics of the client's aliases.
    var heldBytes: Int { pendingConnectBytes + receivedAliases.byteCount + (openPacket?.heldBytes ?? 0) }
    /// The packet that is still being worked off.
    var openPacket: WaitingPacket?
    /// The login that was accepted before it was known which shard the client lives on.
    var login: VerifiedLogin?
    /// The topics that the client gave aliases to.
    var receivedAliases = ReceivedAliases()
    /// The topics that the broker gave aliases to.
    var sentAliases = SentAliases(maximum: 0)
    /// The far end of a connection inside the process.
    var local: LocalClient?
    /// The far end of a connection inside the process whose party speaks MQTT itself.
    var relay: LocalRelay?
    /// What the client may still send this second; nil without a limit.
    var messageRate: RateGauge?
    var byteRate: RateGauge?
    /// How often the log has told of what the client may not do; nil when it never has.
    var denials: DenialGauge?
    /// What stands before the client's topics inside the broker; empty for nothing.
    var mountPoint: [UInt8] = []
    /// The end marks that the client waits for.
    var endMarks = EndMarks()
    /// The Authentication Method of CONNECT, for AUTH packets.
    var authenticationMethod: EncodedString?
    /// Whether the broker chose the Client Identifier, so that CONNACK tells it.
    var hasAssignedIdentifier = false
    /// Whether the client is connected and needs none of this any more.
    var isIdle: Bool {
        authenticationMethod == nil && sentAliases.maximum == 0 && mountPoint.isEmpty && messageRate == nil && byteRate == nil
            && local == nil && relay == nil && denials == nil
    }
    /// Whether an enhanced authentication is going on.
    var isReauthenticating = false
    /// Since when its output waits.
    var outputLag = OutputLag()
}
