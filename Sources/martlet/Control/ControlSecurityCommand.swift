import ArgumentParsing
import ControlCommands

/// `martlet ctl dynsec`.
struct ControlSecurityCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "dynsec",
        abstract: "Show and change clients, groups and roles of dynamic security.",
        discussion: """
            The verbs are mosquitto_ctrl's:

              \(SecurityVerb.help.joined(separator: "\n  "))
              init FILE USERNAME [PASSWORD]

            With -f the file of a broker that does not run is changed, and nobody is asked. init makes such a file, with one administrator.
            For example:

              martlet ctl dynsec createRole sensors
              martlet ctl dynsec addRoleACL sensors publishClientSend 'sensors/%c/#' allow
              martlet ctl dynsec createClient device-7 -p secret
              martlet ctl dynsec addClientRole device-7 sensors
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

    @OptionGroup(title: "Connection") var options: ControlOptions

    /// A broker is looked for only where one is asked: none, or several, are no obstacle to the table of verbs and to files.
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
            return try SecurityVerb(words, password: given, clientIdentifier: clientIdentifier)
        } catch {
            throw ValidationError(error.description)
        }
    }
}
