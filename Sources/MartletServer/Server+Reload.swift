import Administration
import BrokerCore
import BrokerModel
import Configuration
import EpollLoop
import HTTPServer
import Platform
import Security
import ServerLoops
import Transports

/// Reading the configuration again while the broker runs. On the control thread.
///
///     read, check ─► open what is new ─► every loop goes by the new settings ─► clients are let in by what is new
///          │               │                 and lets go of what is closed            │
///          └───────┬───────┘                                                          ▼
///                  ▼                                                              answered
///      answered: nothing has changed
extension Server {
    /// Reads the configuration again and gives it to every loop. A broken one changes nothing.
    ///
    /// - Parameter done: told what was found, once every loop goes by it, or at once where nothing changes; nil where there is no file.
    func reload(_ done: @escaping (ConfigurationFindings?) -> Void) {
        guard !reloads.isUnderWay else { return reloads.wait(done) }
        manager.reloading()
        let result = reread?()
        do throws(ReloadRefusal) {
            let reload = try apply(result)
            reloads.begin { [unowned self] in
                letIn(by: reload.changes)
                done(reload.findings)
                // The one who has asked may have come by one of these.
                for listener in reload.changes.closings { http?.service.stop(listener: listener) }
            }
        } catch {
            manager.ready("Serving")
            done(error.findings)
        }
    }

    /// Reads the files of users, rules and keys again, and nothing else: what an administrator has changed in them is in force when `done` is
    /// called.
    ///
    /// - Returns: whether they can be read; else nothing changes, and `done` is not called.
    func rereadSecurityFiles(_ done: @escaping () -> Void) -> Bool {
        guard !reloads.isUnderWay else {
            // What is under way has read them before the change.
            reloads.wait { [unowned self] _ in if !rereadSecurityFiles(done) { done() } }
            return true
        }
        let tables: SecurityTables
        do throws(ServerError) {
            tables = try readTables(configuration)
        } catch {
            log.write(.error, "Error: \(error) The broker goes on as before.")
            return false
        }
        for (keys, security) in zip(open.keys, tables.listeners) { keys.exchange(security.preSharedKeys) }
        http?.apply(configuration, tables, layers: open.layers)
        administration?.endSessionsOfOtherRoles(at: Self.moment())
        reloads.begin(done)
        let countdown = Countdown(loops: loops.count) { [mailbox = control.mailbox] in mailbox.post(.reloaded) }
        sendToLoops(.settings(brokerSettings(log.topics, tables), tables, countdown))
        return true
    }

    /// Every loop goes by what was read last.
    func reloadIsInForce() {
        reloads.takeEnding()?()
        guard let waiting = reloads.takeWaiting() else { return }
        reload { findings in for done in waiting { done(findings) } }
    }

    /// - Returns: what changes, and what is to be told of it once every loop goes by it.
    private func apply(
        _ result: ConfigurationResult?
    ) throws(ReloadRefusal) -> (changes: ReloadedConfiguration, findings: ConfigurationFindings) {
        log.write(.information, "Reloading config.")
        log.reopen()
        auditLog.reopen()
        guard let result else {
            log.write(.notice, "There is no config file to reload.")
            throw ReloadRefusal(findings: nil)
        }
        for diagnostic in result.diagnostics {
            log.write(diagnostic.severity == .error ? .error : .warning, "\(diagnostic)")
        }
        guard !result.hasErrors else { throw refusal(of: result, because: []) }
        let reloaded = ReloadedConfiguration(running: configuration, wanted: result.configuration)
        fileRights.tell(reloaded.configuration, to: log)
        let prepared: Prepared
        do throws(ServerError) {
            prepared = try prepare(reloaded)
        } catch {
            let diagnostics = error.diagnostics(in: result)
            for diagnostic in diagnostics { log.write(.error, "\(diagnostic)") }
            throw refusal(of: result, because: diagnostics)
        }
        var findings = ConfigurationFindings(result.diagnostics)
        let remarks = reloaded.warnings + prepared.tables.warnings.map { "\($0)" }
        for remark in remarks {
            log.write(.warning, "Warning: \(remark)")
            findings.warn(remark)
        }
        bridges.renew(prepared.plans, reloaded.configuration, result.places)
        keepers.warn()
        if let credentials = prepared.credentials { renewCluster(credentials) }
        takeOver(reloaded, prepared).forEach { findings.warn($0) }
        note(result)
        listenersOfFiles = reloaded.places
        sendBridgeOrders()
        return (reloaded, findings)
    }

    private func refusal(of result: ConfigurationResult, because diagnostics: [Diagnostic]) -> ReloadRefusal {
        log.write(.error, "Error: The config was not reloaded because of these errors; the broker goes on as before.")
        return ReloadRefusal(findings: ConfigurationFindings(result.diagnostics + diagnostics))
    }

