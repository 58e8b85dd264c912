import Administration
import BrokerCore
import BrokerModel
import Configuration
import Federation
import MQTTCodec
import ServerLoops

/// The bridges that the broker has: those of the configuration's files, and those that administrators have added while
/// it runs. Belongs to the control thread.
///
/// Messages to the loops wait in `takeMessages`, so that they are sent behind the settings that they belong to: the
/// bounds of queues.
final class BridgeSupervisor {
    struct Row {
        /// Its section, if administrators have added it; nil for one of a file.
        var section: BridgeSection?
        /// Nil if it cannot be run as it is configured; `failure` says why.
        var plan: BridgePlan?
        var failure: String?
        /// How its connections are, by their numbers.
        var statuses: [Int: BridgeStatus] = [:]

        /// The state of all connections together; nil before one has reported.
        var status: BridgeStatus? { BridgeStatus(sumOf: statuses.sorted { $0.key < $1.key }.map(\.value)) }
    }

    /// By name.
    private(set) var rows: [String: Row] = [:]
    private var memory = BridgeMemory()
    /// The file that the bridges of administrators are stored in; nil for none.
    private var path: String?
    /// Why that file must not be written: it has contents that could not be read.
    private var unreadable: String?
    private var commands: [(BridgeMessage, BridgePlan)] = []
    /// How many connections each bridge runs with, by its client identifier here: as long as the broker runs, for
    /// another number dispatches topics to other queues.
    private var connectionCounts: [EncodedString: Int] = [:]
    private let log: Log

    /// - Parameter planned: those of the configuration's files.
    init(_ planned: [PlannedBridge], log: Log) {
        self.log = log
        for bridge in planned {
            rows[bridge.name] = Row(plan: bridge.plan, failure: bridge.failure)
            logFailure(bridge, "It does not run")
        }
    }

    private func logFailure(_ bridge: PlannedBridge, _ consequence: String) {
        guard let failure = bridge.failure else { return }
        log.write(
            .error,
            "Error: Bridge \(bridge.name): \(failure). \(consequence) until that is mended and the configuration is read again: martlet ctl "
                + "reload.")
    }

    var endsWithBroker: Bool { path == nil }

    func isPaused(_ name: String) -> Bool { memory.paused.contains(name) }

    /// The bounds of the bridges' queues, by their client identifiers here.
    var queueBounds: [EncodedString: QueueBound] {
        let plans = rows.values.compactMap(\.plan)
        return Dictionary(
            plans.flatMap { plan in
                plan.connectionQueueBound.map { bound in plan.localClientIdentifiers.map { ($0, bound) } } ?? []
            },
            uniquingKeysWith: { first, _ in first })
    }

    /// The topics on which bridges publish whether they are connected.
    var stateTopics: Set<[UInt8]> { Set(rows.values.compactMap { $0.plan?.settings.stateTopic?.bytes }) }

    /// Which topics are for which connections of bridges that have several, by their client identifiers here.
    var topicParts: [EncodedString: TopicPart] {
        Dictionary(rows.values.compactMap(\.plan).flatMap(\.topicParts), uniquingKeysWith: { first, _ in first })
    }

    /// Takes the messages to the loops, in order, each with the plan whose client identifier says which loop it is for.
    func takeMessages() -> [(BridgeMessage, BridgePlan)] {
        defer { commands = [] }
        return commands
    }

    // MARK: From start to end

    /// Reads the bridges that administrators have added. A broken file is logged, and keeps no broker from starting.
    func start(_ configuration: BrokerConfiguration) {
        if configuration.persistence.isEnabled {
            let path = BridgeMemory.path(of: configuration.persistence)
            self.path = path
            do throws(BridgeMemory.Failure) {
                memory = try BridgeMemory(readingFrom: path)
            } catch {
                unreadable = "\(path) \(error)"
                log.write(
                    .error,
                    "Error: \(path) \(error). The bridges that administrators have added do not run; repair or remove the file, and start "
                        + "the broker again.")
            }
        }
        adopt(configuration, ConfigurationLocations())
        for row in sorted { if let plan = row.plan { run(plan) } }
    }

