import Platform

/// One reading of a configuration: what was understood so far.
///
///     readMainFile ─► handle (each line) ─► set / open / include … ─► finish
///
/// The default listener is `listeners[0]`; it becomes a listener of the broker only if the file says something about
/// it, or opens none.
struct ConfigurationReading: Sendable {
    let files: any FileSource
    let environment: [String: String]
    /// The main file.
    let path: String

    var configuration = BrokerConfiguration()
    var listeners = [ListenerDraft(endpoint: .loopback(port: BrokerConfiguration.defaultPort), position: nil)]
    var plugins: [PluginDraft] = []
    var pluginUses: [PluginUse] = []
    var log = DiagnosticLog()
    var locations: ConfigurationLocations

    /// Security options go to the listener in whose section they stand.
    var hasListenerSecurity = false
    /// The one that the environment gives the broker.
    var firstUser: FirstUser?
    /// `port` and `bind_address`.
    var defaultPort: UInt16?
    var defaultHost: String?
    /// The first line that concerns the default listener.
    var defaultListenerPosition: SourcePosition?
    /// The first line with a security option.
    var securityPosition: SourcePosition?
    /// Where each bridge begins.
    var bridgePositions: [SourcePosition] = []
    /// Where each option was given first.
    private var firstPositions: [Key: SourcePosition] = [:]
    /// Outdated names that were warned of.
    private var warnedNames: Set<String> = []

    private struct Key: Hashable {
        let name: String
        let scope: Scope
    }

    /// What an option is stored in.
    enum Scope: Hashable {
        case broker
        case listener(Int)
        case bridge(Int)
    }

    init(files: any FileSource, environment: [String: String], path: String) {
        self.files = files
        self.environment = environment
        self.path = path
        locations = ConfigurationLocations(file: path)
    }

    /// Whether a line gave the option called `name`.
    func wasGiven(_ name: String, in scope: Scope = .broker) -> Bool {
        firstPositions[Key(name: name, scope: scope)] != nil
    }

    /// Where a line gave the option called `name` first; nil for nowhere.
    func position(of name: String, in scope: Scope = .broker) -> SourcePosition? { firstPositions[Key(name: name, scope: scope)] }

    // MARK: Files

    mutating func readMainFile() {
        let bytes: [UInt8]
        do {
            bytes = try files.contents(ofFile: path, bytesMax: Limits.fileBytesMax)
        } catch {
            log.add(Diagnostic(severity: .error, file: path, message: "Unable to open config file \(error.path). \(error.reason)."))
            return
        }
        let lines = LineReader.lines(of: bytes, file: path, log: &log)
        // It holds for the lines above it too, so it is looked for first.
        configuration.general.expandsEnvironment = lines.contains {
            $0.name == "martlet_expand_environment" && ["true", "1"].contains($0.value.words.first)
        }
        handle(lines, isMainFile: true)
    }

    mutating func handle(_ lines: [ConfigurationLine], isMainFile: Bool) {
        var cursor = SectionCursor(isMainFile: isMainFile)
        for line in lines {
            if log.isFull { return }
            handle(line, &cursor)
        }
    }

    // MARK: Lines

    private mutating func handle(_ line: ConfigurationLine, _ cursor: inout SectionCursor) {
        guard let option = ConfigurationOption.named(line.name) else {
            reportUnknown(line)
            return
        }
        if !isOfForeignPlugin(option, line, cursor) { warnOfStatus(option, line) }
        guard var value = value(of: line, option) else { return }
        var line = line
        if case .structure(let structural) = option.action { value = text(value, structural.extent, line) }
        line.value = value
        // Places keep the name of the file: they are shown.
        guard let value = secret(value, option, line) else { return }
        switch option.action {
        case .global(let setter):
            set(option, setter, value, line, scope: .broker, in: \.configuration)
        case .security(let setter):
            guard let target = securityTarget(option, line, cursor) else { return }
            set(option, setter, value, line, scope: target.scope, in: target.path)
        case .listener(let setter):
            let index = listenerTarget(option, line, cursor)
            set(option, setter, value, line, scope: .listener(index), in: \.listeners[index])
        case .listenerOrGlobal(let listenerSetter, let setter):
            if cursor.section == .listener {
                let index = cursor.listener
                set(option, listenerSetter, value, line, scope: .listener(index), in: \.listeners[index])
            } else {
                set(option, setter, value, line, scope: .broker, in: \.configuration)
            }
        case .bridge(let setter):
            guard let index = bridgeTarget(line, cursor) else { return }
            set(option, setter, value, line, scope: .bridge(index), in: \.configuration.bridges[index])
        case .structure(let structural):
            if case .perListenerSettings = structural, wasGiven(option.name), Bool(wordOf: value) == hasListenerSecurity { return }
            guard recordFirst(option, line, scope: .broker, isOneWord: false) != nil else { return }
            handle(structural, value, line, &cursor)
        case .ignore:
            return
        }
    }

