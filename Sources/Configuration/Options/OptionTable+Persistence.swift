extension ConfigurationOption {
    /// What outlives the process.
    static let persistenceOptions: [ConfigurationOption] = [
        persistence,
        persistence.formerly("retained_persistence"),
        .init(
            "persistence_location", optional: \BrokerConfiguration.persistence.location, .text("DIRECTORY"),
            "The directory of the store; without it, the one that the broker was started in."),
        .init(
            "persistence_file", \BrokerConfiguration.persistence.file,
            .text("NAME").with(expected: "a file's name without a slash; persistence_location names the directory") {
                !$0.utf8.contains(UInt8(ascii: "/")) && $0 != "." && $0 != ".."
            },
            """
            mosquitto's database in that directory, which is taken over if there is no store yet. The store is martlet.db beside it, or
            with another name than mosquitto.db martlet-NAME: so brokers can share a directory.
            """),
        .init(
            "martlet_durability", \BrokerConfiguration.persistence.durability, own: \ListenerDraft.durability,
            inForce: \ListenerConfiguration.durability, .durability,
            "What an acknowledgement promises: to survive a power cut, to survive it after SECONDS, or nothing; in a listener's section, to its clients."
        ),
        .init(
            "martlet_store_bytes_max", \BrokerConfiguration.persistence.bytesMax, .limit(),
            "How many bytes of the store may be in use before it takes nothing new; 0 means as many as the disk has."),
        .init(
            "autosave_interval", \BrokerConfiguration.persistence.autosaveInterval, .limit(.largestTime),
            "Once the seconds (or changes, see the next option) between two copies of the database.", reload: true,
            status: .withoutEffect(savedAtOnce)),
        .init(
            "autosave_on_changes", \BrokerConfiguration.persistence.autosavesOnChanges, .boolean,
            "autosave_interval counts changes instead of seconds.", reload: true, status: .withoutEffect(savedAtOnce)),
    ]

    private static let savedAtOnce = "changes are saved as they come, as martlet_durability says"

    private static let persistence = ConfigurationOption(
        "persistence", \BrokerConfiguration.persistence.isEnabled, .boolean,
        "Sessions, subscriptions, queues and retained messages outlive the broker.")
}
