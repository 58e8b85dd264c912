/// The ways to write a row.
extension ConfigurationOption {
    /// A row whose value is stored at `path`, where its default stands too.
    init<Root: OptionRoot, Value: Sendable>(
        _ name: String, _ path: any WritableKeyPath<Root, Value> & Sendable, _ syntax: ValueSyntax<Value>, _ summary: String,
        reload isReloadable: Bool = false, status: OptionStatus = .supported
    ) {
        let setter = OptionSetter<Root>(extent: syntax.extent) { text, root, _ in
            guard let value = syntax.parse(text) else { return .expected(syntax.expected) }
            root[keyPath: path] = value
            return syntax.remark(text).map { .remark($0) }
        }
        self.init(
            name: name, section: Root.section, shape: syntax.shape, defaultText: syntax.render(Root.initial[keyPath: path]),
            summary: summary, isReloadable: isReloadable, isRepeatable: false, status: status, action: Root.action(setter),
            differs: Root.difference { syntax.render($0[keyPath: path]) })
    }

    /// A row whose value is stored at `path`, where nil means that it was not given.
    init<Root: OptionRoot, Value: Sendable>(
        _ name: String, optional path: any WritableKeyPath<Root, Value?> & Sendable, _ syntax: ValueSyntax<Value>,
        _ summary: String, reload isReloadable: Bool = false, status: OptionStatus = .supported
    ) {
        self.init(name, path, syntax.optional, summary, reload: isReloadable, status: status)
    }

    /// A row whose value is the listener's in whose section it stands, else the one of all listeners that have none of
    /// their own.
    ///
    /// - Parameters:
    ///   - path: where the common value is stored, and its default stands.
    ///   - own: where a listener's own is stored while its section is read.
    ///   - inForce: where the listener has the one that holds.
    init<Value: Sendable>(
        _ name: String, _ path: any WritableKeyPath<BrokerConfiguration, Value> & Sendable,
        own: any WritableKeyPath<ListenerDraft, Value?> & Sendable,
        inForce: any KeyPath<ListenerConfiguration, Value> & Sendable, _ syntax: ValueSyntax<Value>, _ summary: String,
        reload isReloadable: Bool = false
    ) {
        let common = Self(name, path, syntax, summary, reload: isReloadable)
        let listener = Self(name, optional: own, syntax, summary, reload: isReloadable)
        self = common
        section = .listenerOrGlobal
        if case .global(let setter) = common.action, case .listener(let listenerSetter) = listener.action {
            action = .listenerOrGlobal(listenerSetter, setter)
        }
        differs = ListenerDraft.difference { syntax.render($0.configuration[keyPath: inForce]) }
    }

    /// A row that several lines may name, or whose value is not one property.
    init<Root: OptionRoot>(
        _ name: String, shape: String, default defaultText: String? = nil, _ summary: String, reload isReloadable: Bool = false,
        isRepeatable: Bool = true, extent: ValueExtent = .line,
        set: @escaping @Sendable (_ text: String, _ root: inout Root, _ isFirst: Bool) -> Expectation?
    ) {
        self.init(
            name: name, section: Root.section, shape: shape, defaultText: defaultText, summary: summary,
            isReloadable: isReloadable, isRepeatable: isRepeatable, status: .supported,
            action: Root.action(OptionSetter<Root>(extent: extent, set: set)))
    }

    /// A row that shapes the configuration.
    init(
        _ name: String, _ option: StructuralOption, section: ConfigurationSection = .global, shape: String,
        default defaultText: String? = nil, _ summary: String, reload isReloadable: Bool = false, isRepeatable: Bool = true,
        status: OptionStatus = .supported
    ) {
        self.init(
            name: name, section: section, shape: shape, defaultText: defaultText, summary: summary, isReloadable: isReloadable,
            isRepeatable: isRepeatable, status: status, action: .structure(option))
    }

    /// A row that is read and has no effect.
    init(ignored name: String, section: ConfigurationSection, shape: String, _ summary: String, because reason: String) {
        self.init(
            name: name, section: section, shape: shape, summary: summary, isReloadable: false, isRepeatable: true,
            status: .withoutEffect(reason), action: .ignore)
    }

    /// Returns the row under a second name, which is as good as the first.
    func also(_ alias: String) -> ConfigurationOption {
        var row = self
        row.name = alias
        row.canonicalName = name
        return row
    }

    /// Returns the row under a name that was given up.
    func formerly(_ alias: String) -> ConfigurationOption {
        var row = also(alias)
        row.status = .deprecated("write \(name) instead")
        return row
    }
}

/// The part of a file that an option belongs into.
public enum ConfigurationSection: String, Sendable, CaseIterable {
    /// Anywhere; holds for the broker.
    case global
    /// Anywhere, for the broker; with `per_listener_settings true` in a listener's section, for the listener.
    case security
    /// In a listener's section, for the listener; anywhere else, for all listeners that have none of their own.
    case listenerOrGlobal
    /// After a `listener` line; before the first of them, for the default listener.
    case listener
    /// After a `connection` line.
    case bridge
}

