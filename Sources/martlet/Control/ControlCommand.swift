import Commands
import Glibc

/// `martlet ctl`: sees and steers a broker that runs.
struct ControlCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ctl",
        abstract: "Watch and control a running broker: its clients, queues, retained messages, log.",
        discussion: """
            It asks the broker's HTTP API over a Unix socket, where root and the broker's own user may do everything: that of an installed \
            broker, /run/martlet/http.sock, or that of a broker which this user has started. -c FILE asks the broker of that \
            configuration, --socket PATH or --url URL another one. Over TCP one says who one is with a token, which `martlet ctl token \
            create` makes; the best place for it is MARTLET_TOKEN or --token-file. These options may stand before the command or behind it.

              martlet ctl status
              martlet ctl dashboard
              martlet ctl clients --sort=-dropped --limit 10
              martlet ctl retained 'home/#'
              martlet ctl --help

            Exits with 0 when it is done, 1 when the broker does not do it or finds something wrong, 2 when there is no answer, 3 when \
            that is not allowed, 4 when there is no such client, bridge, token, topic or trace, and 64 for wrong arguments. Times are UTC.
            """,
        subcommands: [
            ControlStatusCommand.self, ControlDashboardCommand.self, ControlAlarmsCommand.self,
            ControlClusterCommand.self, ControlHealthCommand.self,
            ControlTopCommand.self,
            ControlClientsCommand.self,
            ControlClientCommand.self, ControlKickCommand.self, ControlQueueCommand.self, ControlSubscriptionsCommand.self,
            ControlRetainedCommand.self, ControlTopicMetricsCommand.self, ControlTraceCommand.self, ControlClosedCommand.self,
            ControlDropsCommand.self, ControlBridgeCommand.self, ControlBanCommand.self, ControlDrainCommand.self,
            ControlLogCommand.self,
            ControlReloadCommand.self,
            ControlTokenCommand.self, ControlSecurityCommand.self, ControlMayCommand.self,
            ControlLoginCommand.self,
            ControlCompleteCommand.self,
        ], optionsBeforeSubcommand: ControlOptions.self)
}

/// A command of `martlet ctl`.
protocol ControlSubcommand: ParsableCommand {
    var options: ControlOptions { get }

    func act(_ control: Control, _ service: BrokerService) throws
}

extension ControlSubcommand {
    func run() throws { try runAsking() }

    /// Asks the broker.
    func runAsking() throws {
        let service = try options.service()
        try complaining { try act(Control(service, options.output), service) }
    }

    /// Does it, says what is wrong, and ends with the code of that.
    func complaining(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as ControlError {
            Console.complain("Error: \(error.description)")
            throw ExitCode(error.code.rawValue)
        }
    }
}

/// How many rows a list has.
struct RowCount: ParsableArguments {
    @Option(name: [.customShort("n"), .long], help: "Rows at most.")
    var limit = 50

    @Flag(help: "All rows, however many.")
    var all = false

    var count: Int? { all ? nil : limit }

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit takes a number from 1 on.") }
    }
}

/// Client Identifiers, and other names, for a shell.
enum ClientCompletion {
    static let kind = CompletionKind.custom { words, prefix in control(asIn: words)?.completions(of: prefix) ?? [] }
    /// The names of bridges.
    static let bridges = CompletionKind.custom { words, prefix in control(asIn: words)?.bridgeCompletions(of: prefix) ?? [] }

    /// Asks the broker that the words name; nobody waits long for it, and nothing is said when it does not answer.
    private static func control(asIn words: [String]) -> Control? {
        var arguments = ["--timeout", "1"]
        for name in ["-c", "--config-file", "--url", "--socket", "--token", "--token-file", "--cafile"] {
            if let index = words.firstIndex(of: name), index + 1 < words.count { arguments += [name, words[index + 1]] }
        }
        if words.contains("--insecure") { arguments.append("--insecure") }
        guard let options = try? ControlOptions.parse(arguments), let service = try? options.service() else { return nil }
        return Control(service, ControlOutput(width: nil, isJSON: false) { _ in })
    }
}

/// `martlet ctl complete`: the client identifiers that begin with a text, one a line, for the completion of a shell.
struct ControlCompleteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "complete", abstract: "Print the client identifiers that begin with a text.", shouldDisplay: false)

    @Argument(help: "The beginning.")
    var prefix = ""

    @OptionGroup(title: "Connection") var options: ControlOptions

    func run() throws {
        let service = try options.service()
        for name in Control(service, options.output).completions(of: prefix) { Console.say(name) }
    }
}

