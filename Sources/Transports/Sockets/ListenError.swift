public import Platform

/// Why a listener could not be opened.
public enum ListenError: Error, Sendable {
    /// The host has no address.
    case unresolved(ResolutionError)
    /// The kernel refused this address: it is in use, not ours, or reserved for root.
    case refused(SocketAddress, SystemError)
}

extension ListenError: CustomStringConvertible {
    /// `127.0.0.1:1883: bind: Address already in use`.
    public var description: String {
        switch self {
        case .unresolved(let error): error.description
        case .refused(let address, let error): "\(address): \(error)"
        }
    }
}
