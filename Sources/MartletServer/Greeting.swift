import Configuration
import Transports

/// The line that tells a newcomer what runs, where, and how to try it.
struct Greeting {
    private let addresses: [SocketAddress]
    private let plain: SocketAddress?
    private let loopCount: Int

    /// - Parameter places: where the broker listens, and the listener of the configuration behind each place.
    init(_ places: [(address: SocketAddress, listener: ListenerConfiguration)], loopCount: Int) {
        self.loopCount = loopCount
        addresses = places.map(\.address)
        plain = places.first { Self.isPlain($0.listener) }?.address
    }

    var text: String {
        let loops = loopCount == 1 ? "1 loop" : "\(loopCount) loops"
        let places = addresses.map(\.description).joined(separator: ", ")
        let text = "martlet version \(ProductVersion.text) running on \(places) (\(loops))."
        return plain.map { "\(text) Try: mosquitto_sub\(Self.option(for: $0)) -v -t 'hello/#'" } ?? text
    }

    /// Whether mosquitto_sub needs no key and no detour to connect there.
    private static func isPlain(_ listener: ListenerConfiguration) -> Bool {
        listener.application == .mqtt && !listener.tls.isEnabled && listener.proxyProtocolVersion == nil
    }

    private static func option(for address: SocketAddress) -> String {
        if let path = address.path { return " --unix \(path)" }
        let host = address.endpoint.host
        // mosquitto_sub goes to localhost by itself, whose first address is not always IPv4's.
        let isLocal = ["0.0.0.0", "::", "127.0.0.1", "::1"].contains(host)
        return (isLocal ? "" : " -h \(host)") + (address.port == BrokerConfiguration.defaultPort ? "" : " -p \(address.port)")
    }
}

/// Which Martlet this is.
public enum ProductVersion {
    public static let text = "0.2.0"
}
