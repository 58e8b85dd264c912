/// An option of a plug-in.
struct PluginOption: Sendable {
    let name: String
    /// What its value has to be, to follow "expected".
    var expected = "a text"
    var isRight: @Sendable (String) -> Bool = { _ in true }
    /// Why nothing comes of it; nil if it is obeyed.
    var withoutEffect: String?
}

extension BuiltInPlugin {
    /// What mosquitto's plug-in reads.
    var options: [PluginOption] {
        switch self {
        case .dynamicSecurity: [PluginOption(name: "config_file"), PluginOption(name: "password_init_file")]
        case .passwordFile: [PluginOption(name: "password_file")]
        case .accessControlFile: [PluginOption(name: "acl_file")]
        case .persistSQLite: Self.persistSQLiteOptions
        case .sparkplugAware: []
        }
    }

    private static let persistSQLiteOptions = [
        PluginOption(
            name: "sync", expected: "extra, full, normal or off", isRight: { ["extra", "full", "normal", "off"].contains($0) },
            withoutEffect: "what is acknowledged is on the disk; martlet_durability makes weaker promises"),
        PluginOption(
            name: "flush_period", expected: "a number of seconds", isRight: { Int($0).map { $0 >= 0 } ?? false },
            withoutEffect: "changes are saved as they come; martlet_durability interval SECONDS gathers them"),
        PluginOption(
            name: "page_size", expected: "a number of bytes", isRight: { Int($0).map { $0 > 0 } ?? false },
            withoutEffect: "the store has pages of its own size"),
    ]
}
