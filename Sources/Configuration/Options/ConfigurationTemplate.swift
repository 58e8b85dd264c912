/// The example file: a broker for this machine alone, and every other option as a comment with what it does and its default.
///
/// Made from the table of options, so that it cannot fall behind. `config/martlet.conf` is this text; a test compares them.
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
