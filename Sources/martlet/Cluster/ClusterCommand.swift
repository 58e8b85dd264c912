import Commands

/// `martlet cluster`: what concerns several brokers that are one.
struct ClusterCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Try out a cluster: nodes and NATS servers on this machine.",
        subcommands: [ClusterDevCommand.self])
}
