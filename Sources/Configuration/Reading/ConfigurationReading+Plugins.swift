import Platform

extension ConfigurationReading {
    /// The listeners that a `plugin` line serves where the cursor stands.
    mutating func pluginScope(_ line: ConfigurationLine, _ cursor: SectionCursor) -> PluginDraft.Scope? {
        if securityPosition == nil { securityPosition = line.position }
        guard hasListenerSecurity else { return .broker }
        guard cursor.listener > 0 else {
            log.error(
                "with per_listener_settings true it belongs in a listener's section, after a line \"listener PORT\".",
                at: line.position, option: line.name)
            return nil
        }
        return .listener(cursor.listener)
    }

    mutating func addPlugin(
        path: String, scope: PluginDraft.Scope?, _ line: ConfigurationLine, _ cursor: inout SectionCursor
    ) {
        // Without a plug-in the options after this line would be blamed for an error that is not theirs.
        cursor.plugin = plugins.count
        let known = BuiltInPlugin(path: path)
        if known == nil {
            let names = BuiltInPlugin.allCases.filter(\.isAvailable).map(\.rawValue).joined(separator: ", ")
            let advice = ForeignPlugin(path: path).map { " \($0.advice)" } ?? ""
            log.error(
                "found \(path.quoted), expected one of the plug-ins that are built in: \(names).\(advice)", at: line.position,
                option: line.name)
        }
        plugins.append(
            PluginDraft(
                configuration: PluginConfiguration(plugin: known ?? .sparkplugAware), scope: scope ?? .broker,
                position: line.position, isUsable: known != nil && scope != nil, isBuiltIn: known != nil))
    }

    mutating func loadPlugin(_ value: String, _ line: ConfigurationLine, _ cursor: inout SectionCursor) {
        let name = value.words.first ?? ""
        let path = value.dropFirst(name.count).trimmed
        guard !path.isEmpty else {
            log.error("found \(value.quoted), expected NAME PATH.", at: line.position, option: line.name)
            return
        }
        if plugins.contains(where: { $0.scope == .named(name) }) {
            log.error("the name \(name.quoted) is taken.", at: line.position, option: line.name)
        }
        addPlugin(path: path, scope: .named(name), line, &cursor)
    }

    mutating func usePlugin(_ value: String, _ line: ConfigurationLine, _ cursor: SectionCursor) {
        guard plugins.contains(where: { $0.scope == .named(value) }) else {
            log.error("no line plugin_load above it has named \(value.quoted).", at: line.position, option: line.name)
            return
        }
        let scope: PluginDraft.Scope = cursor.listener > 0 ? .listener(cursor.listener) : .broker
        pluginUses.append(PluginUse(name: value, scope: scope))
    }

    mutating func setPluginOption(prefix: String, _ value: String, _ line: ConfigurationLine, _ cursor: SectionCursor) {
        guard let plugin = cursor.plugin else {
            log.error("it belongs to a plug-in, after a line \"plugin PATH\".", at: line.position, option: line.name)
            return
        }
        let name = String(line.name.dropFirst(prefix.count))
        if plugins[plugin].configuration.options.updateValue(value, forKey: name) != nil {
            log.error("Duplicate \(line.name) value in configuration.", at: line.position, option: line.name)
        }
        if plugins[plugin].isBuiltIn {
            checkPluginOption(plugins[plugin].configuration.plugin, prefix: prefix, name: name, value, line)
        } else if let counterpart = ForeignPlugin.counterpart(of: name, value) {
            log.warning(counterpart, at: line.position, option: line.name)
        }
    }

    /// Whether a line is about a plug-in that is not built in: how it would be written instead is of no use then.
    func isOfForeignPlugin(_ option: ConfigurationOption, _ line: ConfigurationLine, _ cursor: SectionCursor) -> Bool {
        switch option.action {
        case .structure(.plugin): BuiltInPlugin(path: line.value) == nil
        case .structure(.pluginOption): cursor.plugin.map { !plugins[$0].isBuiltIn } ?? false
        default: false
        }
    }

