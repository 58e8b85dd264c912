import Platform

/// Turns the lines of one of mosquitto's files into those of its copy.
struct LineRewriter {
    /// Where the file is.
    let file: String
    let isMain: Bool
    /// Of all lines `allow_anonymous` the one that counts; nil where they agree.
    let opening: (file: String, line: Int)?
    private var number = 0
    /// The plug-in whose options follow.
    private var plugin: BuiltInPlugin?
    private var isInSection = false

    init(file: String, isMain: Bool, opening: (file: String, line: Int)?) {
        (self.file, self.isMain, self.opening) = (file, isMain, opening)
    }

    /// Returns the lines that are written in place of one; what is said of it, and the files that it names, go to the
    /// importer's plan.
    mutating func rewrite(_ line: String, _ importer: inout ConfigurationImporter) -> String {
        number += 1
        let trimmed = line.trimmed
        guard let first = trimmed.first, first != "#" else { return line }
        let name = String(trimmed.prefix { $0 != " " && $0 != "\t" })
        let value = trimmed.dropFirst(name.count).trimmed
        guard let option = ConfigurationOption.named(name), !value.isEmpty else { return line }
        if ["listener", "connection"].contains(name) { isInSection = true }
        let role = PathRole(option, name: name, value: value, plugin: plugin)
        switch role.map({ outcome(of: $0, option, value, &importer) }) ?? outcomeWithoutRole(option, value, importer) {
        case .same: return line
        case .left(let reason):
            importer.plan.changes.append(
                ConfigurationImport.Change(file: file, line: number, before: trimmed, after: nil, reason: reason))
            return "#- \(trimmed)"
        case .other(let text, let reason):
            guard text != value else { return line }
            let after = "\(name) \(text)"
            importer.plan.changes.append(
                ConfigurationImport.Change(file: file, line: number, before: trimmed, after: after, reason: reason))
            return after
        }
    }

    private enum Outcome {
        case same
        /// A comment from now on, and why.
        case left(String)
        /// With another value, and why, where that is not plain.
        case other(String, String?)
    }

    private mutating func outcome(
        of role: PathRole, _ option: ConfigurationOption, _ value: String, _ importer: inout ConfigurationImporter
    ) -> Outcome {
        let target = importer.target
        switch role {
        case .security: return .other(importer.copy(value, .security, option: option.name, line: location), nil)
        case .certificate: return .other(importer.copyIfNeeded(value, option: option.name, line: location), nil)
        case .certificates: return .other(importer.copyDirectoryIfNeeded(value, option: option.name, line: location), nil)
        case .dynamicSecurity: return .other(importer.copyState(value), nil)
        case .dynamicSecurityStart:
            return importer.isMissing(value)
                ? .left("the file is not there, and the one of plugin_opt_config_file is what counts")
                : .other(importer.copy(value, .security, option: option.name, line: location), nil)
        case .site:
            importer.remarkIfUnreadable(value, option: option.name, line: location)
            return .same
        case .included:
            guard isMain else { return .same }
            if target.keepsMainFile { return .left("\(target.mainFile) includes these files' copies") }
            return importer.isFirstInclude()
                ? .other(target.includeDirectory, nil) : .left("all copies are in \(target.includeDirectory)")
        case .store: return .left("the store is in \(target.storeDirectory)")
        case .log: return logOutcome(value, importer)
        case .processIdentifier:
            return .left(
                target.keepsMainFile
                    ? "systemd knows the process" : "give it a place that the broker may write to, if a script needs it")
        case .user:
            if target.keepsMainFile { return .left("the service has a user of its own") }
            return .left(target.userName.map { "the broker becomes the user \($0)" } ?? "the broker runs as who starts it")
        case .socket: return socketOutcome(value, &importer)
        case .plugin: return pluginOutcome(option, value, &importer)
        }
    }

    /// Of a line that names nothing on the disk.
    private func outcomeWithoutRole(
        _ option: ConfigurationOption, _ value: String, _ importer: ConfigurationImporter
    ) -> Outcome {
        if option.identity == "log_dest", let word = value.words.first, ["dlt", "android"].contains(word) {
            return .left("there is no such destination")
        }
        if option.identity == "allow_anonymous", let opening, opening != (file, number) {
            return .left("mosquitto takes the last line of all files, \(opening.file):\(opening.line)")
        }
        // The target's own file says it already.
        guard case .global(let setter) = option.action, !option.isRepeatable, !isInSection,
            let own = importer.kept.last(where: { $0.identity == option.identity && $0.scope == .broker })
        else { return .same }
        if own.value == value { return .left("\(own.file):\(own.line) says the same") }
        return setter.extent == .word ? .same : .left("\(own.file):\(own.line) has its own")
    }

