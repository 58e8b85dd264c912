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
    /// The broker is not there, or does not let us in.
    case connections(String)
}

extension BenchError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .options(let text), .connections(let text): text
        case .unresolved(let error): "\(error)"
        case .tls(let failure): "\(failure)"
        case .system(let error): "\(error)"
        }
    }
}