    /// Says what becomes of a plug-in's option: what is not known, or has no use here, mosquitto's plug-ins would pass
    /// over in silence.
    private mutating func checkPluginOption(
        _ plugin: BuiltInPlugin, prefix: String, name: String, _ value: String, _ line: ConfigurationLine
    ) {
        guard let option = plugin.options.first(where: { $0.name == name }) else {
            var message = "\(plugin.rawValue) has no such option; it has no effect."
            if let nearest = NearestName.nearest(to: name, among: plugin.options.map(\.name)) {
                message += " Did you mean \(prefix)\(nearest)?"
            } else if plugin == .goAuth {
                message += " The page \"Change over from mosquitto-go-auth\" of the documentation has those that there are."
            } else if !plugin.options.isEmpty {
                message += " It has \(plugin.options.map { prefix + $0.name }.joined(separator: ", "))."
            }
            log.warning(message, at: line.position, option: line.name)
            return
        }
        guard option.isRight(value) else {
            let found = ConfigurationOption.shown(value, of: name)
            log.error("found \(found.quoted), expected \(option.expected).", at: line.position, option: line.name)
            return
        }
        if let reason = option.withoutEffect {
            log.warning("it has no effect here: \(reason).", at: line.position, option: line.name)
        }
    }

    // MARK: At the end

    /// Gives the plug-ins to those that they serve.
    mutating func distributePlugins() {
        for draft in plugins where draft.isUsable {
            let scopes: [PluginDraft.Scope]
            if case .named(let name) = draft.scope {
                scopes = pluginUses.filter { $0.name == name }.map(\.scope)
                if scopes.isEmpty {
                    log.warning("no line plugin_use names it.", at: draft.position, option: "plugin_load")
                }
            } else {
                scopes = [draft.scope]
            }
            checkOptions(draft)
            checkGoAuth(draft)
            if draft.configuration.plugin == .persistSQLite {
                (configuration.persistence.isEnabled, configuration.persistence.isOfPlugin) = (true, true)
            }
            for scope in scopes {
                checkAccessFiles(draft, scope)
                give(draft.configuration, to: scope)
            }
        }
    }

    /// Says whose rules hold where there are an access file of the configuration's own and go-auth's: in mosquitto 2.0
    /// the file was asked first, in 2.1 what the plug-in lets pass it never sees.
    private mutating func checkAccessFiles(_ draft: PluginDraft, _ scope: PluginDraft.Scope) {
        guard draft.configuration.plugin == .goAuth else { return }
        let security =
            if case .listener(let index) = scope { listeners[index].configuration.security } else { configuration.security }
        let goAuth = GoAuthConfiguration(draft.configuration.options)
        if security.accessControlFile == nil, let backEnd = goAuth.backEndWithoutRules {
            log.error(
                "nothing bounds the users of the back end \(backEnd.rawValue): it is not registered for acl, and a database is asked for "
                    + "its own users' topics alone. Register files for acl, with auth_opt_files_acl_path, or write an acl_file.",
                at: draft.position, option: "plugin")
        }
        guard let file = security.accessControlFile, goAuth.hasRules else { return }
        log.warning(
            "acl_file \(file) binds everybody here: go-auth's own access file, superusers and access queries are not asked.",
            at: draft.position, option: "plugin")
    }

    private mutating func give(_ plugin: PluginConfiguration, to scope: PluginDraft.Scope) {
        switch scope {
        case .broker, .everyListener:
            configuration.security.add(plugin)
            // With settings of their own the listeners have to be told one by one.
            if hasListenerSecurity {
                for index in listeners.indices { listeners[index].configuration.security.add(plugin) }
            }
        case .listener(let index):
            listeners[index].plugins.append(plugin)
        case .named:
            return
        }
    }

