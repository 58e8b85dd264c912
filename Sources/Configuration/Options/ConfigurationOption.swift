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

    /// Whether two configurations say different things about it. Two listeners are compared when they listen at the same place. Options
    /// that shape the configuration, and those of bridges, are never different.
    public var differs: @Sendable (BrokerConfiguration, BrokerConfiguration) -> Bool = { _, _ in false }

    /// The name that it counts under when duplicates are looked for.
    var identity: String { canonicalName ?? name }
}

/// Whether a row does what its name says.
public enum OptionStatus: Sendable, Equatable {
    case supported
    /// The option works. The text says what to write instead.
    case deprecated(String)
    /// The option is accepted, so that the file can stay as it is. The text says why nothing has to happen.
    case withoutEffect(String)
    /// The option is read, and this version of Martlet does not start with what it asks for.
    case unavailable
}
