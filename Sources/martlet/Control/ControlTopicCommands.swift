import ArgumentParser
import ControlCommands
import Glibc

/// `martlet ctl subscriptions`.
struct ControlSubscriptionsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "subscriptions",
        abstract: "List subscriptions: of all, of a client, or those that a topic reaches.",
        discussion: "Who would get a message: martlet ctl subscriptions --matches plant/7/alarm")

    @OptionGroup var options: ControlOptions

    @Option(help: "Only this client's.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "Only those that a message to this topic reaches.")
    var matches: String?

    @Option(help: "Only this filter, letter by letter.")
    var filter: String?

    @Option(help: "Only this share group's.")
    var share: String?

    @OptionGroup var rows: RowCount

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

    @OptionGroup var options: ControlOptions

    @Argument(help: ArgumentHelp("Only topics that match.", valueName: "filter"))
    var filter: String?

    @Flag(help: "Print the payload of the message of this one topic, as it is.")
    var payload = false

    @Flag(help: "Delete what matches.")
    var delete = false

    @Flag(help: "With --delete: only say how many would go.")
    var dryRun = false

    @OptionGroup var rows: RowCount

    func validate() throws {
        guard filter != nil || (!delete && !payload) else {
            throw ValidationError(delete ? "--delete needs a filter; '#' is all." : "--payload needs a topic.")
        }
        guard !(delete && payload) else { throw ValidationError("Give --delete or --payload, not both.") }
        guard delete || !dryRun else { throw ValidationError("--dry-run belongs to --delete.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        guard let filter, delete || payload else { return try control.retained(filter: filter, count: rows.count) }
        if delete { return try control.deleteRetained(filter: filter, isDryRun: dryRun) }
        if let bytes = try control.retainedPayload(of: filter) { Console.put(bytes, to: 1) }
    }
}

/// `martlet ctl trace`.
struct ControlTraceCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Follow the packets of a client, a topic or an address; without one of them, list the traces.",
        discussion: "Ctrl-C ends it. With --keep the trace goes on by itself: --download prints what it has, --end ends it.")

    @OptionGroup var options: ControlOptions

    @Option(help: "A Client Identifier.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "A topic filter.")
    var topic: String?

    @Option(help: "An IP address.")
    var address: String?

    @Option(name: .customLong("for"), help: "How long at most: 90s, 10m, 24h.", transform: Self.seconds)
    var duration = 600

    @Option(help: "What of the payloads: none, text or hex.", completion: .list(["none", "text", "hex"]))
    var payload = "none"

    @Option(help: "Bytes of a payload at most.")
    var payloadLimit = 1024

    @Flag(help: "Begin it and print its identifier, and do not follow it.")
    var keep = false

    @Option(help: ArgumentHelp("Print what this trace has recorded.", valueName: "id"))
    var download: String?

    @Option(help: ArgumentHelp("End this trace and forget it.", valueName: "id"))
    var end: String?

    func validate() throws {
        guard [client, topic, address, download, end].count(where: { $0 != nil }) <= 1 else {
            throw ValidationError("Give one of --client, --topic, --address, --download and --end.")
        }
        guard ["none", "text", "hex"].contains(payload) else { throw ValidationError("--payload takes none, text or hex.") }
        guard (0...65_536).contains(payloadLimit) else { throw ValidationError("--payload-limit takes 0 to 65536.") }
        guard duration <= 86_400 else { throw ValidationError("--for takes at most 24h.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        if let download { return try control.recordedTrace(download) }
        if let end { return try control.endTrace(end) }
        let subject: TraceWish.Subject? =
            if let client { .client(client) } else if let topic { .topic(topic) } else { address.map { .address($0) } }
        guard let subject else { return try control.traces() }
        TraceEnd.holdSignals()
        let id = try control.beginTrace(TraceWish(subject, seconds: duration, payload: payload, payloadLimit: payloadLimit))
        guard !keep else { return Console.say(id) }
        TraceEnd.await(id, of: service, seconds: duration)
        try control.followTrace(id)
        try control.endTrace(id)
    }

    static func seconds(_ text: String) throws -> Int {
        guard let seconds = Control.seconds(text) else { throw ValidationError("--for takes a time such as 90s, 10m, 2h or 7d.") }
        return seconds
    }
}
