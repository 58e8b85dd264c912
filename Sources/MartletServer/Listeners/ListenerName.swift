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
}
