import ArgumentParsing
import ControlCommands
import Platform

/// `martlet ctl bridge`.
struct ControlBridgeCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "bridge",
        abstract: "List bridges to other brokers, show one, add, change, pause, resume or remove one.",
        discussion: """
            A bridge is added with the lines of a `connection` section, see martlet.conf(5): as arguments, or from a file with --lines, \
            which keeps passwords out of the list of processes. It runs at once; a broker with persistence keeps it when it is started \
            again. `change` replaces the options that are named. Bridges of the configuration's files are paused and resumed here, and \
            changed there. For example:

              martlet ctl bridge add site 'address broker.example:1883' 'topic plant/# out 1'
              martlet ctl bridge add site --lines site.conf
              martlet ctl bridge change site 'topic plant/# out 1' 'topic orders/# in 1' --unset keepalive_interval
              martlet ctl bridge pause site
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, show, add, change, pause, resume, remove
    }

    @Argument(help: "list, show, add, change, pause, resume or remove.")
    var action = Action.list

    @Argument(help: "The bridge's name.", completion: ClientCompletion.bridges)
    var name: String?

    @Argument(help: ArgumentHelp("An option of its section with its value, as one argument.", valueName: "line"))
    var lines: [String] = []

    @Option(name: .customLong("lines"), help: ArgumentHelp("A file with such lines; - for standard input.", valueName: "file"))
    var file: String?

    @Option(help: ArgumentHelp("An option that change removes.", valueName: "option"))
    var unset: [String] = []

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (name == nil) else { throw ValidationError(name == nil ? "Say which." : "list takes no name.") }
        let hasLines = !lines.isEmpty || file != nil
        guard hasLines || action != .add else { throw ValidationError("Give its address, as in 'address HOST:PORT'.") }
        guard hasLines || !unset.isEmpty || action != .change else { throw ValidationError("Say what to change.") }
        guard !hasLines || action == .add || action == .change else { throw ValidationError("Lines are for add and change only.") }
        guard unset.isEmpty || action == .change else { throw ValidationError("--unset is for change only.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, name) {
        case (.list, _), (_, nil): try control.bridges()
        case (.show, let name?): try control.bridge(name)
        case (.add, let name?): try control.addBridge(name, try readFile() + lines)
        case (.change, let name?): try control.changeBridge(name, try readFile() + lines, unset: unset)
        case (.pause, let name?): try control.setBridge(name, isPaused: true)
        case (.resume, let name?): try control.setBridge(name, isPaused: false)
        case (.remove, let name?): try control.removeBridge(name)
        }
    }

    private func readFile() throws -> [String] {
        guard let file else { return [] }
        do throws(WholeFile.Failure) {
            let bytes = try WholeFile.text(of: file == "-" ? "/dev/stdin" : file, bytesMax: 1 << 20)
            let lines = bytes.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
            return lines.map { String(decoding: $0, as: UTF8.self) }
        } catch {
            throw ValidationError("--lines \(file) cannot be read.")
        }
    }
}
