import ArgumentParsing
import ControlCommands
import Glibc

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
