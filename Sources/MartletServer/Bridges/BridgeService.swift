import Administration
import BrokerCore
import BrokerModel
import Configuration
import Federation
import MQTTCodec
import Platform
import ServerLoops

/// The bridges to other brokers, as the loops run them and administrators see and steer them. Belongs to the control
/// thread.
///
///     supervisor: which there are ─► messages to the loops ─► BridgeRunner
///     administrators ◄─ AdministeredBridge ◄─ what the loops tell each second
final class BridgeService {
    let supervisor: BridgeSupervisor
    private let loops: LoopGroup
    private let configuration: RunningConfiguration
    private let control: ControlLoop
    private let log: Log

    init(
        _ supervisor: BridgeSupervisor, loops: LoopGroup, configuration: RunningConfiguration, control: ControlLoop, log: Log
    ) {
        (self.supervisor, self.loops, self.configuration) = (supervisor, loops, configuration)
        (self.control, self.log) = (control, log)
    }

    /// Sends the loops their commands for bridges, behind the settings that were sent.
    func sendCommands() {
        for (message, plan) in supervisor.takeMessages() {
            if case .endSession(let identifier) = message {
                loops.send(.bridge(message), to: loops.loop(of: identifier))
                continue
            }
            for connection in plan.connections {
                let home = loops.loop(of: connection.settings.localClientIdentifier)
                loops.send(.bridge(message.addressed(to: connection)), to: home)
            }
        }
    }

    /// Carries out an administrator's order for a bridge.
    func perform(_ command: BridgeCommand, onBridge name: String) -> BridgeCommandOutcome {
        let (bounds, parts, states) = (supervisor.queueBounds, supervisor.topicParts, supervisor.stateTopics)
        let outcome = supervisor.perform(command, on: name, configuration.value, configuration.locations)
        let isOther = supervisor.queueBounds != bounds || supervisor.topicParts != parts || supervisor.stateTopics != states
        if isOther { control.request(.renewSettings) }
        sendCommands()
        if case .done = outcome { log.write(.notice, "Bridge \(name) is \(command.word) by an administrator.") }
        return outcome
    }

    /// Asks the loops for the states of their bridges.
    func askForStatuses() {
        let identifiers = supervisor.rows.values.compactMap(\.plan).flatMap(\.localClientIdentifiers)
        for loop in Set(identifiers.map { loops.loop(of: $0) }).sorted() { loops.send(.bridge(.report), to: loop) }
    }

    /// Records the states of bridges that a loop has reported.
    ///
    /// - Returns: the bridges whose state is another one than before.
    func record(_ statuses: [BridgeStatus]) -> [AdministeredBridge] {
        let changed = supervisor.record(statuses)
        for name in Set(statuses.map(\.name)).sorted() {
            guard let row = supervisor.rows[name], let plan = row.plan, plan.connectionCount > 1, let sum = row.status else {
                continue
            }
            loops.send(.bridge(.sum(sum)), to: loops.loop(of: plan.settings.localClientIdentifier))
        }
        return changed.isEmpty ? [] : administered.filter { changed.contains($0.name) }
    }

    /// How often the loops are asked.
    static let reportMilliseconds: UInt64 = 1000

    // MARK: For administrators

    /// In the order of their names.
    var administered: [AdministeredBridge] {
        let offset = WallClock.offsetMilliseconds()
        return supervisor.rows.sorted { $0.key < $1.key }.map { name, row in
            var bridge = AdministeredBridge(name: name)
            bridge.isPaused = supervisor.isPaused(name)
            if let status = row.status { bridge.update(with: status, wallClockOffset: offset) }
            bridge.eachConnection = row.statuses.sorted { $0.key < $1.key }.map { .init($0.value) }
            if row.plan == nil { bridge.state = .failed } else if bridge.isPaused { bridge.state = .paused }
            if let failure = row.failure { bridge.lastError = failure }
            let opening = row.section == nil ? configuration.locations.opening(ofBridge: name) : nil
            bridge.location = opening.map { AdministeredBridge.Location(file: $0.file, line: $0.line) }
            bridge.options = row.section.map(Self.options) ?? Self.options(configuration.locations.lines(ofBridge: name))
            return bridge
        }
    }

    private static func options(_ section: BridgeSection) -> [AdministeredBridge.Option] {
        section.lines.map { option($0.name, $0.values) }
    }

