/// What a shard has counted: totals since its start, and how much it holds now.
public struct ShardStatistics: Sendable, Equatable {
    // Totals since the start.
    public var bytesReceived: UInt64 = 0
    public var bytesSent: UInt64 = 0
    /// Packets of any type.
    public var messagesReceived: UInt64 = 0
    public var messagesSent: UInt64 = 0
    public var messagesReceivedByQoS = QoSCounts()
    public var messagesSentByQoS = QoSCounts()
    public var drops = DropCounts()
    public var publishBytesReceived: UInt64 = 0
    public var publishBytesSent: UInt64 = 0
    public var socketsOpened: UInt64 = 0
    public var connectionsAccepted: UInt64 = 0
    /// Turned away as soon as they came: too many, or too many a second.
    public var connectionsRefused: UInt64 = 0
    /// Connections that came to nothing, these among them.
    public var refusals = Tally<RefusedConnection>()
    public var logins = Tally<LoginTally>()
    public var disconnects = Tally<DisconnectTally>()
    public var denials = Tally<DeniedAction>()
    public var clientsExpired: UInt64 = 0

    public var packetsReceived = PacketCounts()
    /// Without PUBLISH, see `publishSent`.
    public var packetsSent = PacketCounts()

    // What there is now.
    public var connections = 0
    /// Bytes that wait for sockets with room.
    public var outputBytes = 0
    public var clientsConnected = 0
    /// The connected clients that are parts of this process.
    public var localClientsConnected = 0
    public var clientsTotal = 0
    public var subscriptions = 0
    public var sharedSubscriptions = 0
    /// Clients that do not take what they are sent, as `BrokerSettings.slowClients` has it.
    public var slowClients = 0
    public var retainedMessages = 0
    public var storedMessages = 0
    public var storedBytes = 0
    /// Of the whole process; told by the first shard.
    public var heapBytes = 0
    /// Of the store, which all shards have in common; told by the first one, nil without a store.
    public var store: StoreFigures?
    /// What was measured, for those who ask for it.
    public var latencies = LatencyReport()

    public init() {}

    /// Of any QoS.
    public var publishReceived: UInt64 { messagesReceivedByQoS.total }
    public var publishSent: UInt64 { messagesSentByQoS.total }

    /// For whatever reason.
    public var publishDropped: UInt64 { drops.total }

    /// How many packets wait for sockets with room, reckoned from their bytes and the mean size of all packets: connections share runs of
    /// bytes, in which nobody tells one packet from the next.
    public var packetsWaiting: UInt64 {
        let waiting = Double(outputBytes)
        guard waiting > 0, messagesSent > 0 else { return 0 }
        // What is waiting counts as sent already, but for its bytes.
        let meanBytes = (Double(bytesSent) + waiting) / Double(messagesSent)
        return UInt64((waiting / meanBytes).rounded(.up))
    }

    /// Adds another shard's counts.
    public mutating func add(_ other: ShardStatistics) {
        bytesReceived += other.bytesReceived
        bytesSent += other.bytesSent
        messagesReceived += other.messagesReceived
        messagesSent += other.messagesSent
        messagesReceivedByQoS.add(other.messagesReceivedByQoS)
        messagesSentByQoS.add(other.messagesSentByQoS)
        drops.add(other.drops)
        publishBytesReceived += other.publishBytesReceived
        publishBytesSent += other.publishBytesSent
        socketsOpened += other.socketsOpened
        connectionsAccepted += other.connectionsAccepted
        connectionsRefused += other.connectionsRefused
        refusals.add(other.refusals)
        logins.add(other.logins)
        disconnects.add(other.disconnects)
        denials.add(other.denials)
        clientsExpired += other.clientsExpired
        packetsReceived.add(other.packetsReceived)
        packetsSent.add(other.packetsSent)
        connections += other.connections
        outputBytes += other.outputBytes
        clientsConnected += other.clientsConnected
        localClientsConnected += other.localClientsConnected
        clientsTotal += other.clientsTotal
        subscriptions += other.subscriptions
        sharedSubscriptions += other.sharedSubscriptions
        slowClients += other.slowClients
        retainedMessages += other.retainedMessages
        storedMessages += other.storedMessages
        storedBytes += other.storedBytes
        heapBytes += other.heapBytes
        store = store ?? other.store
        latencies.add(other.latencies)
    }
}
