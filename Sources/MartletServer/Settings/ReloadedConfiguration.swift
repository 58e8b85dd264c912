import Configuration

/// What a running broker makes of a configuration that it reads anew: all that it can take over now, and what has to wait for a restart.
struct ReloadedConfiguration {
    /// The running configuration with what could be taken over.
    private(set) var configuration: BrokerConfiguration
    /// A sentence for each thing that waits for a restart.
    private(set) var warnings: [String] = []

    init(running: BrokerConfiguration, wanted: BrokerConfiguration) {
        configuration = wanted
        for option in ConfigurationOption.all where !option.isReloadable && option.differs(running, wanted) {
            warnings.append("\(option.name) has changed; that takes effect when the broker is started again.")
        }
        keepWhatStays(of: running)
        configuration.listeners = running.listeners.map { listener in
            guard let successor = wanted.listeners.first(where: { Self.isSame($0, listener) }) else {
                warnings.append(
                    "\(ListenerName.of(listener.endpoint)) is no longer in the config; it is closed when the broker is started again."
                )
                return listener
            }
            return follow(successor, from: listener)
        }
        for listener in wanted.listeners where !running.listeners.contains(where: { Self.isSame($0, listener) }) {
            warnings.append(
                "\(ListenerName.of(listener.endpoint)) is new in the config; it is opened when the broker is started again.")
        }
    }

    /// What is set up once, at the start. Half of it must not follow a file that the other half cannot follow: a store that gathers what it
    /// is given while the shards take every change for saved would lose acknowledged messages.
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

    /// A listener that runs, with what the file says of it now.
    private mutating func follow(_ wanted: ListenerConfiguration, from running: ListenerConfiguration) -> ListenerConfiguration {
        var successor = wanted
        // Files may be others, but TLS cannot come or go.
        if wanted.tls.isEnabled != running.tls.isEnabled {
            warnings.append(
                "\(ListenerName.of(running.endpoint)): TLS is switched \(wanted.tls.isEnabled ? "on" : "off") when the broker is started again."
            )
            successor.tls = running.tls
        }
        successor.application = running.application
        successor.proxyProtocolVersion = running.proxyProtocolVersion
        successor.proxyProtocolRequiresTLS = running.proxyProtocolRequiresTLS
        successor.trustedProxies = running.trustedProxies
        successor.webSocketOrigins = running.webSocketOrigins
        // The store's own clock was set at the start.
        successor.durability = running.durability
        return successor
    }

    /// Whether both listen at the same place.
    private static func isSame(_ one: ListenerConfiguration, _ other: ListenerConfiguration) -> Bool {
        one.endpoint == other.endpoint && one.interface == other.interface && one.addressFamily == other.addressFamily
    }
}
