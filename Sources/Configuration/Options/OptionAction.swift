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

/// Stores a line's value.
struct OptionSetter<Root: Sendable>: Sendable {
    let extent: ValueExtent
    /// Stores the value of the text, or returns what was expected instead, or what there is to say of it. `isFirst`: no line before gave this
    /// option.
    let set: @Sendable (_ text: String, _ root: inout Root, _ isFirst: Bool) -> Expectation?
}

/// How much of a line belongs to its value.
enum ValueExtent: Sendable {
    /// The first word, as with mosquitto's numbers and booleans.
    case word
    /// The words up to one that begins with #, where a comment begins.
    case words
    /// All that is there: paths, names and passwords may hold blanks and #.
    case line
}
