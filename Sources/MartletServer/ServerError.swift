import Glibc
public import Persistence
public import Platform
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
    /// What the broker is to remember cannot be read or written.
    case store(StoreError)
    /// The store's directory is not there, or not open to the user that the broker runs as.
    case storeDirectory(path: String, errno: Int32, user: UInt32)
    /// mosquitto's database is there, and cannot be taken over.
    case mosquittoDatabase(path: String, reason: String)
    /// The process could not go to the background.
    case daemon(errno: Int32)

    public var description: String {
        switch self {
        case .listener(let error): "\(error)"
        case .system(let error): "\(error)"
        case .transportSecurity(let failure): "\(failure)"
        case .securityFiles(let error): "\(error)"
        case .logFile(let path, let error): "Unable to open log file \(path) for writing: \(Self.words(for: error))."
        case .processIdentifierFile(let path, let error): "Unable to write pid file \(path): \(Self.words(for: error))."
        case .unknownUser(let name): "Unable to drop privileges to '\(name)' because this user does not exist."
        case .privileges(let user, let operation, let number):
            "Unable to drop privileges to '\(user)': \(operation): \(Self.reason(number))."
        case .store(let error): "\(error)"
        case .storeDirectory(let path, let number, let user):
            "persistence_location: \(path) cannot be used: \(Self.reason(number)). It has to be a directory that the user with the "
                + "number \(user), as whom the broker runs, may write to"
        case .mosquittoDatabase(let path, let reason):
            "\(path) cannot be taken over: \(reason). Move it away, or name another persistence_file, to start without it"
        case .daemon(let number): "Unable to go on in the background: \(Self.reason(number))."
        }
    }

    /// See `WrittenFile`.
    private static func words(for error: SystemError) -> String {
        guard error.errno == ELOOP else { return error.reason }
        return "it is a symbolic link in a directory that is not root's alone, which root does not follow; name the file itself"
    }

    private static func reason(_ number: Int32) -> String { SystemError(errno: number, operation: "").reason }
}
