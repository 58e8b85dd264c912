public import BrokerModel
public import Configuration
import MQTTCodec
import Platform

extension BrokerSettings {
    /// What the core needs of a configuration.
    public init(_ configuration: BrokerConfiguration, log: LogTopics) {
        self.init()
        listeners = configuration.listeners.map { ListenerPolicy($0) }
        takeLimits(configuration.limits)
        takeMessaging(configuration.messaging)
        connectTimeoutMilliseconds = UInt64(configuration.general.connectTimeoutSeconds) * 1000
        boundsEarlierKeepAlives = configuration.general.compatibility != .version2_0
        systemIntervalSeconds = UInt32(configuration.general.systemTopicIntervalSeconds ?? 0)
        versionText = "martlet version \(ProductVersion.text)"
        logTopics = log
        logsConnections = configuration.logging.logsConnections
        storesAtOnce = configuration.strictestDurability == .commit
        wallClockOffsetMilliseconds = WallClock.offsetMilliseconds()
        if configuration.general.enablesControlAPI { controlEndpoints.insert(Server.brokerEndpoint) }
        refusesWithoutCluster = configuration.cluster.detached == .refuse
        nodeName = configuration.general.nodeName ?? HostName.text()
    }

    private mutating func takeLimits(_ limits: LimitsConfiguration) {
        sessionsMax = limits.clientsMax
        connectionsMax = limits.connectionsMax
        connectionsPerSecondPerAddressMax = limits.connectionsPerSecondPerAddressMax
        messagesPerSecondMax = limits.messagesPerSecondMax ?? 0
        bytesPerSecondMax = limits.bytesPerSecondMax ?? 0
        keptBytesMax = limits.memoryBytesMax ?? 0
        packetBytesMax = limits.packetBytesMax ?? Self.packetBytesLargest
        connectBytesMax = limits.connectBytesMax
        connectingBytesMax = limits.connectingBytesMax ?? 0
        payloadBytesMax = limits.payloadBytesMax ?? 0
        topicLevelsMax = limits.topicLevelsMax
        topicBytesMax = limits.topicBytesMax
        inFlightMessagesMax = limits.inflightMessagesMax ?? 0
        inFlightBytesMax = limits.inflightBytesMax ?? 0
        queuedMessagesMax = limits.queuedMessagesMax ?? 0
        queuedBytesMax = limits.queuedBytesMax ?? 0
        residentMessagesMax = limits.queuedMessagesInMemoryMax
        residentBytesMax = limits.queuedBytesInMemoryMax
        outputBytesMax = limits.outputBytesMax
        subscriptionsPerClientMax = limits.subscriptionsPerClientMax ?? 0
        keepAliveSecondsMax = UInt16(clamping: limits.keepAliveSecondsMax ?? 0)
        countsFailedLogins = limits.banAfter != nil
        flapping = limits.flapping.map { BanRule($0) }
        slowClients = limits.slowClients.map {
            SlowClientPolicy(disconnects: $0.disconnects, milliseconds: UInt64($0.seconds) * 1000)
        }
        let expirations = [limits.sessionExpiryIntervalSecondsMax, limits.persistentClientExpirationSeconds].compactMap { $0 }
        sessionExpirySecondsMax = expirations.min().map { UInt32(clamping: $0) } ?? .max
    }

    private mutating func takeMessaging(_ messaging: MessagingConfiguration) {
        retainAvailable = messaging.isRetainAvailable
        retainedSweepMinutes = UInt32(messaging.retainExpirySweepMinutes ?? 0)
        checksRetainSource = messaging.checksRetainSource
        sharedSubscriptionAvailable = messaging.areSharedSubscriptionsAvailable
        wildcardSubscriptionAvailable = messaging.areWildcardSubscriptionsAvailable
        subscriptionIdentifiersAvailable = messaging.areSubscriptionIdentifiersAvailable
        sendsReasonStrings = messaging.sendsReasonStrings
        validatesPayloadFormat = messaging.validatesPayloadFormat
        upgradesOutgoingQoS = messaging.upgradesOutgoingQoS
        queuesQoS0 = messaging.queuesQoS0Messages
        presenceTopics =
            switch messaging.presenceEvents {
            case .none: .none
            case .connections: .connections
            case .all: .all
            }
        queueOverflow = QueueOverflow(messaging.queueDropPolicy)
        publishesWillsAtStop = messaging.publishesWillsAtStop
        foreignSession = messaging.foreignSessionPolicy == .refuse ? .refusesNewcomer : .discards
    }
}

extension QueueOverflow {
    init(_ policy: QueueDropPolicy) {
        self =
            switch policy {
            case .newest: .dropsNewest
            case .oldest: .dropsOldest
            case .refuse: .refusesPublisher
            }
    }
}

extension BanRule {
    init(_ wanted: OffenceLimit) {
        self.init(
            count: wanted.count, windowMilliseconds: UInt64(wanted.windowSeconds) * 1000,
            banMilliseconds: UInt64(wanted.banSeconds) * 1000)
    }
}

extension ListenerPolicy {
    init(_ listener: ListenerConfiguration) {
        self.init()
        name = ListenerName.identity(of: listener)
        isClosed = listener.isClosed
        holdsAcknowledgements = listener.durability == .commit
        switch listener.endpoint {
        case .tcp(let port, _), .loopback(let port): self.port = port
        case .unixSocket: port = 0
        }
        allowsAnonymous = listener.security.allowsAnonymous
        maximumQoS = QoS(rawValue: listener.qosMax) ?? .exactlyOnce
        topicAliasMaximum = listener.topicAliasMax
        sentTopicAliasMaximum = listener.topicAliasMaxBroker
        versions = Set(listener.acceptedProtocolVersions.compactMap { ProtocolVersion(rawValue: $0) })
        assignedIdentifierPrefix = listener.security.assignedIdentifierPrefix
        allowsEmptyClientIdentifier = listener.security.allowsZeroLengthClientIdentifier
        usesUserNameAsClientIdentifier = listener.usesUserNameAsClientIdentifier
        userNameSource =
            switch listener.tls.userNameSource {
            case .none: .login
            case .identity: .identity
            case .subject: .subject
            }
        checksAccessOnSubscribe = listener.security.checksAccessOnSubscribe
        connectionsMax = listener.connectionsMax
        clientIdentifierPrefix = listener.security.clientIdentifierPrefix
        mountPoint = listener.mountPoint.map { Array($0.utf8) } ?? []
    }
}
