/// What the reader does with a line.
enum OptionAction: Sendable {
    case global(OptionSetter<BrokerConfiguration>)
    case security(OptionSetter<SecurityConfiguration>)
    case listener(OptionSetter<ListenerDraft>)
    case bridge(OptionSetter<BridgeConfiguration>)
    /// The line shapes the configuration itself.
    case structure(StructuralOption)
    /// Nothing.
    case ignore
}
