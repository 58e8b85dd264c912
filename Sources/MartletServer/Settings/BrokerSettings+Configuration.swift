import Administration
public import BrokerModel
public import Configuration
import MQTTCodec
import Platform

extension BrokerSettings {
    /// What the core needs of a configuration.
    public init(_ configuration: BrokerConfiguration, log: LogTopics) {
        self.init()
        listeners = configuration.listeners.map { ListenerPolicy($0) }
        applyLimits(configuration.limits)
        applyMessaging(configuration.messaging)
        connectTimeoutMilliseconds = UInt64(configuration.general.connectTimeoutSeconds) * 1000
        boundsEarlierKeepAlives = configuration.general.compatibility != .version2_0
        systemIntervalSeconds = UInt32(configuration.general.systemTopicIntervalSeconds ?? 0)
        versionText = "martlet version \(ProductVersion.text)"
        logTopics = log
        logsConnections = configuration.logging.logsConnections
        storesAtOnce = configuration.strictestDurability == .commit
        wallClockOffsetMilliseconds = WallClock.offsetMilliseconds()
        if configuration.general.enablesControlAPI { controlEndpoints.insert(ControlTopicService.brokerEndpoint) }
        refusesWithoutCluster = configuration.cluster.detached == .refuse
        nodeName = configuration.general.nodeName ?? HostName.text()
    }

    private mutating func applyLimits(_ limits: LimitsConfiguration) {
        sessionsMax = limits.clientsMax
        connectionsMax = limits.connectionsMax
        connectionsPerSecondPerAddressMax = limits.connectionsPerSecondPerAddressMax
        connectionsPerSecondMax = limits.connectionsPerSecondMax
        connectionsPerAddressMax = limits.connectionsPerAddressMax
        connectionsPerNetwork = limits.connectionsPerNetwork.map {
            NetworkConnectionBound(count: $0.count, ipv4Bits: $0.ipv4Bits, ipv6Bits: $0.ipv6Bits)
        }
        userBounds.connectionsMax = limits.connectionsPerUserMax
        userBounds.sessionsMax = limits.sessionsPerUserMax
        userBounds.subscriptionsMax = limits.subscriptionsPerUserMax
        handshakesMax = limits.handshakesMax
        messagesPerSecondMax = limits.messagesPerSecondMax ?? 0
        bytesPerSecondMax = limits.bytesPerSecondMax ?? 0
        keptBytesMax = limits.memoryBytesMax ?? 0
        packetBytesMax = limits.packet.bytesMax ?? Self.packetBytesLargest
        connectBytesMax = limits.packet.connectBytesMax
        connectingBytesMax = limits.connectingBytesMax ?? 0
        payloadBytesMax = limits.packet.payloadBytesMax ?? 0
        topicLevelsMax = limits.packet.topicLevelsMax
        topicBytesMax = limits.packet.topicBytesMax
        inFlightMessagesMax = limits.queue.inflightMessagesMax ?? 0
        inFlightBytesMax = limits.queue.inflightBytesMax ?? 0
        queuedMessagesMax = limits.queue.messagesMax ?? 0
        queuedBytesMax = limits.queue.bytesMax ?? 0
        residentMessagesMax = limits.queue.messagesInMemoryMax
        residentBytesMax = limits.queue.bytesInMemoryMax
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

    private mutating func applyMessaging(_ messaging: MessagingConfiguration) {
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
            case .name: .certificate
            }
        hidesUserNames = listener.hidesUserNames
        takesIdentifierFromCertificate = listener.tls.clientIdentifierSource != nil
        requiresPasswordToo = listener.tls.requiresPasswordToo
        checksAccessOnSubscribe = listener.security.checksAccessOnSubscribe
        connectionsMax = listener.connectionsMax
        connectionsPerSecondMax = listener.connectionsPerSecondMax
        clientIdentifierPrefix = listener.security.clientIdentifierPrefix
        userIdentifierPrefix = listener.userIdentifierPrefix
        mountPoint = listener.mountPoint.map { MountPoint($0) } ?? MountPoint()
    }
}

