public import EpollLoop
public import Transports

/// Why the broker cannot start.
public enum ServerError: Error, CustomStringConvertible {
    case listener(ListenError)
    case system(SystemError)

    public var description: String {
        switch self {
        case .listener(let error): "\(error)"
        case .system(let error): "\(error)"
        }
    }
}
