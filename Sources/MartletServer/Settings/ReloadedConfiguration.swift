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
        configuration.general.threads = running.general.threads
        configuration.listeners = running.listeners.map { listener in
            guard var successor = wanted.listeners.first(where: { Self.isSame($0, listener) }) else {
                warnings.append(
                    "\(ListenerName.of(listener.endpoint)) is no longer in the config; it is closed when the broker is started again."
                )
                return listener
            }
            // Files may be others, but TLS cannot come or go.
            if successor.tls.isEnabled != listener.tls.isEnabled { successor.tls = listener.tls }
            successor.application = listener.application
            successor.proxyProtocolVersion = listener.proxyProtocolVersion
            // The store's own clock was set at the start.
            successor.durability = listener.durability
            return successor
        }
        for listener in wanted.listeners where !running.listeners.contains(where: { Self.isSame($0, listener) }) {
            warnings.append(
                "\(ListenerName.of(listener.endpoint)) is new in the config; it is opened when the broker is started again.")
        }
    }

    /// Whether both listen at the same place.
    private static func isSame(_ one: ListenerConfiguration, _ other: ListenerConfiguration) -> Bool {
        one.endpoint == other.endpoint && one.interface == other.interface && one.addressFamily == other.addressFamily
    }
}