extension AdministrationSettings {
    /// What the administration needs of a configuration.
    ///
    /// - Parameter isUnconfigured: whether there is no file: then everybody on this machine may look.
    init(_ configuration: BrokerConfiguration, isUnconfigured: Bool) {
        self.init()
        let wanted = configuration.administration
        users = wanted.users.mapValues { $0 == .admin ? .admin : .viewer }
        allowsAnonymousMetrics = wanted.areMetricsAnonymous
        hosts = wanted.hosts
        origins = wanted.origins
        payloads = Payloads(rawValue: wanted.payloads.rawValue) ?? .admin
        keepsTokens = wanted.tokenFile != nil
        memoryBytesMax = configuration.limits.memoryBytesMax
        for (index, listener) in configuration.listeners.enumerated() where listener.application == .httpAPI {
            var settings = Listener()
            settings.parts = listener.httpOffers.reduce(into: Parts()) { $0.insert(Parts($1)) }
            settings.isLoopback = listener.isForThisMachine
            settings.anonymousRole = isUnconfigured && settings.isLoopback && listener.security.allowsAnonymous ? .viewer : nil
            listeners[index] = settings
        }
    }
}

extension AdministrationSettings.Parts {
    fileprivate init(_ offer: HTTPOffer) {
        switch offer {
        case .health: self = .health
        case .metrics: self = .metrics
        case .api: self = .api
        case .dashboard: self = .dashboard
        }
    }
}

/// What a configuration may ask for and this version does not do yet. Such a configuration is refused: a broker that
/// drops a password file or a certificate in silence is open.
public enum ConfigurationSupport {
    /// An error for each line that asks for what cannot be had, with what to do instead.
    public static func objections(to result: ConfigurationResult) -> [Diagnostic] {
        let (configuration, locations) = (result.configuration, result.locations)
        var objections: [Diagnostic] = []
        func refuse(_ line: ConfigurationLocations.Line?, _ what: String, _ remedy: String) {
            objections.append(
                Diagnostic(
                    severity: .error, at: line, in: locations,
                    message: "\(what) not available in this version of Martlet. \(remedy)"))
        }
        let used = Set(configuration.listeners.flatMap { $0.security.plugins.map(\.plugin) })
        for line in locations.lines where ["plugin", "auth_plugin", "global_plugin", "plugin_load"].contains(line.name) {
            let path =
                line.name == "plugin_load"
                ? String(line.value.drop { $0 != " " && $0 != "\t" }.drop { $0 == " " || $0 == "\t" }) : line.value
            guard let plugin = BuiltInPlugin(path: path), !plugin.isAvailable, used.contains(plugin) else { continue }
            refuse(line, "\(plugin.rawValue) is", remedy(for: plugin))
        }
        return objections
    }

    private static func remedy(for plugin: BuiltInPlugin) -> String {
        switch plugin {
        case .sparkplugAware: "Remove the line; the messages of Sparkplug clients pass without it."
        case .dynamicSecurity, .passwordFile, .accessControlFile, .persistSQLite, .goAuth: "Remove the line."
        }
    }
}

/// What a running broker makes of a configuration that it reads anew: all that it can take over now, and what has to
/// wait for a restart.
///
/// A listener has an index of its own among the listeners as long as the broker runs: one that the files do not name
/// any more is closed and keeps it, and one that is new comes behind all others, or at the index of a closed one that
/// was the same. A listener whose protocol has changed, or that has TLS or a PROXY header now and had none, is closed,
/// and another one opened which takes its sockets over.
struct ReloadedConfiguration {
    /// A listener that is to be opened.
    struct Opening: Equatable {
        /// Its index among the listeners.
        let listener: Int
        /// Its index among those of the files.
        let wanted: Int
        /// The listener in force whose sockets it takes over; nil for a new one.
        let predecessor: Int?
    }

    /// The running configuration with what could be taken over.
    private(set) var configuration: BrokerConfiguration
    /// A sentence for each thing that waits for a restart.
    private(set) var warnings: [String] = []
    private(set) var openings: [Opening] = []
    /// The listeners that are to be closed: their indexes.
    private(set) var closings: [Int] = []
    /// Where those of the files are now, in their order.
    private(set) var listenersOfFiles: [Int] = []

