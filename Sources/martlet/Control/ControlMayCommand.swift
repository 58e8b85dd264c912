import ArgumentParsing
import ControlCommands

/// `martlet ctl may`.
struct ControlMayCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "may",
        abstract: "Say whether a client may publish or subscribe, and which rule decides it.",
        discussion: """
            It asks the rules that are in force: password_file, acl_file, dynamic security and bans. For example:

              martlet ctl may publish home/lamp --username anna
              martlet ctl may subscribe 'home/#' --username anna --client phone

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

    @Option(help: "The address that the client comes from, for bans.")
    var address: String?

    @Option(help: "The listener, as the page Listeners names it: 'listener 1883'. (default: the first)")
    var listener: String?

    func act(_ control: Control, _ service: BrokerService) throws {
        let query = [
            ("action", action.rawValue), ("topic", topic), ("username", username), ("clientid", client), ("address", address),
            ("listener", listener),
        ]
        guard try control.may(query) else { throw ExitCode(1) }
    }
}