    /// Applies a configuration that was read again.
    ///
    /// - Parameters:
    ///   - planned: those of its files.
    ///   - configuration: what is in force from now on.
    ///   - locations: where its lines stand.
    func renew(_ planned: [PlannedBridge], _ configuration: BrokerConfiguration, _ locations: ConfigurationLocations) {
        let before = rows
        rows = rows.filter { $0.value.section != nil }
        for bridge in planned {
            var row = Row(failure: bridge.failure, statuses: before[bridge.name]?.statuses ?? [:])
            // One that cannot be run as it is configured now goes on as before.
            row.plan = bridge.plan.map(inForce) ?? before[bridge.name]?.plan
            logFailure(bridge, row.plan == nil ? "It does not run" : "It goes on as before")
            rows[bridge.name] = row
        }
        adopt(configuration, locations)
        for (name, old) in before.sorted(by: { $0.key < $1.key }) {
            guard let plan = old.plan, !Self.isSameClient(plan, rows[name]?.plan) else { continue }
            rows[name]?.statuses = [:]
            remove(plan)
        }
        for row in sorted { if let plan = row.plan { run(plan) } }
    }

    /// Makes plans of the bridges that administrators have added, as the configuration has it now. Files come first.
    private func adopt(_ configuration: BrokerConfiguration, _ locations: ConfigurationLocations) {
        let taken = memory.sections.filter { rows[$0.name].map { $0.section == nil } ?? false }
        for section in taken {
            let place = locations.opening(ofBridge: section.name).map { "\($0.file) line \($0.line)" } ?? "the configuration"
            log.write(
                .warning,
                "Warning: Bridge \(section.name) is defined in \(place) now; the bridge of that name that an administrator had added is removed."
            )
        }
        if !taken.isEmpty {
            memory.sections.removeAll { taken.contains($0) }
            keepOrWarn()
        }
        for section in memory.sections {
            let old = rows[section.name]
            var row = Row(section: section, statuses: old?.statuses ?? [:])
            switch plan(section, configuration) {
            case .success(let made): row.plan = inForce(made.plan)
            case .failure(let refusal):
                // Better as before than not at all, unless somebody else has its place now.
                row.plan = clash(of: old?.plan, named: section.name) == nil ? old?.plan : nil
                row.failure = refusal.reasons.joined(separator: " ")
                log.write(.error, "Error: Bridge \(section.name): \(row.failure ?? "")")
            }
            rows[section.name] = row
        }
    }

    /// The plan with as many connections as the bridge has until the broker's next start.
    private func inForce(_ plan: BridgePlan) -> BridgePlan {
        guard let count = connectionCounts[plan.settings.localClientIdentifier], count != plan.connectionCount else {
            return plan
        }
        log.write(
            .warning,
            "Warning: Bridge \(plan.name) has martlet_bridge_connections \(count) until the broker's next start, instead of "
                + "\(plan.connectionCount).")
        var plan = plan
        plan.connectionCount = count
        return plan
    }

    /// Ends a bridge, and its sessions.
    private func remove(_ plan: BridgePlan) {
        connectionCounts[plan.settings.localClientIdentifier] = nil
        commands.append((.remove(plan.name), plan))
    }

    private func run(_ plan: BridgePlan, atOnce: Bool = false) {
        connectionCounts[plan.settings.localClientIdentifier] = plan.connectionCount
        commands.append((.run(plan, atOnce: atOnce, isPaused: isPaused(plan.name)), plan))
    }

    private var sorted: [Row] { rows.sorted { $0.key < $1.key }.map(\.value) }

    /// Whether two plans have the same client here: else the one ends, and the other begins.
    private static func isSameClient(_ plan: BridgePlan, _ other: BridgePlan?) -> Bool {
        plan.settings.localClientIdentifier == other?.settings.localClientIdentifier
    }

    /// Settles how many connections the bridges run with, by what the store has kept for them in these shards: that may
    /// be another number than is configured.
    ///
    /// - Returns: whether a bridge has another number than was configured.
    func settle(_ shards: [BrokerShard]) -> Bool {
        settleConnections { identifier in
            let shard = shards[shards[0].placement.shard(of: identifier)]
            return shard.hasOwnSession(of: identifier) ? shard.backlog(of: identifier) : nil
        }
    }

