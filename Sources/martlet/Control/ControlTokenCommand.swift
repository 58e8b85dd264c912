import Commands

/// `martlet ctl token`.
struct ControlTokenCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "List the tokens of programs, make one, or revoke one.",
        discussion: """
            `create` prints the token this once; the broker keeps its hash alone. A token ends after 90 days if nothing else is said. For \
            example:

              martlet ctl token create grafana --role metrics --for 365d
              martlet ctl token revoke grafana
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, create, revoke
    }

    enum Role: String, ExpressibleByArgument, CaseIterable {
        case viewer, admin, metrics
    }

    enum Validity {
        case seconds(Int)
        case unlimited

        var seconds: Int? { if case .seconds(let seconds) = self { seconds } else { nil } }
    }

    @Argument(help: "list, create or revoke.")
    var action = Action.list

    @Argument(help: "The token's name: up to 64 letters, digits and . _ -")
    var name: String?

    @Option(help: "What its owner may do: viewer, admin or metrics.")
    var role = Role.viewer

    @Option(
        name: .customLong("for"), help: "How long it is valid: 24h, 90d, or never for one that does not end. (default: 90d)",
        transform: Self.validity)
    var validity = Validity.seconds(90 * 86_400)

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (name == nil) else {
            throw ValidationError(
                name == nil ? "Say which one: martlet ctl token \(action.rawValue) NAME" : "list takes no name.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, name) {
        case (.create, let name?): try control.createToken(name, role: role.rawValue, seconds: validity.seconds)
        case (.revoke, let name?): try control.revokeToken(name)
        default: try control.tokens()
        }
    }

    private static func validity(_ text: String) throws -> Validity {
        if text == "never" { return .unlimited }
        guard let seconds = Control.seconds(text) else {
            throw ValidationError("--for takes a time such as 24h or 90d, or never.")
        }
        return .seconds(seconds)
    }

    static func seconds(_ text: String) throws -> Int {
        guard let seconds = Control.seconds(text) else { throw ValidationError("--for takes a time such as 90s, 10m, 2h or 7d.") }
        return seconds
    }
}

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
