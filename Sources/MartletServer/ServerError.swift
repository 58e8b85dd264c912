public import Configuration
import Glibc
public import Persistence
public import Platform
import ServerLoops
public import Transports

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
            remark.option = result.places.line(of: "persistence_file") == nil ? "persistence" : "persistence_file"
        case .system, .securityFiles, .bridgeSecurity, .store, .daemon: break
        }
        if !remark.message.hasSuffix(".") { remark.message += "." }
        return [remark.diagnostic(.error, in: result)]
    }

    /// At the option's line in the section of the bridge. It is a warning: the broker does without the bridge.
    private static func diagnostic(_ failure: TLSFailure, ofBridge name: String, in result: ConfigurationResult) -> Diagnostic {
        let places = result.places
        let line = places.lines(ofBridge: name).last { $0.name == failure.bridgeOption } ?? places.opening(ofBridge: name)
        return Diagnostic(
            severity: .warning, at: line, in: places,
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
        let isFile = ["certfile", "keyfile", "cafile", "capath", "crlfile", "dhparamfile"].contains(option)
        guard isFile else { return "\(value): \(reason)" }
        return FileAdvice.obstacle(toReading: value)?.advice() ?? "\(FullPath.of(value)): \(reason)"
    }
}
