import Administration
import BrokerCore
import Configuration
import EpollLoop
import Glibc
import Security
import Synchronization

/// What signals bring about. On the control thread.
extension Server {
    func handle(_ event: ControlEvent) {
        switch event {
        case .stop:
            stop()
            audit(signal: "SIGTERM or SIGINT", "stop")
        case .stopAtOnce(let signal): stopAtOnce(signal)
        case .stopOverdue: stopOverdue()
        case .reload:
            reload { [unowned self] findings in audit(signal: "SIGHUP", "reloadConfig", status: Self.status(of: findings)) }
        case .save:
            save()
            audit(signal: "SIGUSR1", "save")
        case .listSubscriptions: tellLoops(.listSubscriptions)
        case .reopenLogs:
            reopenLogs()
            audit(signal: "SIGRTMIN", "reopenLogs")
        case .watch: watch()
        }
    }

    /// Writes down what somebody has changed by a signal, as if the API had been asked for it.
    ///
    /// - Parameter status: what the API would have answered.
    private func audit(signal: String, _ operation: String, status: Int = 200) {
        let entry = AuditEntry(
            at: Self.moment().wallMilliseconds, source: .signal, who: nil, address: nil, operation: operation, target: signal,
            status: status, milliseconds: 0)
        if let administration { return administration.record(entry) }
        if let file = configuration.administration.auditFile { auditLog.write(entry.line, to: file) }
    }

    private static func status(of findings: ConfigurationFindings?) -> Int {
        guard let findings else { return 409 }
        return findings.hasErrors ? 422 : 200
    }

    func stop() {
        isStopping = true
        manager.stopping()
        log.write(.notice, "Stopping: disconnecting all clients; a second signal stops at once.")
        tellLoops(.stop(Farewell(loops: loops.count)))
    }

    private func stopAtOnce(_ signal: Int32) {
        log.write(.notice, "Second signal: stopping at once.")
        log.end(within: 200)
        identifierFile?.remove()
        _exit(128 + signal)
    }

    private func stopOverdue() {
        log.write(
            .error,
            "Error: Stopping has taken \(Limits.stopMillisecondsMax / 1000) s, most likely because the store's disk does not answer. Stopping "
                + "without it; what was acknowledged is kept.")
        log.end(within: 200)
        identifierFile?.remove()
        _exit(EXIT_FAILURE)
    }

    private func save() {
        guard let keeper else {
            log.write(.notice, "SIGUSR1: persistence is off, there is nothing to save.")
            return
        }
        log.write(.notice, keeper.savesAtOnce ? "SIGUSR1: all that was acknowledged is on the disk already." : "SIGUSR1: saving.")
        tellLoops(.save)
    }

    private func reopenLogs() {
        log.reopen()
        auditLog.reopen()
        log.write(.notice, "Log files reopened.")
    }

    /// Reads the configuration again and gives it to every loop. A broken one changes nothing.
    ///
    /// - Parameter done: told what was found, once every loop goes by it, or at once where nothing changes; nil where there is no file.
    func reload(_ done: @escaping (ConfigurationFindings?) -> Void) {
        manager.reloading()
        let result = reread?()
        guard applyReloaded(result) else {
            manager.ready("Serving")
            return done(result.map { ConfigurationFindings(unused: $0.diagnostics) })
        }
        if let result {
            note(result)
            reloadWaiters.append { done(ConfigurationFindings(result.diagnostics)) }
        }
    }

    /// Returns whether the loops will tell when the configuration is in force.
    private func applyReloaded(_ result: ConfigurationResult?) -> Bool {
        log.write(.information, "Reloading config.")
        log.reopen()
        auditLog.reopen()
        guard let result else {
            log.write(.notice, "There is no config file to reload.")
            return false
        }
        for diagnostic in result.diagnostics {
            log.write(diagnostic.severity == .error ? .error : .warning, "\(diagnostic)")
        }
        guard !result.hasErrors else {
            log.write(.error, "Error: The config was not reloaded because of these errors; the broker goes on as before.")
            return false
        }
        let reloaded = ReloadedConfiguration(running: configuration, wanted: result.configuration)
        fileRights.tell(reloaded.configuration, to: log)
        guard let tables = readTables(reloaded.configuration) else { return false }
        let plans: [PlannedBridge]
        let credentials: ClusterCredentials?
        do throws(ServerError) {
            plans = try Self.bridgePlans(reloaded.configuration)
            credentials = try newCredentials(reloaded.configuration)
        } catch {
            log.write(.error, "Error: \(error) The config was not reloaded; the broker goes on as before.")
            return false
        }
        do throws(ServerError) {
            try log.apply(result.configuration.logging)
        } catch {
            log.write(.error, "Error: \(error) The config was not reloaded; the broker goes on as before.")
            return false
        }
        bridges.renew(plans, reloaded.configuration, result.places)
        keepers.warn()
        if let credentials { renewCluster(credentials) }
        apply(reloaded, tables)
        tellBridges()
        return true
    }

    /// Reads the files of users, rules and keys again; nil when one of them is broken.
    private func readTables(_ configuration: BrokerConfiguration) -> SecurityTables? {
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
            for problem in error.problems { log.write(.error, "Error: \(problem)") }
            log.write(.error, "Error: The config was not reloaded because of these errors; the broker goes on as before.")
            return nil
        }
    }

    private func apply(_ reloaded: ReloadedConfiguration, _ tables: SecurityTables) {
        for warning in reloaded.warnings { log.write(.warning, "Warning: \(warning)") }
        for warning in tables.warnings { log.write(.warning, "Warning: \(warning)") }
        configuration = reloaded.configuration
        for (keys, security) in zip(keys, tables.listeners) { keys.exchange(security.preSharedKeys) }
        rereadCertificates()
        http?.apply(configuration, tables)
        bans?.apply(configuration.limits)
        renewAdministration()
        let settings = brokerSettings(log.topics, tables)
        // Whoever connects when this has been told finds the new settings on every loop.
        let countdown = Countdown(loops: loops.count) { [log, manager, mailbox = control.mailbox] in
            log.write(.notice, "Config reloaded.")
            manager.ready("Serving")
            mailbox.post(.reloaded)
        }
        tellLoops(.settings(settings, tables, countdown))
    }

    /// Tells the service manager that all is well, if every loop has answered since the last time.
    private func watch() {
        if loops.allSatisfy({ $0.heartbeat.load(ordering: .acquiring) == heartbeat }) { manager.isWell() }
        heartbeat += 1
        tellLoops(.heartbeat(heartbeat))
    }

    func tellLoops(_ letter: LoopLetter) {
        for loop in loops { loop.mailbox.post(letter) }
    }
}
