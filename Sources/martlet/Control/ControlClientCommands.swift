import Commands

/// `martlet ctl clients`.
struct ControlClientsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "clients",
        abstract: "List the clients, connected or with a session that waits for them.",
        discussion: "For example, who loses messages: martlet ctl clients --sort=-dropped --min-dropped 1")

    @Argument(help: ArgumentHelp("Only those with this in their identifier or user name.", valueName: "text"))
    var part: String?

    @Option(help: "Only identifiers that begin with this.", completion: ClientCompletion.kind)
    var prefix: String?

    @Option(help: "Only this user's.")
    var username: String?

    @Option(help: "Only from this IP address or network.")
    var address: String?

    @Option(help: "Only of this listener.")
    var listener: String?

    @Flag(help: "Only those that are connected.")
    var connected = false

    @Flag(help: "Only those that are not.")
    var away = false

    @Flag(help: "Those of all nodes of the cluster.")
    var cluster = false

    @Option(help: ArgumentHelp("Only with at least this many dropped messages.", valueName: "number"))
    var minDropped: Int?

    @Option(help: ArgumentHelp("Only with at least this many queued messages.", valueName: "number"))
    var minQueue: Int?

    @Option(help: ArgumentHelp("Only if their oldest unsent message is older than this many milliseconds.", valueName: "ms"))
    var minLag: Int?

    @Option(
        help:
            """
            By clientid, dropped, queue_messages, queue_bytes, output_bytes, lag_ms, received_rate, sent_rate, subscriptions or connected_at; \
            with - in front the largest first, as in --sort=-dropped.
            """
    )
    var sort: String?

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard !(connected && away) else { throw ValidationError("--connected and --away contradict each other.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        var filter = ClientFilter()
        filter.query = [
            ("q", part), ("prefix", prefix), ("username", username), ("address", address), ("listener", listener),
            ("state", connected ? "connected" : away ? "absent" : nil), ("min_dropped", minDropped.map { "\($0)" }),
            ("min_queue", minQueue.map { "\($0)" }), ("min_lag_ms", minLag.map { "\($0)" }), ("sort", sort),
        ]
        try control.clients(filter, count: rows.count, isOfCluster: cluster)
    }
}

/// `martlet ctl client NAME`.
struct ControlClientCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "client", abstract: "Show everything about one client, on whatever node of the cluster it is.")

    @Argument(help: "Its Client Identifier.", completion: ClientCompletion.kind)
    var name: String

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.client(name) }
}

/// `martlet ctl kick NAME`.
struct ControlKickCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "kick",
        abstract:
            "Disconnect clients, on whatever node of the cluster they are. They may reconnect; to keep them out, use ban."
    )

    @Argument(help: "Client Identifiers.", completion: ClientCompletion.kind)
    var names: [String]

    @Flag(help: "End their sessions too, with subscriptions and queues.")
    var session = false

    @Flag(help: "Do not publish their wills.")
    var withoutWill = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard !(session && withoutWill) else {
            throw ValidationError("With --session the will is published; leave out --without-will.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        for name in names { try control.kick(name, endsSession: session, sendsWill: !withoutWill) }
    }
}

/// `martlet ctl queue NAME`.
struct ControlQueueCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "List the messages that are queued for a client, or delete them.")

    @Argument(help: "Its Client Identifier.", completion: ClientCompletion.kind)
    var name: String

    @Flag(help: "With payloads, for those who may see them.")
    var payload = false

    @Flag(help: "Those that were sent and are not acknowledged yet.")
    var inFlight = false

    @Flag(help: "Delete the queued messages.")
    var delete = false

    @Option(help: "With --delete: only messages whose topic matches this filter; a long queue is read from the disk for it.")
    var filter: String?

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard !delete || (!payload && !inFlight) else {
            throw ValidationError("--delete cannot be combined with --payload or --in-flight.")
        }
        guard filter == nil || delete else { throw ValidationError("--filter is for --delete only.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        if delete { return try control.deleteQueue(of: name, filter: filter) }
        if inFlight { return try control.inFlight(of: name, count: rows.count) }
        try control.queue(of: name, withPayload: payload, count: rows.count)
    }
}

/// `martlet ctl closed`.
struct ControlClosedCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "closed", abstract: "List the connections that have ended or were refused, and why, newest first.")

    @Option(help: "Only this client's.", completion: ClientCompletion.kind)
    var client: String?

    @Flag(help: "Only those that were refused.")
    var refused = false

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws {
        try control.closedConnections(client: client, refusedOnly: refused, count: rows.count)
    }
}

/// `martlet ctl drops`.
struct ControlDropsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "drops", abstract: "List the last messages that were dropped, and why, newest first; or how many.")

    @Option(name: [.customShort("n"), .long], help: "Rows at most.")
    var limit = 50

    @Option(help: "Count them by their reasons, topic by topic or listener by listener.")
    var by: Order?

    enum Order: String, ExpressibleByArgument, CaseIterable {
        case topic, listener
    }

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws {
        if let order = by.flatMap({ DropOrder(rawValue: $0.rawValue) }) {
            try control.drops(order)
        } else {
            try control.drops(count: limit)
        }
    }
}
