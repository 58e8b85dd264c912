import ArgumentParsing
import ControlCommands
import Glibc

/// `martlet ctl subscriptions`.
struct ControlSubscriptionsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "subscriptions",
        abstract: "List subscriptions: of all, of a client, or those that a topic reaches.",
        discussion: "Who would get a message: martlet ctl subscriptions --matches plant/7/alarm")

    @Option(help: "Only this client's.", completion: ClientCompletion.kind)
    var client: String?

    @Option(
        name: [.customLong("matches"), .customLong("topic")], help: "Only those that a message to this topic reaches.")
    var matches: String?

    @Option(help: "Only exactly this filter.")
    var filter: String?

    @Option(help: "Only this share group's.")
    var share: String?

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws {
        let query = [("clientid", client), ("matches", matches), ("filter", filter), ("share", share)]
        try control.subscriptions(query, count: rows.count)
    }
}

/// `martlet ctl retained`.
struct ControlRetainedCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "retained",
        abstract: "List retained messages, print one's payload, or delete them.")

    @Argument(help: ArgumentHelp("Only topics that match.", valueName: "filter"))
    var filter: String?

    @Flag(help: "Print the payload of the message of this one topic, as it is.")
    var payload = false

    @Flag(help: "Delete the messages that match.")
    var delete = false

    @Flag(help: "With --delete: only print how many would be removed.")
    var dryRun = false

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard filter != nil || (!delete && !payload) else {
            throw ValidationError(delete ? "--delete needs a filter; '#' is all." : "--payload needs a topic.")
        }
        guard !(delete && payload) else { throw ValidationError("Give --delete or --payload, not both.") }
        guard delete || !dryRun else { throw ValidationError("--dry-run is for --delete only.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        guard let filter, delete || payload else { return try control.retained(filter: filter, count: rows.count) }
        if delete { return try control.deleteRetained(filter: filter, isDryRun: dryRun) }
        if let bytes = try control.retainedPayload(of: filter) { Console.put(bytes, to: 1) }
    }
}
