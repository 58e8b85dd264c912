public import EpollLoop
import Glibc
public import Transports

/// Why the broker cannot start.
public enum ServerError: Error, CustomStringConvertible {
    case listener(ListenError)
    case system(SystemError)
    /// A listener's certificates, keys or ciphers cannot be used.
    case transportSecurity(TLSFailure)
    case securityFiles(SecurityFilesError)
    case logFile(path: String, SystemError)
    case processIdentifierFile(path: String, SystemError)
    /// The user that the broker is to become does not exist.
    case unknownUser(String)
    /// The kernel did not let the broker become that user.
    case privileges(user: String, operation: String, errno: Int32)
    /// The process could not go to the background.
    case daemon(errno: Int32)

    public var description: String {
        switch self {
        case .listener(let error): "\(error)"
        case .system(let error): "\(error)"
        case .transportSecurity(let failure): "\(failure)"
        case .securityFiles(let error): "\(error)"
        case .logFile(let path, let error): "Unable to open log file \(path) for writing: \(error.reason)."
        case .processIdentifierFile(let path, let error): "Unable to write pid file \(path): \(error.reason)."
        case .unknownUser(let name): "Unable to drop privileges to '\(name)' because this user does not exist."
        case .privileges(let user, let operation, let number):
            "Unable to drop privileges to '\(user)': \(operation): \(Self.reason(number))."
        case .daemon(let number): "Unable to go on in the background: \(Self.reason(number))."
        }
    }

    private static func reason(_ number: Int32) -> String { SystemError(errno: number, operation: "").reason }
}
