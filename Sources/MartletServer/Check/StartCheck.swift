import ClusterGateway
public import Configuration
import Glibc
import Persistence
import Platform
import Security
import ServerLoops
import Transports

/// Tries all that a start needs, and does none of it: no file is made, emptied or given away, no port is listened on,
/// no store opened.
///
/// What only root can do is tried with the rights that the process has; what the broker does after it has become the
/// user that `user` names, with that user's. If root checks the configuration of an installed service, all but the
/// opening of ports is tried with the rights of the service's user.
public struct StartCheck {
    /// What keeps the broker from starting, and what its operator should know: each once.
    public private(set) var diagnostics: [Diagnostic] = []
    private let result: ConfigurationResult
    /// The installed service that runs the broker with this configuration; nil if there is none, or this is its user
    /// already.
    private let service: ServiceUnit?
    /// The service's user, with whose rights root checks from the first file on; nil without such a service.
    private let serviceUser: Privileges.User?
    private var configuration: BrokerConfiguration { result.configuration }

    /// Looks at everything that a configuration names.
    ///
    /// - Parameters:
    ///   - result: what was read.
    ///   - file: where from, nil for nowhere.
    ///   - keyLogFile: where the secrets of TLS connections would go.
    public init(_ result: ConfigurationResult, file: String?, keyLogFile: String?) {
        self.result = result
        service = geteuid() == 0 ? file.flatMap { ServiceUnit.running($0) } : nil
        serviceUser = service.flatMap { Privileges.other(named: $0.userName) }
        // Of a file that cannot be read nothing is known, and the defaults are not what is wanted.
        guard !result.hasErrors || !result.locations.lines.isEmpty || result.locations.file == nil else { return }
        checkServiceUser()
        asService {
            $0.checkConfigurationFiles()
            $0.checkLogFiles()
            $0.checkSecurityFiles()
            $0.checkCertificates()
            $0.checkBridges()
            $0.checkCluster()
            if let keyLogFile, let obstacle = FileAccess.obstacle(toWriting: keyLogFile) {
                $0.add(Diagnostic(severity: .error, file: "", option: "--tls-keylog", message: "\(obstacle.advice())."))
            }
        }
        checkListeners(file)
        asService { $0.checkIdentifierFile() }
        checkFileRights()
        checkAsUser()
    }

    /// Whether the broker would not start.
    public var hasErrors: Bool { diagnostics.contains { $0.severity == .error } }

    // MARK: As who starts it

    /// With the rights of the service's user where there is a service, else with those of this process.
    private mutating func asService(_ check: (inout StartCheck) -> Void) {
        guard let serviceUser else { return check(&self) }
        let acted: Void? = Privileges.acting(as: serviceUser) { check(&self) }
        if acted == nil { check(&self) }
    }

    private mutating func checkServiceUser() {
        guard let service, service.userName != "root", serviceUser == nil else { return }
        add(
            Diagnostic(
                severity: .error, file: "", option: service.name,
                message: "the service runs as the user \(service.userName) (User=), whom there is not on this machine."))
    }

    /// Root has read them; the service reads them itself.
    private mutating func checkConfigurationFiles() {
        guard serviceUser != nil, let main = result.locations.file else { return }
        var files = [main]
        for line in result.locations.lines where !files.contains(line.file) { files.append(line.file) }
        for file in files {
            guard let obstacle = FileAccess.obstacle(toReading: file) else { continue }
            add(Diagnostic(severity: .error, file: FullPath.of(file), message: "\(obstacle.advice())."))
        }
    }

    private mutating func checkLogFiles() {
        for case .file(let path) in configuration.logging.destinations {
            guard let obstacle = FileAccess.obstacle(toWriting: path) else { continue }
            add(.logFile(path: path, reason: obstacle.advice()))
        }
    }

    private mutating func checkSecurityFiles() {
        let workers = WorkerPool(name: "martlet-check", threads: 1, queue: 0)
        defer { workers.stop() }
        let problems = SecurityDocuments.problems(opening: configuration)
        if !problems.isEmpty { add(.securityFiles(SecurityFilesError(problems: problems))) }
        do throws(SecurityFilesError) {
            let services = ServiceAccess()
            defer { services.stop() }
            let tables = try SecurityTables(reading: configuration, workers: workers, services: services)
            for warning in tables.warnings { add(warning.diagnostic(in: result)) }
        } catch {
            add(.securityFiles(error))
        }
    }

