import ArgumentParsing
import ControlCommands

/// `martlet ctl trace`.
struct ControlTraceCommand: ControlSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "trace",
        abstract: "Follow the packets of a client or an address, or the way of a topic's messages.",
        discussion: """
            Ctrl-C ends it. With --keep it runs in the background until its time is over: `print` shows it, `stop` ends and deletes it.

              martlet ctl trace --client sensor-7 --for 10m --payload text
              martlet ctl trace --topic 'plant/+/alarm'
              martlet ctl trace list
              martlet ctl trace stop 3
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, print, stop
    }

    enum Payload: String, ExpressibleByArgument, CaseIterable {
        case none, text, hex
    }

    @Argument(help: "list, print or stop; without it a trace is started.")
    var action: Action?

    @Argument(help: ArgumentHelp("Which one, as list names it.", valueName: "id"))
    var id: String?

    @Option(help: "A Client Identifier.", completion: ClientCompletion.kind)
    var client: String?

    @Option(help: "A topic filter.")
    var topic: String?

    @Option(help: "An IP address, or a network such as 192.0.2.0/24.")
    var address: String?

    @Option(name: .customLong("for"), help: "How long at most: 90s, 10m, 24h.", transform: Self.seconds)
    var duration = 600

    @Option(help: "How payloads are shown: none, text or hex.")
    var payload = Payload.none

    @Option(help: "The most bytes of a payload to show.")
    var payloadLimit = 1024

    @Flag(help: "Start it in the background and print its identifier.")
    var keep = false

    @OptionGroup(title: "Connection") var options: ControlOptions

    private var subjects: [TraceChoice.Subject] {
        [client.map { .client($0) }, topic.map { .topic($0) }, address.map { .address($0) }].compactMap { $0 }
    }

    func validate() throws {
        switch action {
        case nil:
            guard subjects.count == 1 else {
                throw ValidationError("Give one of --client, --topic and --address; or list, print or stop.")
            }
        case .list:
            guard id == nil, subjects.isEmpty else { throw ValidationError("list takes nothing else.") }
        case .print, .stop:
            guard id != nil, subjects.isEmpty else {
                throw ValidationError("Say which trace: `martlet ctl trace list` names them.")
            }
        }
        guard (0...16_384).contains(payloadLimit) else { throw ValidationError("--payload-limit takes 0 to 16384.") }
        guard duration <= 86_400 else { throw ValidationError("--for takes at most 24h.") }
    }

    func act(_ control: Control, _ service: BrokerService) throws {
        switch (action, id) {
        case (.print, let id?): try control.recordedTrace(id)
        case (.stop, let id?): try control.stopTrace(id)
        case (nil, _): try follow(control, service)
        default: try control.traces()
        }
    }

    private func follow(_ control: Control, _ service: BrokerService) throws {
        guard let subject = subjects.first else { return }
        let choice = TraceChoice(subject, seconds: duration, payload: payload.rawValue, payloadLimit: payloadLimit)
        if !keep { TraceEnd.holdSignals() }
        let id = try control.beginTrace(choice)
        guard !keep else { return control.announceTrace(id) }
        TraceEnd.await(id, of: service, seconds: duration)
        try control.followTrace(id)
        try control.endTrace(id)
    }

    private static func seconds(_ text: String) throws -> Int {
        guard let seconds = Control.seconds(text) else { throw ValidationError("--for takes a time such as 90s, 10m or 2h.") }
        return seconds
    }
}