    /// The line's value with its variables replaced; nil if it is reported instead.
    private mutating func value(of line: ConfigurationLine, _ option: ConfigurationOption) -> String? {
        var value = line.value
        if configuration.general.expandsEnvironment && value.contains("$") {
            do {
                value = try EnvironmentExpansion(environment: environment).expand(value).trimmed
            } catch {
                log.error(error.message, at: line.position, option: line.name)
                return nil
            }
        }
        guard !value.isEmpty else {
            log.error(
                "Empty \(line.name) value in configuration; expected \(line.name) \(option.shape).", at: line.position,
                option: line.name)
            return nil
        }
        guard value.utf8.count <= Limits.valueBytesMax else {
            log.error("the value is longer than \(Limits.valueBytesMax) bytes.", at: line.position, option: line.name)
            return nil
        }
        let notation = ValueNotation(value, of: option, named: line.name)
        if let error = notation.error {
            log.error(error, at: line.position, option: line.name)
            return nil
        }
        for warning in notation.warnings { log.warning(warning, at: line.position, option: line.name) }
        return notation.value
    }

    /// The value, or of a secret that stands in a file of its own what is there; nil if the file is reported instead.
    private mutating func secret(_ value: String, _ option: ConfigurationOption, _ line: ConfigurationLine) -> String? {
        switch option.action {
        case .structure, .ignore: return value
        default: break
        }
        guard ConfigurationOption.isSecret(option.name) else { return value }
        do throws(SecretFiles.Refusal) {
            let secrets = SecretFiles(files: files)
            if let path = SecretFiles.path(in: value) {
                configuration.general.secretFiles.append(SecretFile(option: line.name, path: path))
            }
            return try secrets.secret(of: value)
        } catch {
            log.error(error.message, at: line.position, option: line.name)
            return nil
        }
    }

    /// Stores `value` in the property at `path`, or reports why not.
    private mutating func set<Root>(
        _ option: ConfigurationOption, _ setter: OptionSetter<Root>, _ value: String, _ line: ConfigurationLine, scope: Scope,
        in path: WritableKeyPath<ConfigurationReading, Root>
    ) {
        guard let isFirst = recordFirst(option, line, scope: scope, isOneWord: setter.extent == .word) else { return }
        if case .withoutEffect = option.status {
            // Whatever it says, nothing would come of it; a value that can be read is shown where options are.
            _ = setter.set(setter.extent == .word ? value.words.first ?? value : value, &self[keyPath: path], isFirst)
            return
        }
        let text = text(value, setter.extent, line)
        switch setter.set(text, &self[keyPath: path], isFirst) {
        case nil: return
        case .remark(let sentence):
            log.warning(sentence, at: line.position, option: line.name)
        case .expected(let expected):
            let found = ConfigurationOption.shown(text, of: option.name)
            let advice = ValueNotation.advice(onQuotesAround: found, of: line.name)
            log.error("found \(found.quoted), expected \(expected).\(advice)", at: line.position, option: line.name)
        case .sentence(let sentence):
            log.error(sentence, at: line.position, option: line.name)
        }
    }

    /// What of `value` counts. mosquitto passes over what follows the first word in silence; here only a comment is.
    private mutating func text(_ value: String, _ extent: ValueExtent, _ line: ConfigurationLine) -> String {
        guard extent != .line else { return value }
        let words = value.words
        if extent == .words {
            guard let comment = words.dropFirst().firstIndex(where: { $0.hasPrefix("#") }) else { return value }
            return words[..<comment].joined(separator: " ")
        }
        guard let first = words.first, words.count > 1 else { return value }
        let rest = value.dropFirst(first.count).trimmed
        guard !rest.hasPrefix("#") else { return first }
        let shown = ConfigurationOption.shown(rest, of: line.name)
        log.warning("the rest of the line, \(shown.quoted), is ignored.", at: line.position, option: line.name)
        return first
    }

