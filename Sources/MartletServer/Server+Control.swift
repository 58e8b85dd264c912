import BrokerCore
import Configuration
import EpollLoop
import Glibc
import Synchronization

/// What signals bring about. On the control thread.
extension Server {
    func handle(_ event: ControlEvent) {
        switch event {
        case .stop: stop()
        case .stopAtOnce(let signal): stopAtOnce(signal)
        case .reload: reload()
        case .save: log.write(.notice, "SIGUSR1: persistence is off, there is nothing to save.")
        case .listSubscriptions: tellLoops(.listSubscriptions)
        case .reopenLogs: reopenLogs()
        case .watch: watch()
        }
    }

    private func stop() {
        manager.stopping()
        log.write(.notice, "Saying goodbye to all clients; a second signal ends at once.")
        tellLoops(.stop)
    }

    private func stopAtOnce(_ signal: Int32) {
        log.write(.notice, "Second signal: ending at once.")
        log.end(within: 200)
        identifierFile?.remove()
        _exit(128 + signal)
    }

    private func reopenLogs() {
        log.reopen()
        log.write(.notice, "Log files are opened anew.")
    }

    /// Reads the configuration again and gives it to every loop. A broken one changes nothing.
    private func reload() {
        manager.reloading()
        defer { manager.ready("Serving") }
        log.write(.information, "Reloading config.")
        log.reopen()
        guard let reread else {
            log.write(.notice, "There is no config file to read again.")
            return
        }
        let result = reread()
        for diagnostic in result.diagnostics {
            log.write(diagnostic.severity == .error ? .error : .warning, "\(diagnostic)")
        }
        guard !result.hasErrors else {
            log.write(.error, "Error: The config was not reloaded because of these errors; the broker goes on as before.")
            return
        }
        do throws(ServerError) {
            try log.apply(result.configuration.logging)
        } catch {
            log.write(.error, "Error: \(error) The config was not reloaded; the broker goes on as before.")
            return
        }
        apply(result.configuration)
        log.write(.notice, "Config reloaded.")
    }

    private func apply(_ wanted: BrokerConfiguration) {
        let reloaded = ReloadedConfiguration(running: configuration, wanted: wanted)
        for warning in reloaded.warnings { log.write(.warning, "Warning: \(warning)") }
        configuration = reloaded.configuration
        rereadCertificates()
        tellLoops(.settings(BrokerSettings(configuration, log: log.topics)))
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
