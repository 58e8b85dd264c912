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
        case "password_file", "acl_file", "psk_file", "martlet_scram_file": self = .security
        case "certfile", "keyfile", "cafile", "crlfile", "dhparamfile", "bridge_cafile", "bridge_certfile", "bridge_keyfile":
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
            default: return nil
            }
        default: return nil
        }
    }
}
