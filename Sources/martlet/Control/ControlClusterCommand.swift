import ArgumentParsing
import ControlCommands

/// `martlet ctl cluster`.
struct ControlClusterCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "List the nodes of the cluster, as the broker that is asked sees them.",
        discussion: """
            A node is up while it reports its state; silent while it only holds its lease; left when it has shut down, and gone when its lease \
            has expired: these two are listed for a minute. The node that answers has a star.
            """)

    @OptionGroup(title: "Connection") var options: ControlOptions

    func act(_ control: Control, _ service: BrokerService) throws { try control.cluster() }
}