    /// Records the states that a loop has reported. Returns the names of the bridges whose state has changed.
    func record(_ statuses: [BridgeStatus]) -> [String] {
        var changed: [String] = []
        for status in statuses {
            guard let row = rows[status.name], row.plan != nil else { continue }
            rows[status.name]?.statuses[status.connection] = status
            let isOther = row.status?.report.state != rows[status.name]?.status?.report.state
            if isOther, !changed.contains(status.name) { changed.append(status.name) }
        }
        return changed
    }

    /// Ends a session of a connection that the bridge does not have any more.
    func endSession(_ clientIdentifier: EncodedString, of plan: BridgePlan) {
        commands.append((.endSession(clientIdentifier), plan))
    }

    /// Keeps the number of connections that a bridge had before, because messages wait for them.
    func keep(_ count: Int, of name: String, instead plan: BridgePlan, waiting messages: Int) {
        var kept = plan
        kept.connectionCount = count
        log.write(
            .warning,
            "Warning: Bridge \(name) keeps its \(count) connections: \(messages) messages are queued for them. martlet_bridge_connections "
                + "\(plan.connectionCount) takes effect at a start without queued messages.")
        rows[name]?.plan = kept
        connectionCounts[plan.settings.localClientIdentifier] = count
        commands = commands.map { message, old in
            guard case .run(_, let atOnce, let isPaused) = message, old.name == name else { return (message, old) }
            return (.run(kept, atOnce: atOnce, isPaused: isPaused), kept)
        }
    }

    // MARK: Commands

    private struct Refusal: Error {
        let reasons: [String]
    }

    /// Carries out an administrator's order.
    ///
    /// - Parameters:
    ///   - command: what.
    ///   - name: of which bridge.
    ///   - configuration: what is in force.
    ///   - locations: where its lines stand.
    func perform(
        _ command: BridgeCommand, on name: String, _ configuration: BrokerConfiguration, _ locations: ConfigurationLocations
    ) -> BridgeCommandOutcome {
        if case .add(let settings) = command {
            guard rows[name] == nil else { return .conflict("There is a bridge of this name.") }
            guard memory.sections.count < Limits.addedBridgesMax else {
                return .conflict(
                    "There are \(Limits.addedBridgesMax) bridges besides those of the configuration, the maximum.")
            }
            return set(settings, name, nil, configuration)
        }
        guard let row = rows[name] else { return .notFound }
        switch command {
        case .add: return .notFound
        case .pause: return setPaused(true, name, row)
        case .resume: return setPaused(false, name, row)
        case .change(let settings):
            guard let section = row.section else { return Self.standsInFile(name, locations, "changed") }
            return set(settings, name, (section, row), configuration)
        case .remove:
            guard row.section != nil else { return Self.standsInFile(name, locations, "removed") }
            return keeping { memory in
                memory.sections.removeAll { $0.name == name }
                memory.paused.remove(name)
            } then: {
                rows[name] = nil
                if let plan = row.plan { remove(plan) }
                return .done(warnings: [])
            }
        }
    }

    private static func standsInFile(_ name: String, _ locations: ConfigurationLocations, _ what: String) -> BridgeCommandOutcome {
        let place = locations.opening(ofBridge: name).map { "in \($0.file) line \($0.line)" } ?? "in the configuration"
        return .conflict("It is defined \(place), and is \(what) there; reload the configuration afterwards.")
    }

    private func setPaused(_ isPaused: Bool, _ name: String, _ row: Row) -> BridgeCommandOutcome {
        keeping {
            $0.setPaused(name, isPaused)
        } then: {
            if let plan = row.plan { commands.append((isPaused ? .pause(name) : .resume(name), plan)) }
            return .done(warnings: [])
        }
    }