    private mutating func checkCertificates() {
        for (index, listener) in configuration.listeners.enumerated() {
            guard let settings = TLSSettings(listener, keyLogFile: nil, preSharedKey: { _ in nil }) else { continue }
            do throws(TLSFailure) {
                for remark in try TLSContext(settings).remarks {
                    let remark = StartRemark(option: remark.option, listener: index, message: "\(remark.explanation).")
                    add(remark.diagnostic(.warning, in: result))
                }
            } catch {
                add(.transportSecurity(index, error))
            }
        }
    }

    /// All that is wrong with any of them, where a start would stop at the first.
    private mutating func checkBridges() {
        var plans: [BridgePlan] = []
        for bridge in configuration.bridges {
            // What the reader has said of a bridge is not said again.
            guard !bridge.addresses.isEmpty else { continue }
            do throws(ServerError) {
                let plan = try BridgePlan(bridge, in: configuration)
                if let error = BridgePlan.clash(of: plan, with: plans) { throw error }
                plans.append(plan)
            } catch {
                add(error)
            }
        }
    }

    private mutating func checkCluster() {
        do throws(ServerError) {
            _ = try ClusterPlan(configuration)
        } catch {
            add(error)
        }
    }

    /// A port that a running broker of the same configuration has is no news: whoever checks before a reload knows.
    private mutating func checkListeners(_ file: String?) {
        for (index, listener) in configuration.listeners.enumerated() where !listener.isDispensable {
            if checkNeighbours(index) { continue }
            guard let error = ListenerPlan.address(of: listener).obstacle() else { continue }
            let holder = error.holder
            if let holder, let file, holder.isServing(file) { continue }
            if let holder, holder.isMartlet, case .refused(let address, _) = error {
                // A draft is checked beside the broker that it is for; what that one holds is free when it has ended.
                let message =
                    "\(address) is in use by \(holder.words), which runs already: a broker starts with this configuration when that one has "
                    + "ended."
                add(StartRemark(listener: index, message: message).diagnostic(.warning, in: result))
                continue
            }
            guard let holder, holder.processIdentifier == nil else {
                add(.listener(index, error))
                continue
            }
            // Another user's process is not shown to us, and it may be this very broker.
            let message = "\(error.advice). If it is this broker, which runs already, all is well."
            add(StartRemark(listener: index, message: message).diagnostic(.warning, in: result))
        }
    }

    /// Whether a listener before this one takes its address: each address can be bound while nobody listens, and not
    /// any more at the start.
    private mutating func checkNeighbours(_ index: Int) -> Bool {
        let address = ListenerPlan.address(of: configuration.listeners[index])
        let neighbour = configuration.listeners[..<index].firstIndex { ListenerPlan.address(of: $0).collides(with: address) }
        guard let neighbour else { return false }
        let line = result.locations.opening(ofListener: neighbour).map { " (\($0.file):\($0.line))" } ?? ""
        let message =
            "\(ListenerName.of(configuration.listeners[index].endpoint)) is in the place of "
            + "\(ListenerName.of(configuration.listeners[neighbour].endpoint))\(line). Remove one of them, or give this listener another port."
        add(StartRemark(listener: index, message: message).diagnostic(.error, in: result))
        return true
    }

    private mutating func checkIdentifierFile() {
        guard let path = configuration.general.processIdentifierFile, let obstacle = FileAccess.obstacle(toWriting: path) else {
            return
        }
        add(.processIdentifierFile(path: path, reason: obstacle.advice()))
    }

    // MARK: As the user that it becomes

    /// What the broker's user may not read is an error where it is known who that is: by the service, or a line `user`.
    /// A broker that root starts does read it once; its next reload fails.
    private mutating func checkFileRights() {
        let isNamed = service != nil || result.locations.line(of: "user") != nil
        let rights = serviceUser.map { FileRights(of: $0.name) } ?? FileRights(becoming: configuration.general.userName)
        for remark in rights.remarks(on: configuration) {
            // Who cannot read a file to start with has heard of it.
            guard diagnostics.allSatisfy({ $0.option != remark.option || $0.severity == .warning }) else { continue }
            var remark = remark
            remark.message = "\(remark.value ?? ""): \(remark.message)."
            add(remark.diagnostic(isNamed ? .error : .warning, in: result))
        }
        guard let service, serviceUser != nil else { return }
        for (option, path) in FileRights.files(of: configuration) {
            guard let reason = service.blindness(for: path) else { continue }
            add(StartRemark(option: option, value: path, message: "\(reason).").diagnostic(.error, in: result))
        }
    }

