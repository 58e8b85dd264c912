import ArgumentParsing
import MartletServer

/// The command `martlet`: with options only it runs the broker, as mosquitto does.
@main
struct MartletCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "martlet",
        abstract: "An MQTT broker: 3.1, 3.1.1 and 5.0, on every core.",
        discussion: """
            Without a configuration file it listens on the loopback addresses only, on port 1883, and allows anonymous clients.
            The configuration file has mosquitto's format.
            """,
        version: "martlet version \(ProductVersion.text)",
        subcommands: [
            Serve.self, ImportConfigCommand.self, PasswordCommand.self, StoreCommand.self, HealthCommand.self, ControlCommand.self,
            OptionsCommand.self,
            ClusterCommand.self, BenchCommand.self,
            PubCommand.self, SubCommand.self, RequestCommand.self, RespondCommand.self, MirrorCommand.self,
        ])

    @OptionGroup var options: ServeOptions

    /// Gives what follows a subcommand's name to that alone: the library would take it for options of the broker where the letters are the
    /// same, such as -c and -p.
    static func main() {
        CommandRun.run(self, Array(CommandLine.arguments.dropFirst()))
    }

    func run() throws { try ServerStart(options).run() }
}