    /// Reports the option that a plug-in cannot do without.
    private mutating func checkOptions(_ draft: PluginDraft) {
        guard let needed = draft.configuration.plugin.neededOption, draft.configuration.options[needed] == nil else { return }
        log.error(
            "\(draft.configuration.plugin.rawValue) needs plugin_opt_\(needed) after it.", at: draft.position, option: "plugin")
    }

    /// Reports what go-auth's lines lack, or let pass.
    private mutating func checkGoAuth(_ draft: PluginDraft) {
        guard draft.configuration.plugin == .goAuth else { return }
        let goAuth = GoAuthConfiguration(draft.configuration.options)
        if goAuth.asks(.http, .user), goAuth.userURI == nil {
            log.error("the back end http needs auth_opt_http_getuser_uri after it.", at: draft.position, option: "plugin")
        }
        if goAuth.asks(.files, .user), goAuth.passwordPath == nil {
            log.error("the back end files needs auth_opt_files_password_path after it.", at: draft.position, option: "plugin")
        }
        for check in [GoAuthConfiguration.Check.user, .acl]
        where !goAuth.backEnds.isEmpty && !goAuth.backEnds.contains(where: { goAuth.asks($0, check) }) {
            log.error(
                "no back end is registered for \(check.rawValue): nobody could \(check == .user ? "log in" : "use any topic").",
                at: draft.position, option: "plugin")
        }
        for sentence in goAuth.registrationsWithoutEffect { log.warning(sentence, at: draft.position, option: "plugin") }
        for backEnd in GoAuthConfiguration.BackEnd.allCases
        where !goAuth.backEnds.contains(backEnd) && draft.configuration.options["\(backEnd.prefix)_register"] != nil {
            log.warning(
                "auth_opt_\(backEnd.prefix)_register has no effect: auth_opt_backends does not name \(backEnd.rawValue).",
                at: draft.position, option: "plugin")
        }
        let needs: [(GoAuthConfiguration.BackEnd, [String])] = [
            (.jwt, ["jwt_mode", "jwt_secret", "jwt_acl_path"]), (.sqlite, ["sqlite_source", "sqlite_userquery"]),
            (.postgres, ["pg_dbname", "pg_user", "pg_userquery"]),
            (.ldap, ["ldap_user_dn", "ldap_bind_dn", "ldap_bind_password", "ldap_user_filter"]),
        ]
        for (backEnd, options) in needs where goAuth.backEnds.contains(backEnd) {
            for option in options where draft.configuration.options[option]?.isEmpty ?? true {
                if option == "jwt_acl_path", goAuth.tokenAccessPath != nil { continue }
                log.error(
                    "the back end \(backEnd.rawValue) needs auth_opt_\(option) after it.", at: draft.position, option: "plugin")
            }
        }
        if goAuth.backEnds.contains(.ldap), goAuth.ldap.topicAttribute != nil, goAuth.ldap.groupEntry == nil {
            log.error(
                "auth_opt_ldap_acl_topic_pattern_attribute needs auth_opt_ldap_group_dn too.", at: draft.position, option: "plugin")
        }
        if goAuth.backEnds.contains(.ldap), !goAuth.ldap.isProtected {
            log.warning(
                "whoever is on the way to the directory can read the passwords: write ldaps:// in auth_opt_ldap_url.",
                at: draft.position, option: "plugin")
        }
        if goAuth.backEnds.contains(.postgres), !goAuth.postgreSQL.isProtected {
            log.warning(
                "anybody between here and \(goAuth.postgreSQL.host) can read what the database says of users, and change it: write "
                    + "auth_opt_pg_sslmode verify-full.", at: draft.position, option: "plugin")
        }
        if goAuth.asksService, goAuth.usesTLS, !goAuth.verifiesPeer {
            log.warning(
                "with auth_opt_http_verify_peer false anybody between here and \(goAuth.host) can read the passwords, and let in "
                    + "whomever he wants.", at: draft.position, option: "plugin")
        }
    }
}

