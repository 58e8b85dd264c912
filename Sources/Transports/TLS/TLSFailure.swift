/// Why a listener's or a client's TLS cannot be set up: the option, its file or value, and the reason.
public struct TLSFailure: Error, Sendable, Equatable {
    /// As the configuration names it, such as `certfile`.
    public let option: String
    public let value: String
    public let reason: String
}

extension TLSFailure: CustomStringConvertible {
    /// `certfile /etc/martlet/cert.pem: No such file or directory`.
    public var description: String { value.isEmpty ? "\(option): \(reason)" : "\(option) \(value): \(reason)" }
}
