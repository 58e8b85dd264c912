import MQTTCodec

/// One message on its way to one session, and how far it has come.
struct OutboxEntry {
    enum State: UInt8 {
        /// Done with; the place is kept until the entries before it are done too.
        case vacant
        /// Not sent yet on this connection. Has a packet identifier only if it was sent on an earlier one.
        case waiting
        /// PUBLISH sent; PUBACK or PUBREC awaited.
        case sent
        /// PUBREC received and PUBREL due or sent; PUBCOMP awaited. The message itself is gone.
        case released
    }

    /// The message, retained; nil when vacant or released.
    var message: Unmanaged<Message>?
    /// The Subscription Identifiers to send with it, retained.
    var identifiers: Unmanaged<SubscriptionIdentifiers>?
    /// The serial number of the share group that chose this session; 0 for none.
    var group: UInt32
    var packetIdentifier: UInt16
    var qos: QoS
    var state: State
    var retain: Bool
    /// Whether an earlier connection was sent this PUBLISH, so that the next one carries DUP. [MQTT-3.3.1-1 v5]
    var wasSent: Bool

    init(
        message: Message, identifiers: SubscriptionIdentifiers?, group: UInt32, qos: QoS, retain: Bool
    ) {
        self.message = Unmanaged.passRetained(message)
        self.identifiers = identifiers.map { Unmanaged.passRetained($0) }
        self.group = group
        self.qos = qos
        self.retain = retain
        packetIdentifier = 0
        state = .waiting
        wasSent = false
    }

    /// Lets go of the message and its identifiers.
    mutating func releaseMessage() {
        message?.release()
        identifiers?.release()
        message = nil
        identifiers = nil
    }
}