    /// Notes that the option was given, and returns whether for the first time; nil if it must not be given again,
    /// which is reported.
    private mutating func recordFirst(
        _ option: ConfigurationOption, _ line: ConfigurationLine, scope: Scope, isOneWord: Bool
    ) -> Bool? {
        locations.record(line, option, scope: scope)
        let key = Key(name: option.identity, scope: scope)
        guard let first = firstPositions[key] else {
            firstPositions[key] = line.position
            return true
        }
        if option.isRepeatable { return false }
        let place = first.location(from: line.position)
        if isOneWord {
            log.warning("given before on \(place); the last one counts.", at: line.position, option: line.name)
            return false
        }
        log.error(
            "Duplicate \(line.name) value in configuration, given before on \(place).", at: line.position, option: line.name)
        return nil
    }

    // MARK: Sections

    /// Where a security option goes; nil if there is no place for it, which is reported.
    private mutating func securityTarget(
        _ option: ConfigurationOption, _ line: ConfigurationLine, _ cursor: SectionCursor
    ) -> (scope: Scope, path: WritableKeyPath<ConfigurationReading, SecurityConfiguration>)? {
        if securityPosition == nil { securityPosition = line.position }
        guard hasListenerSecurity else { return (.broker, \.configuration.security) }
        let index = cursor.listener
        guard index > 0 else {
            log.error(
                "with per_listener_settings true it belongs in a listener's section, after a line \"listener PORT\".",
                at: line.position, option: line.name)
            return nil
        }
        return (.listener(index), \.listeners[index].configuration.security)
    }

    /// The listener that a listener option goes to.
    private mutating func listenerTarget(
        _ option: ConfigurationOption, _ line: ConfigurationLine, _ cursor: SectionCursor
    ) -> Int {
        if cursor.section == .bridge {
            let place = cursor.listener == 0 ? "the default listener" : "the listener above it"
            log.warning(
                "it belongs in a listener's section, after a line \"listener PORT\"; in a bridge's section it is taken for \(place).",
                at: line.position, option: line.name)
        }
        // As in mosquitto, a file that begins with "protocol mqtt" says what holds anyway, and opens nothing by that:
        // so does Home Assistant's.
        let saysNothing = line.name == "protocol" && line.value == ListenerProtocol.mqtt.rawValue
        if cursor.listener == 0 && defaultListenerPosition == nil && !saysNothing { defaultListenerPosition = line.position }
        return cursor.listener
    }

    /// The bridge that a bridge option goes to; nil if there is none, which is reported.
    private mutating func bridgeTarget(_ line: ConfigurationLine, _ cursor: SectionCursor) -> Int? {
        guard let index = cursor.bridge else {
            log.error(
                "it belongs in a bridge's section, after a line \"connection NAME\".", at: line.position, option: line.name)
            return nil
        }
        if cursor.section == .listener {
            log.warning(
                "it belongs in a bridge's section; in a listener's section it is taken for the bridge above it.",
                at: line.position, option: line.name)
        }
        return index
    }

    // MARK: Names

    private mutating func reportUnknown(_ line: ConfigurationLine) {
        var message = "Unknown configuration variable '\(ValueNotation.shown(name: line.name).prefix(80))'."
        if let advice = ValueNotation.advice(onName: line.name, value: line.value) {
            message += " \(advice)"
        } else if let nearest = NearestName.nearest(to: line.name, among: ConfigurationOption.fixedNames) {
            message += " Did you mean \(nearest)?"
        } else {
            message += " martlet.conf(5) lists all options."
        }
        log.error(message, at: line.position)
    }

    /// Warns, once for each name, of an option that is outdated or has no effect.
    private mutating func warnOfStatus(_ option: ConfigurationOption, _ line: ConfigurationLine) {
        if option.status == .supported || !warnedNames.insert(option.name).inserted { return }
        switch option.status {
        case .supported, .unavailable: return
        case .deprecated(let advice):
            // A family's names are as long as their owners made them.
            let rest = option.name.hasSuffix("_") ? String(line.name.dropFirst(option.name.count)) : ""
            let full = option.canonicalName.map { "write \($0)\(rest) instead" } ?? advice
            log.warning("it is deprecated; \(full).", at: line.position, option: line.name)
        case .withoutEffect(let reason):
            log.warning("it has no effect here: \(reason).", at: line.position, option: line.name)
        }
    }
}

