import ArgumentParsing

/// `martlet store`: looks after the files that the broker keeps its state in.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Check, show, copy and import the broker's store.",
        discussion: """
            The store is the file martlet.db, with the files beside it, in the directory that persistence_location names; with \
            persistence_file NAME it is martlet-NAME. All but import can be used while the broker runs, and change nothing. Run them as \
            the user that the broker runs as.
            """,
        subcommands: [StoreCheckCommand.self, StoreDumpCommand.self, StoreBackupCommand.self, StoreImportCommand.self])
}
