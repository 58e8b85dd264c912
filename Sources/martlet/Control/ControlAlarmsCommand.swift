import ArgumentParsing
import ControlCommands

/// `martlet ctl alarms`.
struct ControlAlarmsCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "alarms",
        abstract: "List the alarms that are active, those that were, or acknowledge one.",
        discussion: """
            The broker raises an alarm when something is wrong with its store, disk, memory, queues, clients, bridges, certificates, clocks or \
            cluster, and clears it when all has been well for a while. Acknowledging one says that you know of it; it stays active while it \
            lasts. The history is as long as the broker runs. For example:

              martlet ctl alarms
              martlet ctl alarms history
              martlet ctl alarms ack 3
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, history, all, ack
    }

    @OptionGroup(title: "Connection") var options: ControlOptions

    @Argument(help: "list (those that are active), history (those that were), all, or ack.")
    var action = Action.list

    @Argument(help: "The number of the alarm to acknowledge.")
    var number: Int?

    @OptionGroup var rows: RowCount

    func validate() throws {
        guard (action == .ack) == (number != nil) else {
            throw ValidationError(
                number == nil ? "Say which: the number stands in martlet ctl alarms." : "Only ack takes a number.")
        }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, number) {
        case (.ack, let number?): try control.acknowledgeAlarm(number)
        case (.history, _): try control.alarms("cleared", count: rows.count)
        case (.all, _): try control.alarms("all", count: rows.count)
        default: try control.alarms("active", count: rows.count)
        }
    }
}
