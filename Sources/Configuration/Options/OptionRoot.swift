/// A value that options are stored in: what a row's key path starts from.
protocol OptionRoot: Sendable {
    /// What the defaults are read from.
    static var initial: Self { get }
    static var section: ConfigurationSection { get }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction
    /// Whether two configurations hold such values with different texts.
    static func difference(
        of text: @escaping @Sendable (Self) -> String?
    ) -> @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool
}

extension BrokerConfiguration: OptionRoot {
    static var initial: BrokerConfiguration { BrokerConfiguration() }
    static var section: ConfigurationSection { .global }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .global(setter) }
    static func difference(
        of text: @escaping @Sendable (Self) -> String?
    ) -> @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool {
        { text($0) != text($1) }
    }
}

extension SecurityConfiguration: OptionRoot {
    static var initial: SecurityConfiguration { SecurityConfiguration() }
    static var section: ConfigurationSection { .security }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .security(setter) }
    static func difference(
        of text: @escaping @Sendable (Self) -> String?
    ) -> @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool {
        { text($0.security) != text($1.security) }
    }
}

extension ListenerDraft: OptionRoot {
    static var initial: ListenerDraft {
        ListenerDraft(endpoint: .loopback(port: BrokerConfiguration.defaultPort), position: nil)
    }
    static var section: ConfigurationSection { .listener }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .listener(setter) }
    static func difference(
        of text: @escaping @Sendable (Self) -> String?
    ) -> @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool {
        { one, other in
            one.listeners.contains { listener in
                // No option speaks of the broker's own.
                guard !listener.isBrokersOwn, let counterpart = other.listeners.first(where: { $0.endpoint == listener.endpoint })
                else { return false }
                return text(ListenerDraft(listener)) != text(ListenerDraft(counterpart))
            }
        }
    }
}

extension BridgeConfiguration: OptionRoot {
    static var initial: BridgeConfiguration { BridgeConfiguration(name: "") }
    static var section: ConfigurationSection { .bridge }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .bridge(setter) }
    static func difference(
        of text: @escaping @Sendable (Self) -> String?
    ) -> @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool {
        { _, _ in false }
    }
}