    private func logOutcome(_ value: String, _ importer: ConfigurationImporter) -> Outcome {
        let path = String(value.dropFirst("file".count).trimmed)
        let target = importer.target
        if let directory = target.logDirectory, path.hasPrefix("\(directory)/") { return .same }
        guard target.keepsMainFile || importer.isMosquittos(path) else { return .same }
        guard let directory = target.logDirectory else { return .left("the log goes to standard error") }
        let name = ConfigurationImporter.name(of: path)
        return .other("file \(directory)/\(name == "mosquitto.log" ? "martlet.log" : name)", nil)
    }

    private func socketOutcome(_ value: String, _ importer: inout ConfigurationImporter) -> Outcome {
        let path = String(value.dropFirst(1).trimmed)
        guard let directory = importer.target.runtimeDirectory, !path.hasPrefix("\(directory)/") else { return .same }
        guard importer.target.keepsMainFile || importer.isMosquittos(path) else { return .same }
        return .other(
            "0 \(directory)/\(ConfigurationImporter.name(of: path))",
            "the service can make sockets there alone; clients have to be told")
    }

    private mutating func pluginOutcome(
        _ option: ConfigurationOption, _ value: String, _ importer: inout ConfigurationImporter
    ) -> Outcome {
        let path = option.identity == "plugin_load" ? value.words.dropFirst().joined(separator: " ") : value
        plugin = BuiltInPlugin(path: path)
        if plugin?.isAvailable != true {
            importer.plan.withoutCounterpart.append(
                "\(location): the plug-in \(path). The broker does not start while the line is in the copy, for without "
                    + "the plug-in other clients might "
                    + "come in. Take the line and its options out of the copy when other lines do its work.")
        }
        return .same
    }

    private var location: String { "\(file):\(number)" }
}

/// What a line's value names, where that is something on the disk.
enum PathRole: Sendable, Equatable {
    /// Users, rules, keys of clients: always copied, for each broker changes its own.
    case security
    /// Read only: a copy is made where the broker's user could not read it, or mosquitto's own directories hold it.
    case certificate
    /// A directory of such files.
    case certificates
    /// The file of dynamic security, which the broker writes.
    case dynamicSecurity
    /// Needed only until that file is there.
    case dynamicSecurityStart
    /// Of static files; it stays where it is.
    case site
    case included
    case store
    case log
    case processIdentifier
    case user
    case socket
    case plugin

    /// Of a line; nil where its value names nothing on the disk.
    ///
    /// - Parameters:
    ///   - option: its row.
    ///   - line: its name and value.
    ///   - plugin: the plug-in that stands above it, if it is built in.
    init?(_ option: ConfigurationOption, name: String, value: String, plugin: BuiltInPlugin?) {
        switch option.identity {
        case "password_file", "acl_file", "psk_file", "martlet_scram_file", "martlet_jwt_secret_file",
            "martlet_introspection_secret_file":
            self = .security
        case "martlet_jwt_keys" where !TokenConfiguration.isURL(value): self = .security
        case "certfile", "keyfile", "cafile", "crlfile", "dhparamfile", "bridge_cafile", "bridge_certfile", "bridge_keyfile",
            "martlet_jwt_cafile", "martlet_introspection_cafile", "martlet_ldap_cafile", "martlet_ldap_certfile",
            "martlet_ldap_keyfile":
            self = .certificate
        case "capath", "bridge_capath": self = .certificates
        case "http_dir": self = .site
        case "include_dir": self = .included
        case "persistence_location": self = .store
        case "pid_file": self = .processIdentifier
        case "user": self = .user
        case "plugin", "global_plugin", "plugin_load": self = .plugin
        case "log_dest" where value.words.first == "file": self = .log
        case "listener" where value.words.first == "0" && value.words.count > 1: self = .socket
        case "plugin_opt_":
            switch (plugin, name.dropFirst(option.name.count)) {
            case (.dynamicSecurity, "config_file"): self = .dynamicSecurity
            case (.dynamicSecurity, "password_init_file"): self = .dynamicSecurityStart
            case (.passwordFile, "password_file"), (.accessControlFile, "acl_file"): self = .security
            case (.goAuth, "files_password_path"), (.goAuth, "files_acl_path"), (.goAuth, "password_path"), (.goAuth, "acl_path"),
                (.goAuth, "jwt_acl_path"):
                self = .security
            default: return nil
            }
        default: return nil
        }
    }
}