    /// What a reload needs, made before anything changes.
    private struct Prepared {
        let tables: SecurityTables
        let plans: [PlannedBridge]
        let credentials: ClusterCredentials?
        let opened: [(listener: Int, place: OpenListeners.Place)]
    }

    /// Throws what keeps a configuration from coming into force; then nothing has changed.
    private func prepare(_ reloaded: ReloadedConfiguration) throws(ServerError) -> Prepared {
        let prepared = Prepared(
            tables: try readTables(reloaded.configuration), plans: try Self.bridgePlans(reloaded.configuration),
            credentials: try newCredentials(reloaded.configuration), opened: try open.opening(reloaded, log: log))
        try log.apply(reloaded.configuration.logging)
        return prepared
    }

    /// Reads the files of users, rules and keys again.
    private func readTables(_ configuration: BrokerConfiguration) throws(ServerError) -> SecurityTables {
        do throws(SecurityFilesError) {
            let opened = keepers.keepers.count
            try keepers.open(configuration)
            if clusterPlan != nil, keepers.keepers.count > opened {
                log.write(
                    .warning,
                    "Warning: dynamic security that a reload has switched on is shared with the other nodes only after a restart."
                )
            }
            return try SecurityTables(reading: configuration, workers: workers, directories: keepers.directories)
        } catch {
            throw .securityFiles(error)
        }
    }

    /// Puts it in force, but for letting clients in by what is new.
    ///
    /// - Returns: which certificates stay as they were.
    private func takeOver(_ reloaded: ReloadedConfiguration, _ prepared: Prepared) -> [String] {
        let (tables, opened) = (prepared.tables, prepared.opened)
        configuration = reloaded.configuration
        for listener in reloaded.closings {
            log.write(.notice, "Closing \(ListenerName.of(configuration.listeners[listener].endpoint)).")
        }
        open.take(opened, configuration)
        for line in opened.flatMap(\.place.announcements) { log.write(.information, line) }
        for (keys, security) in zip(open.keys, tables.listeners) { keys.exchange(security.preSharedKeys) }
        let failures = rereadCertificates(but: Set(opened.map(\.listener)))
        http?.apply(configuration, tables, layers: open.layers)
        bans?.apply(configuration.limits)
        renewAdministration()
        let settings = brokerSettings(log.topics, tables)
        // Whoever connects when this has been told finds the new settings on every loop.
        let countdown = Countdown(loops: loops.count) { [log, manager, mailbox = control.mailbox] in
            log.write(.notice, "Config reloaded.")
            manager.ready("Serving")
            mailbox.post(.reloaded)
        }
        if let admission {
            let extended = ConnectionAdmission(extending: admission, listeners: configuration.listeners.count)
            self.admission = extended
            sendToLoops(.listeners(open.layers, extended, closed: reloaded.closings))
        }
        sendToLoops(.settings(settings, tables, countdown))
        return failures
    }

    /// Lets clients in by what is new: every loop knows the settings of these listeners.
    private func letIn(by reloaded: ReloadedConfiguration) {
        guard !isStopping else { return }
        let places = reloaded.openings.map { (listener: $0.listener, place: open.places[$0.listener]) }
        for (index, loop) in loops.enumerated() {
            let sockets = places.flatMap { listener, place in
                place.sockets(ofLoop: index).map { (listener: $0, policy: listener) }
            }
            if !sockets.isEmpty { loop.mailbox.post(.open(sockets)) }
        }
        for (listener, place) in places {
            for socket in place.httpSockets {
                do throws(SystemError) {
                    try http?.serve(socket, policy: listener, layers: place.layers)
                } catch {
                    log.write(.error, "Error: \(error).")
                }
            }
        }
    }
}

/// Why a reload has changed nothing.
private struct ReloadRefusal: Error {
    /// Nil where there is no file.
    let findings: ConfigurationFindings?
}

/// One reload is under way at a time: those that are asked for meanwhile are one more, behind it.
struct ReloadQueue {
    typealias Done = (ConfigurationFindings?) -> Void

    private var ending: (() -> Void)?
    private var waiting: [Done] = []

    var isUnderWay: Bool { ending != nil }

    mutating func wait(_ done: @escaping Done) { waiting.append(done) }

    /// - Parameter end: what is to be done when it is in force.
    mutating func begin(_ end: @escaping () -> Void) { ending = end }

    /// Takes the call that is due now that the configuration is in force: nothing is under way any more.
    mutating func takeEnding() -> (() -> Void)? {
        defer { ending = nil }
        return ending
    }

    /// Takes the calls that wait for the next reload; nil for none.
    mutating func takeWaiting() -> [Done]? {
        defer { waiting = [] }
        return waiting.isEmpty ? nil : waiting
    }
}

extension ConfigurationFindings {
    fileprivate mutating func warn(_ message: String) {
        findings.append(Finding(isError: false, file: nil, line: nil, message: message))
    }
}
