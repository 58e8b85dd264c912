extension ConfigurationOption {
    /// Bounds for a broker that strangers reach, as one line.
    static let exposureOptions: [ConfigurationOption] = [
        .init(
            "martlet_profile", optional: \BrokerConfiguration.general.profile, .choice,
            "Sets what a broker needs that strangers reach. A line of one's own with one of these options overrides it, wherever it stands:",
            reload: true)
    ]
}
