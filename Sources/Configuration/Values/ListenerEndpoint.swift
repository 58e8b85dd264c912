/// Where a listener listens.
public enum ListenerEndpoint: Sendable, Hashable {
    /// A port of `host`, or of every address when that is nil.
    case tcp(port: UInt16, host: String?)
    /// A port of 127.0.0.1 and, where there is IPv6, of ::1.
    case loopback(port: UInt16)
    case unixSocket(path: String)
}
