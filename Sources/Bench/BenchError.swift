internal import Glibc
public import Platform
public import Transports

/// Why there is no result.
public enum BenchError: Error, Sendable {
    /// The options contradict each other.
    case options(String)
    /// The host has no address.
    case unresolved(ResolutionError)
    /// The files for TLS cannot be used.
    case tls(TLSFailure)
    /// The kernel refused.
    case system(SystemError)
    /// No connection to the broker can be made: host and port as they were given, and the kernel's reason.
    case unreachable(broker: String, SystemError)
    /// The file of a report cannot be written.
    case file(String)
    /// The broker is not there, or does not let us in.
    case connections(String)
}

extension BenchError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .options(let text), .connections(let text), .file(let text): text
        case .unreachable(let broker, let error):
            "Cannot connect to \(broker): \(error.reason). \(Self.remedy(error.errno, broker))"
        case .unresolved(let error): "\(error)"
        case .tls(let failure): "\(failure)"
        case .system(let error): "\(error)"
        }
    }

    private static func remedy(_ number: Int32, _ broker: String) -> String {
        switch number {
        case ECONNREFUSED: "Nothing listens there; start a broker (martlet), or name another with --host and --port."
        case ETIMEDOUT: "Nobody answers; is the host right, and does a firewall let the port through?"
        case ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL: "Is the host right, and is this machine on its network?"
        case EMFILE, ENFILE: "Too many files are open; raise the limit with ulimit -n."
        default: "Name the broker with --host and --port."
        }
    }
}