    init(running: BrokerConfiguration, wanted: BrokerConfiguration) {
        configuration = wanted
        var open = running
        open.listeners.removeAll(where: \.isClosed)
        for option in ConfigurationOption.all where !option.isReloadable && option.differs(open, wanted) {
            warnings.append("\(option.name) has changed; that takes effect when the broker is started again.")
        }
        keepWhatStays(of: running)
        configuration.listeners = running.listeners
        for (index, listener) in wanted.listeners.enumerated() { follow(listener, index, running) }
        for index in running.listeners.indices where !running.listeners[index].isClosed && !listenersOfFiles.contains(index) {
            configuration.listeners[index].isClosed = true
            closings.append(index)
        }
    }

    /// Keeps the settings that are set up once, at the start. Half of them must not follow a file that the other half
    /// cannot follow: a store that gathers what it is given while the shards take every change for saved would lose
    /// acknowledged messages.
    private mutating func keepWhatStays(of running: BrokerConfiguration) {
        configuration.persistence = running.persistence
        keepCluster(of: running)
        let wanted = configuration.general
        configuration.general = running.general
        configuration.general.systemTopicIntervalSeconds = wanted.systemTopicIntervalSeconds
        configuration.general.enablesControlAPI = wanted.enablesControlAPI
        configuration.general.connectTimeoutSeconds = wanted.connectTimeoutSeconds
        configuration.messaging.areSharedSubscriptionsAvailable = running.messaging.areSharedSubscriptionsAvailable
        configuration.messaging.areWildcardSubscriptionsAvailable = running.messaging.areWildcardSubscriptionsAvailable
        configuration.messaging.areSubscriptionIdentifiersAvailable = running.messaging.areSubscriptionIdentifiersAvailable
    }

    /// A node stays in its cluster, and logs in there with what the file says now.
    private mutating func keepCluster(of running: BrokerConfiguration) {
        let wanted = configuration.cluster
        configuration.cluster = running.cluster
        guard running.cluster.isEnabled, wanted.isEnabled else { return }
        (configuration.cluster.userName, configuration.cluster.password) = (wanted.userName, wanted.password)
        (configuration.cluster.token, configuration.cluster.keyFile) = (wanted.token, wanted.keyFile)
        (configuration.cluster.requiresTLS, configuration.cluster.authoritiesFile) = (wanted.requiresTLS, wanted.authoritiesFile)
        configuration.cluster.certificateFile = wanted.certificateFile
        configuration.cluster.certificateKeyFile = wanted.certificateKeyFile
    }

    /// Finds an index for a listener of the files: its own, if it runs as it is, or a new one.
    private mutating func follow(_ wanted: ListenerConfiguration, _ index: Int, _ running: BrokerConfiguration) {
        var successor = wanted
        let same = running.listeners.indices.filter {
            running.listeners[$0].hasAddress(of: wanted) && running.listeners[$0].speaksAs(wanted) && !listenersOfFiles.contains($0)
        }
        if let position = same.first(where: { !running.listeners[$0].isClosed }) {
            // The store's own clock was set at the start.
            successor.durability = running.listeners[position].durability
            configuration.listeners[position] = successor
            listenersOfFiles.append(position)
            return
        }
        let predecessor = running.listeners.indices.first {
            running.listeners[$0].hasAddress(of: wanted) && !running.listeners[$0].isClosed && !listenersOfFiles.contains($0)
        }
        successor.durability = durability(of: wanted, running)
        let position = same.first ?? configuration.listeners.count
        if position == configuration.listeners.count {
            configuration.listeners.append(successor)
        } else {
            configuration.listeners[position] = successor
        }
        listenersOfFiles.append(position)
        openings.append(Opening(listener: position, wanted: index, predecessor: predecessor))
    }

    /// What acknowledgements of a new listener promise: nothing stricter than the store was set up for.
    private mutating func durability(of wanted: ListenerConfiguration, _ running: BrokerConfiguration) -> Durability {
        let strictest = running.strictestDurability
        var widened = running
        widened.listeners.append(wanted)
        guard running.persistence.isEnabled, widened.strictestDurability != strictest else { return wanted.durability }
        warnings.append(
            "\(ListenerName.of(wanted.endpoint)): its martlet_durability takes effect when the broker is started again.")
        return strictest
    }
}
