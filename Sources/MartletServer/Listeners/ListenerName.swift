import Configuration

/// What messages call a listener: the line that opens it.
enum ListenerName {
    static func of(_ endpoint: ListenerEndpoint) -> String {
        switch endpoint {
        case .tcp(let port, let host): "listener \(port)\(host.map { " \($0)" } ?? "")"
        case .loopback(let port): "listener \(port)"
        case .unixSocket(let path): "listener 0 \(path)"
        }
    }

    /// What the store calls a listener: the place where it listens. Two that a reload takes for the same have the same.
    static func identity(of listener: ListenerConfiguration) -> String {
        var words = [of(listener.endpoint)]
        if case .loopback = listener.endpoint { words.append("on loopback") }
        if let family = listener.addressFamily { words.append("socket_domain \(family)") }
        if let interface = listener.interface { words.append("bind_interface \(interface)") }
        return words.joined(separator: ", ")
    }
}
