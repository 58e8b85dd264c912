/// What the reader does with a line.
enum OptionAction: Sendable {
    case global(OptionSetter<BrokerConfiguration>)
    case security(OptionSetter<SecurityConfiguration>)
    case listener(OptionSetter<ListenerDraft>)
    /// In a listener's section for the listener, elsewhere for all that have none of their own.
    case listenerOrGlobal(OptionSetter<ListenerDraft>, OptionSetter<BrokerConfiguration>)
    case bridge(OptionSetter<BridgeConfiguration>)
    /// The line shapes the configuration itself.
    case structure(StructuralOption)
    /// Nothing.
    case ignore
}
