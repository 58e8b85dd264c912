extension ConfigurationOption {
    /// The options that say who may connect and what they may do.
    static let securityOptions: [ConfigurationOption] = [
        .init(
            "allow_anonymous", \SecurityConfiguration.allowsAnonymous, .boolean,
            "Clients without a user name can connect. The default is true while no listener is configured.", reload: true),
        .init(
            "password_file", optional: \SecurityConfiguration.passwordFile, .text("PATH"),
            "The users and their hashed passwords.", reload: true),
        .init(
            "martlet_scram_file", optional: \SecurityConfiguration.scramFile, .text("PATH"),
            "The users that log in with MQTT 5.0's enhanced authentication, method SCRAM-SHA-256.", reload: true),
        .init(
            "acl_file", optional: \SecurityConfiguration.accessControlFile, .text("PATH"),
            "The access control list (ACL): who may read and write which topics.", reload: true),
        .init(
            "psk_file", optional: \SecurityConfiguration.preSharedKeyFile, .text("PATH"),
            "Identities and keys of clients that use TLS without certificates.", reload: true),
        .init(
            "allow_zero_length_clientid", \SecurityConfiguration.allowsZeroLengthClientIdentifier, .boolean,
            "Clients without a client identifier get one.", reload: true),
        .init(
            "auto_id_prefix", \SecurityConfiguration.assignedIdentifierPrefix,
            .text("TEXT").with(expected: "at most 50 bytes") { $0.utf8.count <= 50 },
            "The prefix of such client identifiers.", reload: true,
            status: .deprecated("write listener_auto_id_prefix in a listener's section instead")),
        .init(
            "clientid_prefixes", optional: \SecurityConfiguration.clientIdentifierPrefix, .text("TEXT"),
            "The prefix that client identifiers must have.", reload: true,
            status: .deprecated("bind topics to client identifiers with pattern lines and %c in an acl_file instead")),
        .init(
            "martlet_acl_check_subscribe", \SecurityConfiguration.checksAccessOnSubscribe, .boolean,
            "A SUBSCRIBE to topics that the client may never read is refused, not only the deliveries.", reload: true),
    ]

    /// mosquitto's plug-ins, which are built in.
    static let pluginOptions: [ConfigurationOption] = [
        plugin,
        plugin.formerly("auth_plugin"),
        .init(
            "global_plugin", .globalPlugin, shape: "PATH", "The same for every listener, also with per_listener_settings true."),
        .init("plugin_load", .pluginLoad, shape: "NAME PATH", "Names a plug-in, for plugin_use."),
        .init(
            "plugin_use", .pluginUse, shape: "NAME",
            "Uses a plug-in that plugin_load has named, in a listener's section for this listener only."),
        pluginOption,
        authenticationOption,
        .init(
            "auth_plugin_deny_special_chars", \SecurityConfiguration.deniesSpecialCharacters, .boolean,
            "Formerly whether a user name or client identifier with + or # was denied whatever a plug-in would decide.",
            status: .withoutEffect("the built-in plug-ins deny such names where their patterns would let them in")),
    ]

    private static let plugin = ConfigurationOption(
        "plugin", .plugin, section: .security, shape: "PATH",
        "Enables one of mosquitto's plug-ins; only the name of the file counts, Martlet has them built in.")

    private static let pluginOption = ConfigurationOption(
        "plugin_opt_", .pluginOption(prefix: "plugin_opt_"), section: .security, shape: "VALUE",
        "An option of the plug-in that was named last.")

    private static let authenticationOption: ConfigurationOption = {
        var row = pluginOption.formerly("auth_opt_")
        row.action = .structure(.pluginOption(prefix: "auth_opt_"))
        return row
    }()
}
