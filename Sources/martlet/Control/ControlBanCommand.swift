import ArgumentParsing
import ControlCommands

/// `martlet ctl ban`.
struct ControlBanCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "ban",
        abstract: "List bans, ban a client, user, address or network, or remove a ban.",
        discussion: """
            Banned clients are disconnected and refused: MQTT 5.0 clients with Banned (0x8A). A broker with persistence keeps bans over a \
            restart. For example:

              martlet ctl ban add sensor-7 --for 1h --reason flapping
              martlet ctl ban add 10.1.0.0/16 --as network
              martlet ctl ban remove sensor-7
            """)

    enum Kind: String, ExpressibleByArgument, CaseIterable {
        case client, user, address, network

        var name: String {
            switch self {
            case .client: "clientid"
            case .user: "username"
            case .address: "peerhost"
            case .network: "peerhost_net"
            }
        }
    }

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, add, remove
    }

    @Argument(help: "list, add or remove.")
    var action = Action.list

    @Argument(help: "The client, user, address or network.", completion: ClientCompletion.kind)
    var who: String?

    @Option(name: .customLong("as"), help: "What it is: client, user, address or network.")
    var kind = Kind.client

    @Option(
        name: .customLong("for"), help: "How long: 90s, 10m, 24h, 7d. (default: for ever)", transform: ControlTokenCommand.seconds)
    var duration: Int?

    @Option(help: "The reason, shown in the list.")
    var reason: String?

    @OptionGroup var rows: RowCount

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (who == nil) else {
            throw ValidationError(
                who == nil ? "Say who: martlet ctl ban \(action.rawValue) NAME" : "list takes no name.")
        }
        guard action == .add || (duration == nil && reason == nil) else {
            throw ValidationError("--for and --reason are for add only.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, who) {
        case (.add, let who?): try control.ban(kind.name, who, seconds: duration, reason: reason)
        case (.remove, let who?): try control.liftBan(kind.name, who)
        default: try control.bans(count: rows.count)
        }
    }
}
