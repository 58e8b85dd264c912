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

    /// A row whose value is the listener's in whose section it stands, else the one of all listeners that have none of their own.
    ///
    /// - Parameters:
    ///   - path: where the common value is stored, and its default stands.
    ///   - own: where a listener's own is stored while its section is read.
    ///   - inForce: where the listener has the one that holds.
    init<Value: Sendable>(
        _ name: String, _ path: any WritableKeyPath<BrokerConfiguration, Value> & Sendable,
        own: any WritableKeyPath<ListenerDraft, Value?> & Sendable,
        inForce: any KeyPath<ListenerConfiguration, Value> & Sendable, _ syntax: ValueSyntax<Value>, _ summary: String
    ) {
        let common = Self(name, path, syntax, summary)
        let listener = Self(name, optional: own, syntax, summary)
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