extension BuiltInPlugin {
    /// The option without which it has nothing to work with.
    fileprivate var neededOption: String? {
        switch self {
        case .dynamicSecurity: "config_file"
        case .passwordFile: "password_file"
        case .accessControlFile: "acl_file"
        case .goAuth: "backends"
        case .persistSQLite, .sparkplugAware: nil
        }
    }
}

extension SecurityConfiguration {
    /// Adds a plug-in, and takes over the file that the plug-ins for the password and access files name.
    mutating func add(_ plugin: PluginConfiguration) {
        plugins.append(plugin)
        switch plugin.plugin {
        case .passwordFile: passwordFile = passwordFile ?? plugin.options["password_file"]
        case .accessControlFile: accessControlFile = accessControlFile ?? plugin.options["acl_file"]
        case .goAuth:
            var goAuth = GoAuthConfiguration(plugin.options)
            if accessControlFile != nil { goAuth.leaveRules() }
            logins.goAuth = goAuth
            if goAuth.asks(.jwt, .user) { useTokens(of: goAuth) }
            guard goAuth.backEnds.contains(.files) else { return }
            passwordFile = passwordFile ?? goAuth.passwordPath
            accessControlFile = accessControlFile ?? goAuth.accessPath
        case .dynamicSecurity, .persistSQLite, .sparkplugAware: return
        }
    }

    /// Tokens as go-auth has them: in the user name, signed with a secret of the configuration's; one without an end
    /// holds.
    private mutating func useTokens(of goAuth: GoAuthConfiguration) {
        (tokens.secret, tokens.location) = (goAuth.tokenSecret, .userName)
        (tokens.algorithms, tokens.requiredClaims) = ([.hs256, .hs384, .hs512], [])
        (tokens.userNameClaim, tokens.accessClaim) = (goAuth.tokenUserClaim, nil)
        accessControlFile = accessControlFile ?? goAuth.tokenAccessPath
    }
}

/// A plug-in for logins that many configurations of mosquitto name and that is not built in: what of it there is here.
enum ForeignPlugin {
    case authPlug

    /// Known by the name of its file; nil for all others.
    init?(path: String) {
        let name = path.split(separator: "/").last.map { $0.lowercased() } ?? ""
        if name.holds("auth-plug") || name.holds("auth_plug") {
            self = .authPlug
        } else {
            return nil
        }
    }

    /// What to do without it, as sentences.
    var advice: String {
        "Of mosquitto-auth-plug's back ends there is \"files\": auth_opt_password_file is password_file here, and "
            + "auth_opt_acl_file is acl_file. Users of its other back ends can be kept by dynamic security, or be asked for by "
            + "martlet_http_auth_url."
    }

    /// What one of their options is here, as a sentence; nil if there is nothing like it.
    static func counterpart(of option: String, _ value: String) -> String? {
        switch option {
        case "files_password_path", "password_path", "password_file":
            "that is \"password_file \(value)\" here. Its hashes have another form: set each password anew with martlet passwd FILE USER."
        case "files_acl_path", "acl_path", "acl_file": "that is \"acl_file \(value)\" here."
        default: nil
        }
    }
}

/// A plug-in whose options are being read.
struct PluginDraft: Sendable {
    var configuration: PluginConfiguration
    var scope: Scope
    var position: SourcePosition
    /// Whether the plug-in is built in and stands where it may; otherwise an error was reported.
    var isUsable: Bool
    /// Whether the plug-in is built in, wherever it stands.
    var isBuiltIn: Bool

    /// The listeners that a plug-in serves.
    enum Scope: Sendable, Equatable {
        /// Every listener that takes the broker's security settings.
        case broker
        /// Every listener.
        case everyListener
        case listener(Int)
        /// The listeners that name it with `plugin_use`.
        case named(String)
    }
}

/// A `plugin_use` line.
struct PluginUse: Sendable {
    var name: String
    var scope: PluginDraft.Scope
}
