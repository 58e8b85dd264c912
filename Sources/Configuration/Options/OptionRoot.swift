/// A value that options are stored in: what a row's key path starts from.
protocol OptionRoot: Sendable {
    /// What the defaults are read from.
    static var initial: Self { get }
    static var section: ConfigurationSection { get }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction
}

extension BrokerConfiguration: OptionRoot {
    static var initial: BrokerConfiguration { BrokerConfiguration() }
    static var section: ConfigurationSection { .global }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .global(setter) }
}

extension SecurityConfiguration: OptionRoot {
    static var initial: SecurityConfiguration { SecurityConfiguration() }
    static var section: ConfigurationSection { .security }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .security(setter) }
}

extension ListenerDraft: OptionRoot {
    static var initial: ListenerDraft {
        ListenerDraft(endpoint: .loopback(port: BrokerConfiguration.defaultPort), position: nil)
    }
    static var section: ConfigurationSection { .listener }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .listener(setter) }
}

extension BridgeConfiguration: OptionRoot {
    static var initial: BridgeConfiguration { BridgeConfiguration(name: "") }
    static var section: ConfigurationSection { .bridge }
    static func action(_ setter: OptionSetter<Self>) -> OptionAction { .bridge(setter) }
}
