import Administration
import BrokerCore
import BrokerModel
public import Configuration
import Glibc
import HTTPServer
public import Persistence
public import Platform
import Security
import ServerLoops
public import Transports

/// Reading the configuration again while the broker runs. On the control thread.
///
///     read, check ─► open what is new ─► every loop goes by the new settings ─► clients are let in by what is new
///          │               │                 and lets go of what is closed            │
///          └───────┬───────┘                                                          ▼
///                  ▼                                                              answered
///      answered: nothing has changed
extension RunningBroker {
    /// Reads the configuration again and gives it to every loop. A broken one changes nothing.
    ///
    /// - Parameter done: told what was found, once every loop goes by it, or at once where nothing changes; nil where
    ///   there is no file.
    func reload(_ done: @escaping (ConfigurationFindings?) -> Void) {
        guard !reloads.isUnderWay else { return reloads.wait(done) }
        manager.reloading()
        let result = configuration.reread?()
        do throws(ReloadRefusal) {
            let reload = try apply(result)
            reloads.begin { [unowned self] in
                letIn(by: reload.changes)
                done(reload.findings)
                // The one who has asked may have come by one of these.
                for listener in reload.changes.closings { http.service.stop(listener: listener) }
            }
        } catch {
            manager.ready("Serving")
            done(error.findings)
        }
    }

    /// Reads the files of users, rules and keys again, and nothing else: what an administrator has changed in them is
    /// in force when `done` is called.
    ///
    /// - Parameter done: is told whether they can be read; else nothing changes.
    func rereadSecurityFiles(_ done: @escaping (Bool) -> Void) {
        guard !reloads.isUnderWay else {
            // What is under way has read them before the change. That they cannot be read then is for the next one.
            return reloads.wait { [unowned self] _ in rereadSecurityFiles { _ in done(true) } }
        }
        let tables: SecurityTables
        do throws(ServerError) {
            tables = try readTables(configuration.value)
        } catch {
            log.write(.error, "Error: \(error) The broker goes on as before.")
            return done(false)
        }
        listeners.exchangeKeys(tables)
        http.apply(configuration.value, tables, layers: listeners.layers)
        administration.endSessionsOfOtherRoles(at: Moment.now())
        reloads.begin { done(true) }
        let countdown = Countdown(loops: loops.count) { [mailbox = control.mailbox] in mailbox.post(.reloaded) }
        loops.send(.settings(settings(tables), tables, countdown))
    }