/// `martlet ctl cluster`.
struct ControlClusterCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "List the nodes of the cluster, as the broker that is asked sees them.",
        discussion: """
            A node is up while it reports its state; silent while it only holds its lease; left when it has shut down, and gone when its lease \
            has expired: these two are listed for a minute. The node that answers has a star.
            """)

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.cluster() }
}

/// `martlet ctl topic-metrics`.
struct ControlTopicMetricsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "topic-metrics",
        abstract: "Count the messages of topic filters: in, out and dropped.",
        discussion: """
            A filter is counted from when it is added until it is removed or the broker ends; /metrics has it too.

              martlet ctl topic-metrics add 'plant/#'
              martlet ctl topic-metrics
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, add, remove
    }

    @Argument(help: "list, add or remove.")
    var action = Action.list

    @Argument(help: "A topic filter.")
    var filter: String?

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (filter == nil) else {
            throw ValidationError(filter == nil ? "Say which filter." : "list takes no filter.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, filter) {
        case (.add, let filter?): try control.addTopicMetric(filter)
        case (.remove, let filter?): try control.removeTopicMetric(filter)
        default: try control.topicMetrics()
        }
    }
}

/// `martlet ctl alarms`.
struct ControlAlarmsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "alarms",
        abstract: "List the alarms that are active, those that were, or acknowledge one.",
        discussion: """
            The broker raises an alarm when something is wrong with its store, disk, memory, queues, clients, bridges, certificates, clocks or \
            cluster, and clears it when all has been well for a while. Acknowledging one says that you know of it; it stays active while it \
            lasts. The history is as long as the broker runs. For example:

              martlet ctl alarms
              martlet ctl alarms history
              martlet ctl alarms ack 3
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, history, all, ack
    }

    @OptionGroup(title: "Connection") var options: ControlOptions

    @Argument(help: "list (those that are active), history (those that were), all, or ack.")
    var action = Action.list

    @Argument(help: "The number of the alarm to acknowledge.")
    var number: Int?

    @OptionGroup var rows: RowCount

    func validate() throws {
        guard (action == .ack) == (number != nil) else {
            throw ValidationError(
                number == nil ? "Say which: the number stands in martlet ctl alarms." : "Only ack takes a number.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, number) {
        case (.ack, let number?): try control.acknowledgeAlarm(number)
        case (.history, _): try control.alarms("cleared", count: rows.count)
        case (.all, _): try control.alarms("all", count: rows.count)
        default: try control.alarms("active", count: rows.count)
        }
    }
}

