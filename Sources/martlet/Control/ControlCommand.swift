import ArgumentParsing
import ControlCommands

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