extension ConfigurationReading {
    /// Completes what was read, checks what concerns more than one line, and returns all of it.
    mutating func finish(ports: [UInt16]) -> ConfigurationResult {
        applyCompatibility()
        applyProfile()
        applyEnvironment()
        distributePlugins()
        warnOfIdleValues()
        readFirstUser()
        resolveListeners(ports: ports)
        OpeningCheck(lines: locations.lines, listeners: listeners).run(log: &log)
        for (bridge, position) in zip(configuration.bridges, bridgePositions) {
            BridgeCheck(bridge: bridge, position: position).run(log: &log)
        }
        warnOfBridgeLoops()
        let given = ConfigurationOption.clusterOptions.compactMap { option in position(of: option.name).map { (option.name, $0) } }
        ClusterCheck(cluster: configuration.cluster, positions: Dictionary(uniqueKeysWithValues: given)).run(log: &log)
        return ConfigurationResult(configuration: configuration, diagnostics: log.sorted, locations: locations)
    }

    /// Where mosquitto 2.0 has other defaults than 2.1, and the file asks for them.
    private mutating func applyCompatibility() {
        guard configuration.general.compatibility == .version2_0 else { return }
        if !wasGiven("max_packet_size") { configuration.limits.packet.bytesMax = nil }
        if !wasGiven("max_keepalive") { configuration.limits.keepAliveSecondsMax = 65535 }
        if !wasGiven("allow_duplicate_messages") { configuration.messaging.allowsDuplicateMessages = false }
    }

    /// The profile's lines, where the file has none of its own.
    private mutating func applyProfile() {
        for (name, value) in configuration.general.profile?.lines ?? [] where !wasGiven(name) {
            guard case .global(let setter)? = ConfigurationOption.named(name)?.action,
                setter.set(value, &configuration, true) == nil
            else { preconditionFailure("the profile's line \(name) \(value)") }
        }
    }

    /// Warns of values that ask for nothing that happens here, of options that work with other values.
    private mutating func warnOfIdleValues() {
        if let position = position(of: "set_tcp_nodelay"), !configuration.general.disablesTCPDelay {
            log.warning(
                "false has no effect here: packets always leave without a delay, those of one turn together.", at: position,
                option: "set_tcp_nodelay")
        }
        let isNode = configuration.cluster.isEnabled
        let threadsMax = isNode ? Limits.nodeThreadsMax : Limits.threadsMax
        if let position = position(of: "martlet_threads"), let threads = configuration.general.threads, threads > threadsMax {
            log.warning(
                "\(threads) event loops are configured, and \(isNode ? "a node of a cluster has" : "there are") at most \(threadsMax); "
                    + "\(threadsMax) are run.", at: position, option: "martlet_threads")
        }
    }

    private mutating func applyEnvironment() {
        guard !wasGiven("persistence_location"), let location = environment["MOSQUITTO_PERSISTENCE_LOCATION"], !location.isEmpty
        else { return }
        configuration.persistence.location = location
    }

    private mutating func readFirstUser() {
        do throws(FirstUserRefusal) {
            firstUser = try FirstUser(environment: environment, files: files)
        } catch {
            log.add(error.diagnostic)
        }
        if let firstUser { configuration.record(firstUser) }
    }

    // MARK: Listeners

    private mutating func resolveListeners(ports: [UInt16]) {
        let isLocal =
            defaultPort == nil && defaultHost == nil && listeners.dropFirst().allSatisfy(\.configuration.isLocalAdministration)
        if !wasGiven("allow_anonymous") { configuration.security.allowsAnonymous = isLocal && firstUser == nil }
        if isLocal { resolveLoopback(ports: ports) } else { resolveDefaultListener(ports: ports) }
        for index in listeners.indices where index > 0 {
            // A listener whose line is wrong was reported.
            guard listeners[index].configuration.endpoint != .tcp(port: 0, host: nil) else { continue }
            add(index)
        }
    }

    /// The file opens no listener, or none but those from which only this machine administers the broker.
    private mutating func resolveLoopback(ports: [UInt16]) {
        if let defaultListenerPosition {
            log.warning(
                "without a line \"listener PORT\" only this machine can connect; mosquitto may open port 1883 to the network for such an option.",
                at: defaultListenerPosition)
        }
        listeners[0].configuration.security.allowsAnonymous = firstUser == nil
        add(0)
        guard let listener = configuration.listeners.popLast() else { return }
        configuration.listeners = BrokerConfiguration.loopbackListeners(ports: ports, security: listener.security).map {
            var copy = listener
            copy.endpoint = $0.endpoint
            return copy
        }
        for _ in configuration.listeners.dropFirst() { locations.recordListener(ofDraft: 0) }
    }