    private mutating func checkAsUser() {
        let user: Privileges.User?
        var warnings: [String] = []
        do throws(ServerError) {
            // A service that is not root's does not become anybody.
            if let serviceUser {
                user = serviceUser
            } else {
                user = try Privileges.user(named: configuration.general.userName) { warnings.append($0) }
            }
        } catch {
            add(error)
            return
        }
        for warning in warnings {
            add(StartRemark(option: "user", message: warning).diagnostic(.warning, in: result))
        }
        guard let user else {
            addSavingWarnings(savingWarnings)
            return checkStore()
        }
        let found = Privileges.acting(as: user) { (storeObstacle, takeoverFailure, savingWarnings) }
        addSavingWarnings(found?.2 ?? [])
        if let obstacle = found?.0 { addStore(obstacle, user: user.user) } else if let failure = found?.1 { add(failure) }
    }

    private mutating func checkStore() {
        if let obstacle = storeObstacle {
            addStore(obstacle, user: geteuid())
        } else if let failure = takeoverFailure {
            add(failure)
        }
    }

    /// Of the files of dynamic security that are there: why nothing can be saved to them.
    private var savingWarnings: [(path: String, message: String)] {
        let paths = Set(configuration.listeners.compactMap(\.security.dynamicSecurityFile)).sorted()
        return paths.filter { FileAccess.obstacle(toReading: $0) == nil }.compactMap { path in
            SecurityDocuments.warning(onSaving: path).map { (path, $0) }
        }
    }

    private mutating func addSavingWarnings(_ warnings: [(path: String, message: String)]) {
        for warning in warnings {
            let remark = StartRemark(option: "plugin_opt_config_file", value: warning.path, message: warning.message)
            add(remark.diagnostic(.warning, in: result))
        }
    }

    private var takeoverFailure: ServerError? {
        let persistence = configuration.persistence
        guard persistence.isEnabled else { return nil }
        return MosquittoTakeover(persistence).obstacle
    }

    private var storeObstacle: FileObstacle? {
        guard configuration.persistence.isEnabled else { return nil }
        return StoreRights.obstacle(to: configuration.persistence.location ?? ".")
    }

    private mutating func addStore(_ obstacle: FileObstacle, user: uid_t) {
        let path = FullPath.of(configuration.persistence.location ?? ".")
        add(.storeDirectory(path: path, reason: obstacle.advice(for: user)))
    }

    // MARK: -

    private mutating func add(_ error: ServerError) {
        for diagnostic in error.diagnostics(in: result) { add(diagnostic) }
    }

    private mutating func add(_ diagnostic: Diagnostic) {
        if !diagnostics.contains(diagnostic) { diagnostics.append(diagnostic) }
    }
}

/// A systemd service of this machine that runs a broker: as whom, and with which configuration.
public struct ServiceUnit: Sendable, Equatable {
    /// `martlet.service`.
    public let name: String
    /// `User=`; root where the unit names nobody.
    public let userName: String
    /// What `-c` names in `ExecStart=`.
    let configurationFile: String
    /// `ProtectHome=yes`: the service sees nothing of the users' directories.
    let hidesHomes: Bool

    /// The installed service whose command names a configuration file; nil when none does.
    ///
    /// - Parameters:
    ///   - file: as it is named on the command line.
    ///   - root: what stands before the directories of systemd; empty on a machine.
    public static func running(_ file: String, root: String = "") -> ServiceUnit? {
        guard let wanted = resolved(file) else { return nil }
        return installed(root: root).first { resolved($0.configurationFile) == wanted }
    }

    /// The services of this machine that are called martlet, or martlet with something behind.
    public static func installed(root: String = "") -> [ServiceUnit] {
        let places = directories.map { root + $0 }
        var names: [String] = []
        for place in places {
            for name in self.names(in: place) where isOurs(name) && !names.contains(name) { names.append(name) }
        }
        return names.compactMap { ServiceUnit(name: $0, lines: lines(of: $0, in: places)) }
    }

