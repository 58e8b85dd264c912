import Commands
import Glibc
import Platform

/// `martlet ctl status`.
struct ControlStatusCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the broker, what it does now, and its listeners.")

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.status() }
}

/// `martlet ctl health`.
struct ControlHealthCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Run the health checks and print them; exits with 0 if all pass, else with 1.")

    @Flag(help: "Only check whether the event loops respond.")
    var live = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.health(isLiveOnly: live) }
}

/// `martlet ctl reload`.
struct ControlReloadCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Reload the broker's configuration; exits with 1 if it has errors.")

    @Flag(help: "Only check it.")
    var check = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.reload(isCheck: check) }
}

/// `martlet ctl dashboard`.
struct ControlDashboardCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "dashboard",
        abstract: "Print a link that lets one browser into the dashboard as administrator, once.",
        discussion: """
            Open it within ten minutes. It needs no password and no file of users: root and the broker's user may ask for it over the \
            broker's Unix socket, and so may administrators with a token.
            """)

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.dashboard() }
}

/// `martlet ctl log`.
struct ControlLogCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show the broker's log, or choose what it logs until the configuration is read again.",
        discussion: """
            Without arguments it prints the last lines. `level` prints what is logged; `level error warning` logs these and nothing else, \
            `level +debug` debug too, `level all` and `level none` everything and nothing. There are: error, warning, notice, information, \
            subscribe, unsubscribe, websockets, internal, debug.
            """)

    @Option(name: [.customShort("n"), .long], help: "How many of the last lines to print.")
    var lines = 50

    @Flag(name: .shortAndLong, help: "Follow the log until Ctrl-C.")
    var follow = false

    @Argument(
        help: ArgumentHelp("The word level, and what is to be logged.", valueName: "level"),
        completion: .list(["level", "all", "none"] + Control.logTypes))
    var words: [String] = []

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard words.isEmpty || words[0] == "level" else {
            throw ValidationError("Unknown argument '\(words[0])'; log takes: level.")
        }
        guard (1...4096).contains(lines) else { throw ValidationError("--lines takes 1 to 4096.") }
        let types = words.dropFirst().map { $0.hasPrefix("+") ? String($0.dropFirst()) : $0 }
        if let wrong = types.first(where: { !(Control.logTypes + ["all", "none"]).contains($0) }) {
            throw ValidationError("Unknown log type '\(wrong)'; there are: \(Control.logTypes.joined(separator: ", ")).")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        guard words.isEmpty else { return try control.logLevel(Array(words.dropFirst())) }
        try control.log(lineCount: lines, isFollowing: follow)
    }
}

/// `martlet ctl top`.
struct ControlTopCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Watch the broker and its busiest clients, live on the terminal.",
        discussion: """
            s and the arrows change the order, r reverses it, p pauses, Enter refreshes, q quits. When its output is not a terminal it prints \
            one snapshot.
            """)

    @Option(help: "The order of the clients.", completion: .list(TopModel.orderNames))
    var sort = "dropped"

    @Option(name: [.customShort("d"), .long], help: "Seconds between two refreshes.")
    var interval = 2.0

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard TopModel.orderNames.contains(sort) else {
            throw ValidationError("--sort takes one of: \(TopModel.orderNames.joined(separator: ", ")).")
        }
        guard (0.5...3600).contains(interval) else { throw ValidationError("--interval takes 0.5 to 3600 seconds.") }
        guard !options.json else { throw ValidationError("top is for people; programs ask with: martlet ctl clients --json.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        var model = TopModel(address: "\(try options.address())", order: sort)
        if let screen = TopScreen(control, intervalMilliseconds: UInt64(interval * 1000)) { return try screen.run(model) }
        try control.refresh(&model, rows: 50, at: MonotonicClock.milliseconds())
        usleep(UInt32(min(interval, 10) * 1_000_000))
        try control.refresh(&model, rows: 50, at: MonotonicClock.milliseconds())
        control.printTop(model)
    }
}
