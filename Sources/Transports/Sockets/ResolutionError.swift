internal import Glibc

/// A host name that has no address, and why.
public struct ResolutionError: Error, Sendable, Equatable {
    public let host: String
    /// What `getaddrinfo` answered, such as EAI_NONAME.
    public let code: Int32
}

extension ResolutionError: CustomStringConvertible {
    /// `broker.example: Name or service not known`.
    public var description: String {
        "\(host): \(reason)"
    }

    /// `Name or service not known`.
    public var reason: String { gai_strerror(code).map { String(cString: $0) } ?? "error \(code)" }
}