    /// Where systemd looks, the first first.
    private static let directories = [
        "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ]

    /// In the order of systemd; none of a directory that is not there.
    private static func names(in directory: String) -> [String] {
        ((try? DiskFiles().names(inDirectory: directory)) ?? []).sorted()
    }

    private static func isOurs(_ name: String) -> Bool {
        name.hasSuffix(".service") && name.hasPrefix("martlet") && !name.hasSuffix("@.service")
    }

    /// A unit's lines, and those that its drop-ins add: the directory that comes first has its file.
    private static func lines(of name: String, in places: [String]) -> [Substring] {
        let candidates: [String] = places.map { "\($0)/\(name)" }
        guard let main = candidates.first(where: { FileAccess.obstacle(toReading: $0) == nil }) else { return [] }
        var files = [main]
        var added: Set<String> = []
        for place in places {
            for dropIn in names(in: "\(place)/\(name).d") where dropIn.hasSuffix(".conf") {
                if added.insert(dropIn).inserted { files.append("\(place)/\(name).d/\(dropIn)") }
            }
        }
        return files.flatMap { file -> [Substring] in
            guard let bytes = try? WholeFile.bytes(of: file, bytesMax: Limits.unitFileBytesMax) else { return [] }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        }
    }

    /// nil for a service without a command that names a configuration.
    init?(name: String, lines: [Substring]) {
        var values: [Substring: Substring] = [:]
        for line in lines {
            guard let sign = line.firstIndex(of: "="), line.first != "#", line.first != ";" else { continue }
            // An empty value takes back what stood before; of several commands the last one runs the broker.
            values[line[..<sign]] = line[line.index(after: sign)...]
        }
        let words = values["ExecStart"]?.split(separator: " ") ?? []
        guard let option = words.lastIndex(where: { $0 == "-c" || $0 == "--config-file" }), option + 1 < words.count else {
            return nil
        }
        self.name = name
        configurationFile = String(words[option + 1])
        userName = values["User"].flatMap { $0.isEmpty ? nil : String($0) } ?? "root"
        hidesHomes = ["yes", "true", "on", "1", "tmpfs"].contains(values["ProtectHome"] ?? "")
    }

    /// Why the service does not see a file that is there, as a sentence without its full stop; nil when it does.
    func blindness(for path: String) -> String? {
        let path = Self.resolved(path) ?? FullPath.of(path)
        guard hidesHomes, ["/home/", "/root/", "/run/user/"].contains(where: path.hasPrefix) else { return nil }
        return "the service \(name) does not see \(path) (ProtectHome=yes): put a copy into /etc/martlet and name that"
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// Whether the user that the process is now may work with a store.
enum StoreRights {
    /// Finds what is in the way of the store in a directory; nil when nothing is. Nothing is opened.
    static func obstacle(to directory: String) -> FileObstacle? {
        if let obstacle = FileAccess.obstacle(toMakingFilesIn: directory) { return obstacle }
        return SQLiteStore.paths(in: directory).lazy.compactMap { FileAccess.obstacle(toWriting: $0) }.first
    }
}

/// Something that keeps a broker from starting, or that its operator should know, with what it is about: an option, and
/// a listener.
struct StartRemark {
    /// The option whose line is meant, nil for none.
    var option: String?
    /// The listener's index in the configuration, nil for the whole broker.
    var listener: Int?
    /// What the line's value ends with, where there may be several lines.
    var value: String?
    /// One or several sentences.
    var message: String

    /// With the location of the line that is meant.
    func diagnostic(_ severity: Diagnostic.Severity, in result: ConfigurationResult) -> Diagnostic {
        let locations = result.locations
        if let option, let line = locations.line(of: option, listener: listener, value: value) {
            return Diagnostic(severity: severity, at: line, in: locations, message: message)
        }
        // The plug-ins for files name them by options of their own.
        if let option, let line = locations.line(of: "plugin_opt_\(option)", value: value) {
            return Diagnostic(severity: severity, at: line, in: locations, message: message)
        }
        if option == nil || option == "listener", let listener, let line = locations.opening(ofListener: listener) {
            return Diagnostic(severity: severity, at: line, in: locations, message: message)
        }
        var diagnostic = Diagnostic(severity: severity, at: nil, in: locations, message: message)
        diagnostic.option = option
        if let listener, result.configuration.listeners.indices.contains(listener), option == nil || option == "listener" {
            diagnostic.option = ListenerName.of(result.configuration.listeners[listener].endpoint)
        }
        return diagnostic
    }
}

extension Limits {
    /// The longest file of a systemd unit that is looked at, in bytes; a longer one is taken for none.
    static let unitFileBytesMax = 1 << 20
}