    /// Takes note that every loop goes by the configuration that was read last.
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
        let reloaded = ReloadedConfiguration(running: configuration.value, wanted: result.configuration)
        fileRights.report(reloaded.configuration, to: log)
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
        bridges.supervisor.renew(prepared.plans, reloaded.configuration, result.locations)
        documents.warn()
        if let credentials = prepared.credentials { cluster?.renew(credentials) }
        apply(reloaded, prepared, result.locations).forEach { findings.warn($0) }
        bridges.sendCommands()
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
        let opened: [(listener: Int, entry: OpenListeners.Entry)]
    }

    /// Throws what keeps a configuration from coming into force; then nothing has changed.
    private func prepare(_ reloaded: ReloadedConfiguration) throws(ServerError) -> Prepared {
        let prepared = Prepared(
            tables: try readTables(reloaded.configuration), plans: try BridgePlan.all(of: reloaded.configuration),
            credentials: try cluster?.newCredentials(reloaded.configuration), opened: try listeners.opening(reloaded))
        try log.apply(reloaded.configuration.logging)
        return prepared
    }

    /// Reads the files of users, rules and keys again.
    private func readTables(_ configuration: BrokerConfiguration) throws(ServerError) -> SecurityTables {
        do throws(SecurityFilesError) {
            let opened = documents.documents.count
            try documents.open(configuration)
            if cluster != nil, documents.documents.count > opened {
                log.write(
                    .warning,
                    "Warning: dynamic security that a reload has switched on is shared with the other nodes only after a restart."
                )
            }
            return try SecurityTables(
                reading: configuration, workers: workers, directories: documents.directories, services: services)
        } catch {
            throw .securityFiles(error)
        }
    }

    /// Puts a configuration in force, but does not accept clients on new listeners yet.
    ///
    /// - Returns: which certificates stay as they were.
    private func apply(
        _ reloaded: ReloadedConfiguration, _ prepared: Prepared, _ locations: ConfigurationLocations
    ) -> [String] {
        let (tables, opened) = (prepared.tables, prepared.opened)
        configuration.exchange(reloaded, locations: locations, at: Moment.now().wallMilliseconds)
        for listener in reloaded.closings {
            log.write(.notice, "Closing \(ListenerName.of(configuration.value.listeners[listener].endpoint)).")
        }
        listeners.take(opened)
        for line in opened.flatMap(\.entry.announcements) { log.write(.information, line) }
        listeners.exchangeKeys(tables)
        services.cache.clear()
        let failures = listeners.rereadCertificates(but: Set(opened.map(\.listener)))
        http.apply(configuration.value, tables, layers: listeners.layers)
        bans.apply(configuration.value.limits)
        renewAdministration()
        // Whoever connects when this has been told finds the new settings on every loop.
        let countdown = Countdown(loops: loops.count) { [log, manager, mailbox = control.mailbox] in
            log.write(.notice, "Config reloaded.")
            manager.ready("Serving")
            mailbox.post(.reloaded)
        }
        loops.send(.listeners(listeners.layers, listeners.admission, closed: reloaded.closings))
        loops.send(.settings(settings(tables), tables, countdown))
        return failures
    }

    /// Accepts clients on the new listeners: every loop knows their settings.
    private func letIn(by reloaded: ReloadedConfiguration) {
        guard !loops.isStopping else { return }
        let entries = reloaded.openings.map { (listener: $0.listener, entry: listeners.entries[$0.listener]) }
        for index in loops.all.indices {
            let sockets = entries.flatMap { listener, entry in
                entry.sockets(ofLoop: index).map { (listener: $0, policy: listener) }
            }
            if !sockets.isEmpty { loops.send(.open(sockets), to: index) }
        }
        for (listener, entry) in entries {
            for socket in entry.httpSockets {
                do throws(SystemError) {
                    try http.serve(socket, policy: listener, layers: entry.layers)
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

/// Runs one reload at a time: all that are asked for meanwhile become one more, behind it.
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

/// Why the broker cannot start.
public enum ServerError: Error, CustomStringConvertible {
    /// A listener cannot be opened; its index in the configuration.
    case listener(Int, ListenError)
    case system(SystemError)
    /// A listener's certificates, keys or ciphers cannot be used; its index in the configuration.
    case transportSecurity(Int, TLSFailure)
    case securityFiles(SecurityFilesError)
    /// A bridge cannot be run as it is configured; the reason is a sentence without the last full stop.
    case bridge(name: String, reason: String)
    /// A bridge's certificates, keys or ciphers cannot be used. The broker starts without this bridge.
    case bridgeSecurity(name: String, TLSFailure)
    /// The cluster cannot be joined as it is configured; the reason is a sentence without the last full stop.
    case cluster(option: String, reason: String)
    /// A log file cannot be opened, and the reason, as sentences without the last full stop.
    case logFile(path: String, reason: String)
    case processIdentifierFile(path: String, reason: String)
    /// The user that the broker is to become does not exist.
    case unknownUser(String)
    /// The kernel did not let the broker become that user.
    case privileges(user: String, operation: String, errno: Int32)
    /// What the broker is to remember cannot be read or written.
    case store(StoreError)
    /// The store's directory is not there, or not open to the user that the broker runs as.
    case storeDirectory(path: String, reason: String)
    /// mosquitto's database is there, and cannot be taken over.
    case mosquittoDatabase(path: String, reason: String)
    /// The process could not go to the background.
    case daemon(errno: Int32)

    public var description: String {
        switch self {
        case .listener(_, let error): error.advice
        case .system(let error): "\(error)"
        case .transportSecurity(_, let failure): "\(failure)"
        case .securityFiles(let error): "\(error)"
        case .bridge(let name, let reason): "bridge \(name): \(reason)"
        case .bridgeSecurity(let name, let failure):
            "bridge \(name): \(failure.bridgeOption.map { "\($0): " } ?? "")\(failure.explanation)"
        case .cluster(let option, let reason): "\(option): \(reason)"
        case .logFile(let path, let reason): "\(LogFileError(path: path, reason: reason))"
        case .processIdentifierFile(let path, let reason): "Unable to write pid file \(FullPath.of(path)): \(reason)."
        case .unknownUser(let name):
            "Unable to drop privileges to '\(name)' because this user does not exist. Make it: useradd --system --no-create-home "
                + "--shell /usr/sbin/nologin \(name)"
        case .privileges(let user, let operation, let number):
            "Unable to drop privileges to '\(user)': \(operation): \(Self.reason(number))."
        case .store(let error): "\(error)"
        case .storeDirectory(let path, let reason): "\(path) cannot be used: \(reason)"
        case .mosquittoDatabase(let path, let reason):
            "\(path) cannot be imported: \(reason). Move it away, or name another persistence_file, to start without it"
        case .daemon(let number): "Unable to run in the background: \(Self.reason(number))."
        }
    }

    /// The diagnostics of the error, with the lines that are to blame.
    ///
    /// - Parameter result: what the broker was to be started with.
    /// - Returns: one error for each thing that is wrong.
    public func diagnostics(in result: ConfigurationResult) -> [Diagnostic] {
        if case .bridgeSecurity(let name, let failure) = self { return [Self.diagnostic(failure, ofBridge: name, in: result)] }
        if case .securityFiles(let error) = self { return error.problems.map { $0.diagnostic(in: result) } }
        var remark = StartRemark(message: "\(self)")
        switch self {
        case .listener(let index, let error):
            remark.listener = index
            if case .refused(_, let refusal) = error, refusal.errno == ENODEV {
                remark.option = "bind_interface"
                let name = result.configuration.listeners[index].interface ?? ""
                remark.message = "\(name): \(remark.message)"
            }
        case .transportSecurity(let index, let failure):
            (remark.listener, remark.option) = (index, failure.option)
            // Of options that have several lines the one that names the file.
            if ["martlet_certificate", "martlet_tls_ticket_key_file"].contains(failure.option) { remark.value = failure.value }
            remark.message = failure.explanation
        case .bridge(let name, let reason):
            (remark.option, remark.value) = ("connection", name)
            remark.message = reason
        case .cluster(let option, let reason): (remark.option, remark.message) = (option, reason)
        case .logFile(let path, _): (remark.option, remark.value) = ("log_dest", path)
        case .processIdentifierFile: remark.option = "pid_file"
        case .unknownUser, .privileges: remark.option = "user"
        case .storeDirectory: remark.option = "persistence_location"
        case .mosquittoDatabase:
            remark.option = result.locations.line(of: "persistence_file") == nil ? "persistence" : "persistence_file"
        case .system, .securityFiles, .bridgeSecurity, .store, .daemon: break
        }
        if !remark.message.hasSuffix(".") { remark.message += "." }
        return [remark.diagnostic(.error, in: result)]
    }

    /// At the option's line in the section of the bridge. It is a warning: the broker does without the bridge.
    private static func diagnostic(_ failure: TLSFailure, ofBridge name: String, in result: ConfigurationResult) -> Diagnostic {
        let locations = result.locations
        let line = locations.lines(ofBridge: name).last { $0.name == failure.bridgeOption } ?? locations.opening(ofBridge: name)
        return Diagnostic(
            severity: .warning, at: line, in: locations,
            message: "\(failure.explanation). The broker starts without the bridge \(name).")
    }

    /// Why a file cannot be written: the obstacle that is found there, or else the kernel's words.
    static func reason(for error: SystemError, writing path: String) -> String {
        FileAccess.obstacle(toWriting: path)?.advice() ?? error.reason
    }

    private static func reason(_ number: Int32) -> String { SystemError(errno: number, operation: "").reason }
}

extension TLSFailure {
    /// The option as the section of a bridge has it; nil where the failure is of none.
    var bridgeOption: String? {
        switch option {
        case "TLS": nil
        case "tls-alpn": "bridge_alpn"
        default: "bridge_\(option)"
        }
    }

    /// Says what is wrong, without the option's name, as sentences without the last full stop.
    var explanation: String {
        guard !value.isEmpty else { return reason }
        let isFile = [
            "certfile", "keyfile", "cafile", "capath", "crlfile", "dhparamfile", "martlet_certificate", "martlet_ocsp_file",
            "martlet_tls_ticket_key_file",
        ].contains(option)
        guard isFile else { return "\(value): \(reason)" }
        return FileAdvice.obstacle(toReading: value)?.advice() ?? "\(FullPath.of(value)): \(reason)"
    }
}
