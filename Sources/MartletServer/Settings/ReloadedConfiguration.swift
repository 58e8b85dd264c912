import Configuration

/// What a running broker makes of a configuration that it reads anew: all that it can take over now, and what has to wait for a restart.
///
/// A listener has a place of its own among the listeners as long as the broker runs: one that the files do not name any more is closed and
/// keeps it, and one that is new comes behind all others, or to the place of a closed one that was the same. A listener whose protocol has
/// changed, or that has TLS or a PROXY header now and had none, is closed, and another one opened which takes its sockets over.
struct ReloadedConfiguration {
    /// A listener that is to be opened.
    struct Opening: Equatable {
        /// Its place among the listeners.
        let listener: Int
        /// Its place among those of the files.
        let wanted: Int
        /// The listener in force whose sockets it takes over; nil for a new one.
        let predecessor: Int?
    }

    /// The running configuration with what could be taken over.
    private(set) var configuration: BrokerConfiguration
    /// A sentence for each thing that waits for a restart.
    private(set) var warnings: [String] = []
    private(set) var openings: [Opening] = []
    /// The listeners that are to be closed: their places.
    private(set) var closings: [Int] = []
    /// Where those of the files are now, in their order.
    private(set) var places: [Int] = []

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
        for index in running.listeners.indices where !running.listeners[index].isClosed && !places.contains(index) {
            configuration.listeners[index].isClosed = true
            closings.append(index)
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

    /// Finds a place for a listener of the files: its own, if it runs as it is, or a new one.
    private mutating func follow(_ wanted: ListenerConfiguration, _ index: Int, _ running: BrokerConfiguration) {
        var successor = wanted
        let same = running.listeners.indices.filter {
            running.listeners[$0].isAtPlace(of: wanted) && running.listeners[$0].speaksAs(wanted) && !places.contains($0)
        }
        if let place = same.first(where: { !running.listeners[$0].isClosed }) {
            // The store's own clock was set at the start.
            successor.durability = running.listeners[place].durability
            configuration.listeners[place] = successor
            places.append(place)
            return
        }
        let predecessor = running.listeners.indices.first {
            running.listeners[$0].isAtPlace(of: wanted) && !running.listeners[$0].isClosed && !places.contains($0)
        }
        successor.durability = durability(of: wanted, running)
        let place = same.first ?? configuration.listeners.count
        if place == configuration.listeners.count {
            configuration.listeners.append(successor)
        } else {
            configuration.listeners[place] = successor
        }
        places.append(place)
        openings.append(Opening(listener: place, wanted: index, predecessor: predecessor))
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