/// `martlet ctl may`.
struct ControlMayCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "may",
        abstract: "Say whether a client may publish or subscribe, and which rule decides it.",
        discussion: """
            It asks the rules that are in force: password_file, acl_file, dynamic security and bans. For example:

              martlet ctl may publish home/lamp --username anna
              martlet ctl may subscribe 'home/#' --username anna --client phone
              martlet ctl may publish plant/2/temperature --username anna --address 10.0.0.7 --attribute floor=2 --qos 1 --retain no
              martlet ctl may publish pumps/1 --certificate pump-7.crt

            Prints the line of the access file or the role that decides, and ends with 0 for yes and 1 for no.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case publish, subscribe, receive
    }

    @OptionGroup(title: "Connection") var options: ControlOptions

    @Argument(help: "publish, subscribe, or receive: whether a message of the topic reaches the client.")
    var action: Action

    @Argument(help: "The topic; of a subscription a filter.")
    var topic: String

    @Option(help: "The user name. (default: a client without one)")
    var username: String?

    @Option(help: "The Client Identifier.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "The address that the client comes from, for bans and for rules that ask for it.")
    var address: String?

    @Option(
        help: ArgumentHelp(
            "What a login says of the client, for %{client_attrs.NAME} in rules; may be given several times.",
            valueName: "name=value"))
    var attribute: [String] = []

    @Option(help: "A group of dynamic security that it has beside those of its user; may be given several times.")
    var group: [String] = []

    @Option(help: "A role of dynamic security, likewise.")
    var role: [String] = []

    @Option(
        help: ArgumentHelp(
            "The client's certificate, whoever has signed it: who it is by that, with its groups, roles and attributes.",
            valueName: "file"),
        completion: .file)
    var certificate: String?

    @Option(help: "The QoS of the message that is published, or that the subscription asks for. (default: any)")
    var qos: Int?

    @Option(help: "Whether the message that is published is retained: yes or no. (default: either)")
    var retain: String?

    @Option(help: "The listener, as the page Listeners names it: 'listener 1883'. (default: the first)")
    var listener: String?

    func act(_ control: Control, _ service: BrokerService) throws {
        let isRetained = retain.map { $0 == "yes" ? "true" : $0 == "no" ? "false" : $0 }
        let query: [(String, String?)] = [
            ("action", action.rawValue), ("topic", topic), ("username", username), ("clientid", client), ("address", address),
            ("listener", listener), ("qos", qos.map { String($0) }), ("retain", isRetained),
            ("attributes", attribute.isEmpty ? nil : attribute.joined(separator: ",")),
            ("groups", group.isEmpty ? nil : group.joined(separator: ",")),
            ("roles", role.isEmpty ? nil : role.joined(separator: ",")),
            ("certificate", try certificate.map { try Control.certificate(ofFile: $0) }),
        ]
        guard try control.may(query) else { throw ExitCode(1) }
    }
}

/// `martlet ctl login`.
struct ControlLoginCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Say which source of logins lets a user in or refuses it, and why.",
        discussion: """
            It asks the sources in their order, as a client's CONNECT would, and prints what each has said and how long that took. Nobody is \
            let in, and a wrong password is not counted. The password, or the token, is one line of standard input. For example:

              martlet ctl login explain anna <password.txt
              martlet ctl login explain device-7 --client sensor-7 --no-password
              martlet ctl login explain anna --publish home/lamp --qos 1 <password.txt
              martlet ctl login explain --certificate device-7.crt --no-password

            Ends with 0 if the client would be let in, and may do what is asked, and with 1 if not.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case explain
    }

    @OptionGroup(title: "Connection") var options: ControlOptions

    @Argument(help: "explain.")
    var action: Action

    @Argument(help: "The user name. (default: a client without one)")
    var username: String?

    @Flag(name: .customLong("no-password"), help: "Try it without a password.")
    var hasNoPassword = false

    @Option(help: "The Client Identifier.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "The address that the client comes from.")
    var address: String?

    @Option(
        help: ArgumentHelp("The client's certificate, whoever has signed it: who it is by that.", valueName: "file"),
        completion: .file)
    var certificate: String?

    @Option(help: "The listener, as the page Listeners names it: 'listener 1883'. (default: the first)")
    var listener: String?

    @Option(
        help: ArgumentHelp("Say too whether the client may publish to this topic, by the rules of its login.", valueName: "topic"))
    var publish: String?

    @Option(help: ArgumentHelp("Likewise, whether it may subscribe.", valueName: "filter"))
    var subscribe: String?

    @Option(help: ArgumentHelp("Likewise, whether messages of this topic reach it.", valueName: "topic"))
    var receive: String?

    @Option(help: "The QoS of the message or the subscription. (default: any)")
    var qos: Int?

    @Option(help: "Whether the message that is published is retained: yes or no. (default: either)")
    var retain: String?

    func validate() throws {
        guard [publish, subscribe, receive].compactMap({ $0 }).count < 2 else {
            throw ValidationError("Give one of --publish, --subscribe and --receive.")
        }
        guard qos.map({ (0...2).contains($0) }) ?? true else { throw ValidationError("--qos takes 0, 1 or 2.") }
        guard retain.map({ ["yes", "no"].contains($0) }) ?? true else { throw ValidationError("--retain takes yes or no.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        let members = [
            ("username", username), ("clientid", client), ("address", address), ("listener", listener),
            ("certificate", try certificate.map { try Control.certificate(ofFile: $0) }),
        ]
        let deeds = [("publish", publish), ("subscribe", subscribe), ("receive", receive)].compactMap { name, topic in
            topic.map { Control.Deed(action: name, topic: $0, qos: qos, isRetained: retain.map { $0 == "yes" }) }
        }
        let password = try hasNoPassword ? nil : PasswordPrompt.password()
        guard try control.explainLogin(members, password: password, deed: deeds.first) else { throw ExitCode(1) }
    }
}

/// `martlet ctl drain`.
struct ControlDrainCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Disconnect all clients, at a limited rate, and refuse new ones; waits until all are gone.",
        discussion: """
            Ports are closed, /readyz answers 503, and clients are disconnected at a limited rate, so that they do not all come to the next \
            broker at once. Sessions stay. MQTT 5.0 clients get 0x8B, or with --to 0x9C and the name of the other server. A node of a \
            cluster sends them to the other nodes that have a martlet_node_address, and keeps its ports open to redirect new clients. \
            The broker stays like this until --undo, or ends with --stop. For example:

              martlet ctl drain --to broker-2.example:1883 --rate 500 --stop
              martlet ctl drain --undo
            """)

    @Option(help: ArgumentHelp("The server that clients are sent to (Server Reference).", valueName: "server"))
    var to: String?

    @Option(help: ArgumentHelp("Clients that are disconnected in a second. (default: 1000)", valueName: "number"))
    var rate: Int?

    @Flag(help: "Stop the broker when all are gone.")
    var stop = false

    @Flag(help: "Accept connections again.")
    var undo = false

    @Flag(help: "Do not wait until all are gone.")
    var noWait = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard !undo || (to == nil && rate == nil && !stop && !noWait) else {
            throw ValidationError("--undo cannot be combined with other options.")
        }
        guard (1...1_000_000).contains(rate ?? 1) else { throw ValidationError("--rate takes 1 to 1000000.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        if undo { return try control.endDrain() }
        try control.drain(
            Control.Drain(serverReference: to, perSecond: rate, stops: stop), pause: noWait ? nil : { usleep(500_000) })
    }
}

