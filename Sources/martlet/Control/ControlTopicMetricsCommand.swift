import ArgumentParsing
import ControlCommands

/// `martlet ctl topic-metrics`.
struct ControlTopicMetricsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "topic-metrics",
        abstract: "Count the messages of topic filters: in, out and dropped.",
        discussion: """
            A filter is counted from when it is added until it is removed or the broker ends; /metrics has it too.

              martlet ctl topic-metrics add 'plant/#'
              martlet ctl topic-metrics
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, add, remove
    }

    @Argument(help: "list, add or remove.")
    var action = Action.list

    @Argument(help: "A topic filter.")
    var filter: String?

    @OptionGroup(title: "Connection") var options: ControlOptions

    func validate() throws {
        guard (action == .list) == (filter == nil) else {
            throw ValidationError(filter == nil ? "Say which filter." : "list takes no filter.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, filter) {
        case (.add, let filter?): try control.addTopicMetric(filter)
        case (.remove, let filter?): try control.removeTopicMetric(filter)
        default: try control.topicMetrics()
        }
    }
}