    /// Creates a bridge from options, or changes those of one that exists.
    private func set(
        _ settings: [BridgeCommand.Setting], _ name: String, _ old: (section: BridgeSection, row: Row)?,
        _ configuration: BrokerConfiguration
    ) -> BridgeCommandOutcome {
        let section: BridgeSection
        do throws(BridgeSectionRefusal) {
            section = try Self.section(settings, name, old?.section)
        } catch {
            return .wrong([error.description])
        }
        switch plan(section, configuration) {
        case .failure(let refusal): return .wrong(refusal.reasons)
        case .success(let (plan, warnings)):
            let count = old?.row.plan.flatMap { Self.isSameClient(plan, $0) ? $0.connectionCount : nil }
            if let count, count != plan.connectionCount {
                return .wrong([
                    "martlet_bridge_connections: it stays \(count) until the broker is restarted or the bridge is removed, because another "
                        + "number divides the topics differently."
                ])
            }
            return keeping { memory in
                if let place = memory.sections.firstIndex(where: { $0.name == name }) {
                    memory.sections[place] = section
                } else {
                    memory.sections.append(section)
                }
            } then: {
                let isSame = Self.isSameClient(plan, old?.row.plan)
                if !isSame, let former = old?.row.plan { remove(former) }
                rows[name] = Row(section: section, plan: plan, statuses: isSame ? old?.row.statuses ?? [:] : [:])
                run(plan, atOnce: true)
                return .done(warnings: warnings)
            }
        }
    }

    private static func section(
        _ settings: [BridgeCommand.Setting], _ name: String, _ old: BridgeSection?
    ) throws(BridgeSectionRefusal) -> BridgeSection {
        var section: BridgeSection
        if let old { section = old } else { section = try BridgeSection(name: name) }
        var given: [String: String] = [:]
        for (option, values) in settings {
            let identity = ConfigurationOption.named(option).map { $0.canonicalName ?? $0.name } ?? option
            if let twin = given.updateValue(option, forKey: identity) {
                throw BridgeSectionRefusal("\(option): it is another name for \(twin), which is given too.")
            }
            try section.set(option, to: values)
        }
        return section
    }

    /// What a section asks for, with the same checks as one of a file.
    private func plan(
        _ section: BridgeSection, _ configuration: BrokerConfiguration
    ) -> Result<(plan: BridgePlan, warnings: [String]), Refusal> {
        let (bridge, diagnostics) = section.read()
        func words(_ severity: Diagnostic.Severity) -> [String] {
            diagnostics.filter { $0.severity == severity }.map { ($0.option.map { "\($0): " } ?? "") + $0.message }
        }
        guard words(.error).isEmpty else { return .failure(Refusal(reasons: words(.error))) }
        do throws(ServerError) {
            let plan = try BridgePlan(bridge, in: configuration)
            if let (twin, identifier) = clash(of: plan, named: section.name) {
                return .failure(Refusal(reasons: ["local_clientid: \(identifier) is that of bridge \(twin) too."]))
            }
            return .success((plan, words(.warning) + [bridge.loop(in: configuration)].compactMap { $0 }))
        } catch {
            switch error {
            case .bridge(_, let reason): return .failure(Refusal(reasons: [reason + "."]))
            case .bridgeSecurity(let name, let failure):
                return .failure(Refusal(reasons: ["\(PlannedBridge(name: name, failure: failure).failure ?? "")."]))
            default: return .failure(Refusal(reasons: ["\(error)"]))
            }
        }
    }

    /// Another bridge with the same client identifier here, and that.
    private func clash(of plan: BridgePlan?, named name: String) -> (name: String, EncodedString)? {
        guard let plan else { return nil }
        for (other, row) in rows.sorted(by: { $0.key < $1.key }) where other != name {
            if let identifier = row.plan.flatMap({ plan.sharedIdentifier(with: $0) }) { return (other, identifier) }
        }
        return nil
    }

    // MARK: What is kept