    private static func options(_ lines: [ConfigurationLocations.Line]) -> [AdministeredBridge.Option] {
        var options: [AdministeredBridge.Option] = []
        for line in lines {
            let name = ConfigurationOption.named(line.name).map { $0.canonicalName ?? $0.name } ?? line.name
            if let place = options.firstIndex(where: { $0.name == name }) {
                options[place].values.append(contentsOf: option(name, [line.value]).values)
            } else {
                options.append(option(name, [line.value]))
            }
        }
        return options
    }

    private static func option(_ name: String, _ values: [String]) -> AdministeredBridge.Option {
        AdministeredBridge.Option(
            name: name, values: values.map { ConfigurationOption.shown($0, of: name) },
            isRepeatable: ConfigurationOption.named(name)?.isRepeatable ?? false)
    }
}

extension BridgePlan {
    /// What each `connection` section asks for. Throws what is wrong with one of them; one whose files cannot be used
    /// does not keep the others, and the broker, from running.
    static func all(of configuration: BrokerConfiguration) throws(ServerError) -> [PlannedBridge] {
        var bridges: [PlannedBridge] = []
        for bridge in configuration.bridges {
            let plan: BridgePlan
            do throws(ServerError) {
                plan = try BridgePlan(bridge, in: configuration)
            } catch {
                guard case .bridgeSecurity(_, let failure) = error else { throw error }
                bridges.append(PlannedBridge(name: bridge.name, failure: failure))
                continue
            }
            if let error = clash(of: plan, with: bridges.compactMap(\.plan)) { throw error }
            bridges.append(PlannedBridge(name: bridge.name, plan: plan))
        }
        return bridges
    }

    /// Why a bridge cannot run beside others; nil if it can.
    static func clash(of plan: BridgePlan, with others: [BridgePlan]) -> ServerError? {
        for twin in others {
            guard let identifier = plan.sharedIdentifier(with: twin) else { continue }
            return .bridge(name: plan.name, reason: "its local_clientid \(identifier) is that of bridge \(twin.name) too")
        }
        return nil
    }
}

extension BridgeCommand {
    /// What has become of the bridge.
    fileprivate var word: String {
        switch self {
        case .add: "added"
        case .change: "changed"
        case .remove: "removed"
        case .pause: "paused"
        case .resume: "resumed"
        }
    }
}

extension AdministeredBridge {
    /// - Parameters:
    ///   - status: what its loop has told.
    ///   - wallClockOffset: what the loop's clock lacks of the milliseconds since 1970.
    fileprivate mutating func update(with status: BridgeStatus, wallClockOffset: UInt64) {
        let report = status.report
        state = State(report.state)
        address = status.address
        connectedSince = report.connectedSince.map { $0 &+ wallClockOffset }
        lastError = report.failure
        connections = report.connectionCount
        (messagesOut, messagesIn) = (report.messagesOut, report.messagesIn)
        (bytesOut, bytesIn) = (report.bytesOut, report.bytesIn)
        (droppedOut, droppedIn) = (report.droppedOut, report.droppedIn)
        (rateOut, rateIn) = (status.rates.out, status.rates.into)
        (queuedMessages, queuedBytes) = (status.backlog.messages, status.backlog.bytes)
        (storedMessages, lagMilliseconds) = (status.backlog.storedMessages, status.backlog.oldestMilliseconds)
    }
}

extension AdministeredBridge.State {
    fileprivate init(_ state: BridgeReport.State) {
        self =
            switch state {
            case .paused: .paused
            case .waiting: .waiting
            case .connecting: .connecting
            case .connected: .connected
            case .idle: .lazy
            case .ended: .ended
            }
    }
}

extension AdministeredBridge.Connection {
    fileprivate init(_ status: BridgeStatus) {
        self.init(
            number: status.connection, clientIdentifier: "\(status.clientIdentifier)", state: .init(status.report.state),
            address: status.address, lastError: status.report.failure)
        (queuedMessages, queuedBytes) = (status.backlog.messages, status.backlog.bytes)
        (lagMilliseconds, rateOut, rateIn) = (status.backlog.oldestMilliseconds, status.rates.out, status.rates.into)
        (messagesOut, messagesIn) = (status.report.messagesOut, status.report.messagesIn)
    }
}

extension BridgeMessage {
    /// The message for one connection of the bridge that it is about.
    fileprivate func addressed(to connection: BridgePlan) -> BridgeMessage {
        switch self {
        case .run(_, let atOnce, let isPaused): .run(connection, atOnce: atOnce, isPaused: isPaused)
        case .pause: .pause(connection.key)
        case .resume: .resume(connection.key)
        case .remove: .remove(connection.key)
        case .endSession, .sum, .report, .resolved: self
        }
    }
}
