import ArgumentParsing
import Glibc
import Platform

/// `martlet cluster dev`: a whole cluster as the children of one command.
struct ClusterDevCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Run a cluster on this machine, to try it out: three NATS servers and as many nodes as are wanted.",
        discussion: """
            Everything listens on 127.0.0.1 only, and clients need no login. The first node has the port, each further one the next. Dashboards \
            are on 9883 and the ports behind it, NATS servers on 4222 and 8222, moved with --port, and past those that are taken. A table \
            says what runs where, with process IDs, so that you can kill one and see what happens; when one ends, that is reported. \
            Ctrl-C stops the nodes, then the servers; a second one kills them. For example:

              martlet cluster dev
              martlet sub -p 1885 -t 'house/#' -v
              martlet pub -p 1883 -t house/lamp -m on

            It needs nats-server 2.11 or newer. Exits with 0 when it was told to end, and with 1 when it could not start, or all that it \
            had started has ended.
            """)

    @Option(help: "How many nodes, 1 to 9.")
    var nodes = 3

    @Option(name: [.short, .long], help: "The first node's port for MQTT.")
    var port: UInt16 = 1883

    @Option(
        help: ArgumentHelp(
            "The directory for configurations, logs and data; created if it does not exist. (default: a new one in /tmp)",
            valueName: "directory"
        ),
        completion: .directory)
    var directory: String?

    @Option(
        help: ArgumentHelp("The program nats-server. (default: the one on the PATH)", valueName: "path"), completion: .file)
    var nats: String?

    @Flag(
        help: "Keep the directory at the end. Started on a directory that was kept, the cluster continues, and it is kept again."
    )
    var keep = false

    func validate() throws {
        guard (1...9).contains(nodes) else { throw ValidationError("--nodes takes 1 to 9, not \(nodes).") }
        guard port > 0, Int(port) + nodes <= 65_536 else {
            throw ValidationError("--port takes a port from 1 to \(65_536 - nodes), as each node has one.")
        }
    }

    func run() throws {
        do throws(DevFailure) {
            try runCluster()
        } catch {
            Console.complain("Error: \(error.reason)")
            throw ExitCode(1)
        }
    }

    private func runCluster() throws(DevFailure) {
        let server = try NATSServerProgram.found(nats)
        let ports = try DevPorts(firstNode: port, nodeCount: nodes)
        let place = try DevDirectory(directory.map(FullPath.of), keeps: keep)
        defer { place.end() }
        var cluster = try DevCluster(DevPlan(ports: ports, directory: place.path), server: server, isKept: place.isKept)
        try cluster.run()
    }
}

/// Why there is no cluster, as a sentence.
struct DevFailure: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }
}