    /// Changes the file of bridges, and calls `done` if it was written.
    private func keeping(_ change: (inout BridgeMemory) -> Void, then done: () -> BridgeCommandOutcome) -> BridgeCommandOutcome {
        var changed = memory
        change(&changed)
        if let path, changed != memory {
            if let unreadable { return .notKept("\(unreadable). Repair or remove the file, and start the broker again.") }
            do throws(BridgeMemory.Failure) {
                try changed.write(to: path)
            } catch {
                log.write(.error, "Error: \(path) \(error).")
                return .notKept("The bridges could not be saved; the log says why.")
            }
        }
        memory = changed
        return done()
    }

    private func keepOrWarn() {
        guard let path, unreadable == nil else { return }
        do throws(BridgeMemory.Failure) {
            try memory.write(to: path)
        } catch {
            log.write(.error, "Error: \(path) \(error).")
        }
    }
}

/// What another number of connections makes of the queues that the store has kept.
extension BridgeSupervisor {
    /// Settles, at the broker's start, how many connections each bridge has: as many as it is to, unless messages wait
    /// that were dispatched among another number of them. Sessions that are no connection's any more end.
    ///
    /// - Parameter backlog: what waits in the session of a client identifier; nil if the store had none.
    /// - Returns: whether a bridge has another number than was configured.
    func settleConnections(_ backlog: (EncodedString) -> SessionBacklog?) -> Bool {
        var hasChanged = false
        for (name, row) in rows.sorted(by: { $0.key < $1.key }) {
            guard let plan = row.plan else { continue }
            let first = plan.settings.localClientIdentifier
            // Another bridge may be called as this one's second connection would be.
            let others = Set(rows.filter { $0.key != name }.values.compactMap(\.plan).flatMap(\.localClientIdentifiers))
            let kept = (1...Limits.bridgeConnectionsMax).compactMap { number in
                BridgeSettings.clientIdentifier(first, ofConnection: number).flatMap { identifier in
                    others.contains(identifier)
                        ? nil : backlog(identifier).map { (number: number, identifier: identifier, messages: $0.messages) }
                }
            }
            guard let former = kept.last?.number, former != plan.connectionCount else { continue }
            let messages = kept.reduce(0) { $0 + $1.messages }
            if messages == 0 {
                for session in kept where session.number > plan.connectionCount {
                    endSession(session.identifier, of: plan)
                }
            } else {
                keep(former, of: name, instead: plan, waiting: messages)
                hasChanged = true
            }
        }
        return hasChanged
    }
}

extension BridgeStatus {
    /// All connections of a bridge together, the first one first: it is connected when all are, and else as the first
    /// that is not. Nil if there is none.
    init?(sumOf statuses: [BridgeStatus]) {
        guard let first = statuses.first else { return nil }
        guard statuses.count > 1 else {
            self = first
            return
        }
        let missing = statuses.first { $0.report.state != .connected }
        var (report, backlog, rates) = ((missing ?? first).report, SessionBacklog(), BridgeRates())
        report.connectedSince = missing == nil ? statuses.compactMap(\.report.connectedSince).max() : nil
        report.failure = missing?.report.failure ?? statuses.lazy.compactMap(\.report.failure).first
        for status in statuses { backlog.add(status.backlog) }
        rates.out = statuses.reduce(0) { $0 + $1.rates.out }
        rates.into = statuses.reduce(0) { $0 + $1.rates.into }
        for count in BridgeReport.counts {
            report[keyPath: count] = statuses.reduce(0) { $0 &+ $1.report[keyPath: count] }
        }
        self.init(
            name: first.name, connection: 1, clientIdentifier: first.clientIdentifier, report: report,
            address: (missing ?? first).address, backlog: backlog, rates: rates)
    }
}

extension BridgeReport {
    /// The counters of a bridge.
    fileprivate static var counts: [WritableKeyPath<BridgeReport, UInt64>] {
        [
            \.connectionCount, \.messagesOut, \.messagesIn, \.bytesOut, \.bytesIn, \.postponedOut, \.droppedOut, \.droppedIn,
            \.echoes,
        ]
    }
}

extension Limits {
    /// The connections of a bridge that are looked for in the store: the largest `martlet_bridge_connections`.
    static let bridgeConnectionsMax = 64

    /// Bridges that administrators may add; further ones are refused. Bytes: `bridgeFileBytesMax`.
    static let addedBridgesMax = 256
}
