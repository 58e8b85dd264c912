extension ConfigurationOption {
    /// Bounds for a broker that strangers reach, as one line.
    static let exposureOptions: [ConfigurationOption] = [
        .init(
            "martlet_profile", optional: \BrokerConfiguration.general.profile, .choice,
            "Defaults for a broker on the open internet. A line with one of these options overrides the profile, before or after it:",
            reload: true)
    ]
}