    /// `port`, `bind_address` and listener options outside of every section ask for one more listener.
    private mutating func resolveDefaultListener(ports: [UInt16]) {
        if !ports.isEmpty {
            log.add(
                Diagnostic(
                    severity: .warning, file: path,
                    message: "the ports of the command line are not opened, because the file has listeners."))
        }
        guard let position = defaultListenerPosition else { return }
        let endpoint = ListenerEndpoint.tcp(port: defaultPort ?? BrokerConfiguration.defaultPort, host: defaultHost)
        if defaultPort == nil && defaultHost == nil {
            log.warning(
                "a listener option before the first line \"listener PORT\" opens another listener, on port \(BrokerConfiguration.defaultPort); to set it for the listener only, move it below that line.",
                at: position)
        }
        if let twin = listeners.dropFirst().first(where: { $0.configuration.endpoint == endpoint })?.position {
            log.error(
                "the listener of \(twin.location(from: position)) has the same address and port as the default listener.",
                at: position
            )
            return
        }
        listeners[0].configuration.endpoint = endpoint
        listeners[0].position = position
        add(0)
    }

    /// Completes a draft and adds it to the broker's listeners.
    private mutating func add(_ index: Int) {
        var draft = listeners[index]
        if !hasListenerSecurity { draft.configuration.security = configuration.security }
        for plugin in draft.plugins { draft.configuration.security.add(plugin) }
        if let isAllowed = draft.allowsAnonymous { draft.configuration.security.allowsAnonymous = isAllowed }
        if let firstUser {
            draft.configuration.security.add(firstUser, isOpened: draft.allowsAnonymous != nil || hasListenerSecurity)
        }
        if let prefix = draft.assignedIdentifierPrefix { draft.configuration.security.assignedIdentifierPrefix = prefix }
        draft.configuration.userIdentifierPrefix = draft.userIdentifierPrefix ?? configuration.limits.userIdentifierPrefix
        if draft.configuration.defaultRules.isEmpty { draft.configuration.defaultRules = configuration.limits.defaultRules }
        draft.configuration.durability = draft.durability ?? configuration.persistence.durability
        draft.configuration.isDispensable = draft.configuration.isAdministrationSocket
        if draft.usesSubjectAsUserName { draft.configuration.tls.userNameSource = .subject }
        if let choice = draft.certificateUserName { draft.configuration.tls.userNameSource = .name(choice) }
        if draft.usesIdentityAsUserName { draft.configuration.tls.userNameSource = .identity }
        configuration.listeners.append(draft.configuration)
        locations.recordListener(ofDraft: index)
        ListenerCheck(draft: draft, index: index, locations: locations, path: path).run(log: &log)
    }
}

/// Replaces `${NAME}` inside a value by what the environment holds under NAME, and `$${` by `${`.
struct EnvironmentExpansion: Sendable {
    /// Why a value cannot be expanded.
    struct Refusal: Error, Equatable {
        /// A sentence.
        let message: String
    }

    let environment: [String: String]

    func expand(_ text: String) throws(Refusal) -> String {
        var result = ""
        var rest = text[...]
        while let dollar = rest.firstIndex(of: "$") {
            result += rest[..<dollar]
            rest = rest[dollar...]
            if rest.hasPrefix("$${") {
                result += "${"
                rest = rest.dropFirst(3)
            } else if rest.hasPrefix("${") {
                guard let end = rest.firstIndex(of: "}") else { throw Refusal(message: "\"${\" has no \"}\" after it.") }
                let name = String(rest[..<end].dropFirst(2))
                guard let value = environment[name] else {
                    throw Refusal(message: "the environment has no variable \(name.quoted).")
                }
                result += value
                rest = rest[rest.index(after: end)...]
            } else {
                result += "$"
                rest = rest.dropFirst()
            }
        }
        result += rest
        if LineReader.complaint(about: result) != nil {
            throw Refusal(message: "a variable of the environment holds a control character.")
        }
        return result
    }
}

extension Limits {
    /// Event loops that the broker makes; a `martlet_threads` that asks for more gets so many, and a warning.
    static let threadsMax = 64

    /// Event loops that a node of a cluster makes: it takes two of the slots that loops have.
    static let nodeThreadsMax = 62
}
