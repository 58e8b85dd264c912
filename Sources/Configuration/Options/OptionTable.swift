extension ConfigurationOption {
    /// Every option, in the order in which the example file shows them.
    public static let all: [ConfigurationOption] =
        listenerOptions + securityOptions + pluginOptions + messagingOptions + exposureOptions + limitOptions + persistenceOptions
        + loggingOptions + administrationOptions + generalOptions + clusterOptions + bridgeOptions

    /// The row of the option that is written `name`.
    public static func named(_ name: String) -> ConfigurationOption? {
        if let row = rowsByName[name] { return row }
        return families.first { name.hasPrefix($0.name) && name.utf8.count > $0.name.utf8.count }
    }

    /// The names that a file can be wrong about.
    static let fixedNames = all.map(\.name).filter { !$0.hasSuffix("_") }

    private static let rowsByName = Dictionary(
        uniqueKeysWithValues: all.filter { !$0.name.hasSuffix("_") }.map { ($0.name, $0) })
    private static let families = all.filter { $0.name.hasSuffix("_") }
}
