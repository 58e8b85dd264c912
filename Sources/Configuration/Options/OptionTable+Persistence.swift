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
            mosquitto's database in that directory, which is imported if there is no store yet. The store is martlet.db beside it, or
            martlet-NAME if this names another file than mosquitto.db, so that brokers can share a directory.
            """),
        .init(
            "martlet_durability", \BrokerConfiguration.persistence.durability, own: \ListenerDraft.durability,
            inForce: \ListenerConfiguration.durability, .durability,
            "What an acknowledgement guarantees: that the message survives a power cut, that it does so after SECONDS, or nothing; in a listener's section, for its clients."
        ),
        .init(
            "martlet_store_bytes_max", \BrokerConfiguration.persistence.bytesMax, .limit(),
            "The largest size of the store in bytes; when it is full, nothing new is stored. 0 means no limit but the disk's."),
        .init(
            "autosave_interval", \BrokerConfiguration.persistence.autosaveInterval, .limit(.largestTime),
            "Formerly the seconds (or changes, see the next option) between two copies of the database.", reload: true,
            status: .withoutEffect(savedAtOnce)),
        .init(
            "autosave_on_changes", \BrokerConfiguration.persistence.autosavesOnChanges, .boolean,
            "autosave_interval counts changes instead of seconds.", reload: true, status: .withoutEffect(savedAtOnce)),
    ]

    private static let savedAtOnce = "changes are saved as they come, as martlet_durability says"

    private static let persistence = ConfigurationOption(
        "persistence", \BrokerConfiguration.persistence.isEnabled, .boolean,
        "Sessions, subscriptions, queues and retained messages survive a restart of the broker.")
}
