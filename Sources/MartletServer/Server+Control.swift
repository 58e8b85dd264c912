import Administration
import BrokerCore
import BrokerModel
import Configuration
import EpollLoop
import Glibc
import Security
import ServerLoops
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
        case .listSubscriptions: sendToLoops(.listSubscriptions)
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
        sendToLoops(.stop(ShutdownBarrier(loops: loops.count)))
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
        sendToLoops(.save)
    }

    private func reopenLogs() {
        log.reopen()
        auditLog.reopen()
        log.write(.notice, "Log files reopened.")
    }

    /// Tells the service manager that all is well, if every loop has answered since the last time.
    private func watch() {
        if loops.allSatisfy({ $0.heartbeat.load(ordering: .acquiring) == heartbeat }) { manager.isWell() }
        heartbeat += 1
        sendToLoops(.heartbeat(heartbeat))
    }

    func sendToLoops(_ message: LoopMessage) {
        for loop in loops { loop.mailbox.post(message) }
    }
}
