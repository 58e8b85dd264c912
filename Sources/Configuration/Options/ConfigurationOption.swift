/// One row of the table of options: what a file may say, what it means and what becomes of it.
///
/// The table (`ConfigurationOption.all`) is the only place that knows the names. The reader, the example file and the command that
/// prints the options all follow it.
public struct ConfigurationOption: Sendable {
    /// As it is written in the file. A name that ends in `_` stands for all names that begin so.
    public var name: String
    public var section: ConfigurationSection
    /// What its value looks like: `true|false`, `0 to 65535`, `PATH`.
    public var shape: String
    /// What counts when the file is silent, as it would be written; nil when it is "nothing".
    public var defaultText: String?
    /// What it does, in one sentence.
    public var summary: String
    /// A running broker takes a changed value over on SIGHUP.
    public var isReloadable: Bool
    /// It may be given more than once, and every line counts.
    public var isRepeatable: Bool
    public var status: OptionStatus
    /// For an old or second name, the name that it stands for.
    public var canonicalName: String?

    /// What the reader does with a line that names it.
    var action: OptionAction

    /// The name that it counts under when duplicates are looked for.
    var identity: String { canonicalName ?? name }
}

/// The part of a file that an option belongs into.
public enum ConfigurationSection: String, Sendable, CaseIterable {
    /// Anywhere; holds for the broker.
    case global
    /// Anywhere, for the broker; with `per_listener_settings true` in a listener's section, for the listener.
    case security
    /// After a `listener` line; before the first of them, for the default listener.
    case listener
    /// After a `connection` line.
    case bridge
}

/// Whether a row does what its name says.
public enum OptionStatus: Sendable, Equatable {
    case supported
    /// It works. The text says what to write instead.
    case deprecated(String)
    /// It is accepted, so that the file can stay as it is. The text says why nothing has to happen.
    case withoutEffect(String)
}

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

/// The options that open a section, name a plug-in or change how the file is read.
enum StructuralOption: Sendable {
    case listener
    case port
    case bindAddress
    case connection
    case includeDirectory
    case perListenerSettings
    case plugin
    case globalPlugin
    case pluginLoad
    case pluginUse
    case pluginOption(prefix: String)
}

/// Stores a line's value.
struct OptionSetter<Root: Sendable>: Sendable {
    /// Only the first word of the line counts.
    let isOneWord: Bool
    /// Stores the value of the text, or returns what was expected instead. `isFirst`: no line before gave this option.
    let set: @Sendable (_ text: String, _ root: inout Root, _ isFirst: Bool) -> Expectation?
}

/// Why a value was refused.
enum Expectation: Sendable, Equatable {
    /// The value is not `what`.
    case expected(String)
    /// A sentence of its own.
    case sentence(String)
}