/// `martlet ctl dynsec`.
struct ControlSecurityCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "dynsec",
        abstract: "Show and change clients, groups and roles of dynamic security.",
        discussion: """
            The verbs are mosquitto_ctrl's, and those for mount points, which stand before all topics of a user:

              \(SecurityVerb.help.joined(separator: "\n  "))
              init FILE USERNAME [PASSWORD]

            With -f the file of a broker that does not run is changed, and nobody is asked. init makes such a file, with one administrator.
            For example:

              martlet ctl dynsec createRole sensors
              martlet ctl dynsec addRoleACL sensors publishClientSend 'sensors/%c/#' allow
              martlet ctl dynsec addRoleACL sensors publishClientSend 'state/%c' allow --retain yes --from 10.0.0.0/8
              martlet ctl dynsec createClient device-7 -p secret
              martlet ctl dynsec addClientRole device-7 sensors
              martlet ctl dynsec createGroup acme --mountpoint tenants/acme/
            """)

    @Argument(help: "A verb and its arguments.")
    var words: [String] = []

    @Option(
        name: [.customShort("f"), .customLong("file")],
        help: ArgumentHelp("The file of a broker that does not run.", valueName: "file"))
    var file: String?

    @Option(
        name: [.customShort("p"), .customLong("password")],
        help: "The password of createClient and setClientPassword. (default: is asked for)")
    var password: String?

    @Option(name: .customLong("clientid"), help: "The only Client Identifier that createClient's client may use.")
    var clientIdentifier: String?

    @Option(
        name: .customLong("mountpoint"),
        help: ArgumentHelp(
            "Of createClient, createGroup and createRole: what stands before all topics, such as tenants/%u/",
            valueName: "text"))
    var mountPoint: String?

    @OptionGroup var conditions: RuleConditionOptions

    @OptionGroup(title: "Connection") var options: ControlOptions

    /// A broker is looked for only where one is asked: none, or several, are no obstacle to the table of verbs and to
    /// files.
    func run() throws {
        guard let first = words.first?.lowercased() else { return SecurityVerb.overview(options.output) }
        if first == "init" { return try complaining(initialize) }
        guard let file else { return try runAsking() }
        try complaining { try Control.dynamicSecurity(try verb(), file: file, options.output) }
    }

    func act(_ control: Control, _ service: BrokerService) throws { try control.dynamicSecurity(try verb()) }

    private func initialize() throws {
        guard (3...4).contains(words.count) else { throw ValidationError("Expected init FILE USERNAME [PASSWORD].") }
        let password = try words.count == 4 ? words[3] : self.password ?? PasswordPrompt.newPassword()
        try Control.initializeDynamicSecurity(words[1], user: words[2], password: password)
        Console.say("The client '\(words[2])' has been created in the file '\(words[1])'. It may administer dynamic security.")
    }

    private func verb() throws -> SecurityVerb {
        let isMissing = words.first?.lowercased() == "setclientpassword" && words.count == 2 && password == nil
        let given = try isMissing ? PasswordPrompt.newPassword() : password
        do throws(SecurityVerb.Complaint) {
            return try SecurityVerb(
                words, password: given, clientIdentifier: clientIdentifier, mountPoint: mountPoint, conditions: conditions.values)
        } catch {
            throw ValidationError(error.description)
        }
    }
}

/// What a rule of a role asks beside its topic.
struct RuleConditionOptions: ParsableArguments {
    @Option(help: "Of addRoleACL with publishClientSend: the QoS that a message may have, as 0,1. (default: any)")
    var qos: String?

    @Option(help: "Likewise: whether the message is retained, yes or no. (default: either)")
    var retain: String?

    @Option(help: "Of addRoleACL: an address or network that the client comes from; may be given several times. (default: any)")
    var from: [String] = []

    var values: SecurityVerb.Conditions { .init(qos: qos, retain: retain, networks: from) }
}

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