/// The example file: a broker for this machine alone, and every other option as a comment with what it does and its
/// default.
///
/// Made from the table of options, so that it cannot fall behind. `config/martlet.conf` is this text; a test compares
/// them.
public enum ConfigurationTemplate {
    public static var text: String {
        var text = head
        for (title, options) in chapters {
            text += "\n# ---- \(title)\n"
            for option in options where option.status == .supported && option.canonicalName == nil { text += entry(option) }
        }
        return text
    }

    private static let head = """
        # Martlet's configuration, in the format of mosquitto.conf.
        #
        # One option to a line: its name, a space, its value. A comment begins at the first character of its line.
        # A commented option shows its default, or in capitals what its value looks like. Options called martlet_* are Martlet's own.

        """

    private static let chapters: [(title: String, options: [ConfigurationOption])] = [
        (
            "Listeners: the options after a listener line hold for this listener, up to the next one.",
            ConfigurationOption.listenerOptions
        ),
        ("Security", ConfigurationOption.securityOptions),
        ("Who is asked about logins", ConfigurationOption.loginOptions),
        ("Logins by a directory", ConfigurationOption.directoryOptions),
        ("Logins by tokens", ConfigurationOption.tokenOptions),
        ("Plug-ins", ConfigurationOption.pluginOptions),
        ("Messages", ConfigurationOption.messagingOptions),
        ("On the open internet", ConfigurationOption.exposureOptions),
        ("Limits", ConfigurationOption.limitOptions),
        ("Persistence", ConfigurationOption.persistenceOptions),
        ("Logging", ConfigurationOption.loggingOptions),
        ("Administration over HTTP", ConfigurationOption.administrationOptions),
        ("The broker itself", ConfigurationOption.generalOptions),
        ("A cluster", ConfigurationOption.clusterOptions),
    ]

    /// The lines that are not comments.
    private static let active = ["listener": "listener 1883 127.0.0.1", "allow_anonymous": "allow_anonymous true"]

    private static func entry(_ option: ConfigurationOption) -> String {
        let name = option.name.hasSuffix("_") ? option.name + "NAME" : option.name
        let line = active[option.name] ?? "#\(name) \(option.defaultText ?? option.shape)"
        var comment = "# " + option.summary.split(separator: "\n").joined(separator: "\n# ")
        if option.defaultText != nil && option.shape.contains("|") && option.shape != "true|false" {
            comment += " (\(option.shape))"
        }
        return "\n\(comment)\n\(option.name == "martlet_profile" ? profiles : line)\n"
    }

    /// The lines that each profile stands for, below its own.
    private static var profiles: String {
        ConfigurationProfile.allCases.map { profile in
            let lines = profile.lines.map { "#     \($0.name) \($0.value)" }
            return (lines + ["#martlet_profile \(profile.rawValue)"]).joined(separator: "\n")
        }.joined(separator: "\n\n")
    }
}

/// A listener whose section is being read. What it takes from the broker's settings is decided at the end of the file.
struct ListenerDraft: Sendable {
    var configuration: ListenerConfiguration
    /// `listener_allow_anonymous`.
    var allowsAnonymous: Bool?
    /// `listener_auto_id_prefix`.
    var assignedIdentifierPrefix: String?
    /// `martlet_clientid_prefix` in the listener's section.
    var userIdentifierPrefix: String?
    /// `martlet_durability` in the listener's section.
    var durability: Durability?
    /// The plug-ins that serve this listener alone.
    var plugins: [PluginConfiguration] = []
    /// `use_identity_as_username`, `use_subject_as_username`.
    var usesIdentityAsUserName = false
    var usesSubjectAsUserName = false
    /// `martlet_certificate_username`.
    var certificateUserName: CertificateNameChoice?
    /// The `listener` line; nil for the default listener.
    var position: SourcePosition?

    /// A draft of a listener that is complete.
    init(_ configuration: ListenerConfiguration) { self.configuration = configuration }

    init(endpoint: ListenerEndpoint, position: SourcePosition?) {
        configuration = ListenerConfiguration(endpoint: endpoint)
        self.position = position
    }
}

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
    /// Stores the value of the text, or returns what was expected instead, or what there is to say of it. `isFirst`: no
    /// line before gave this option.
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

    /// How much of the line it reads.
    var extent: ValueExtent {
        switch self {
        case .connection: .words
        case .port, .perListenerSettings: .word
        // A comment can stand behind a port and an address, and not behind a socket's path: that is seen later.
        case .listener, .bindAddress, .includeDirectory, .plugin, .globalPlugin, .pluginLoad, .pluginUse, .pluginOption: .line
        }
    }
}
