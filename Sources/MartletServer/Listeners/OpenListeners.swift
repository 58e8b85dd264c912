import BrokerCore
import Configuration
import Glibc
import Transports

/// The listeners of a configuration, open: their sockets for each loop, and the layers of their connections.
struct OpenListeners {
    /// What the service manager has opened for us.
    private let inherited = InheritedSockets { getenv($0).map { String(cString: $0) } }
    /// By loop.
    private(set) var sockets: [[(listener: Listener, policy: Int)]]
    /// Those of HTTP, which are the control thread's.
    private(set) var httpSockets: [(listener: Listener, policy: Int)] = []
    /// By listener of the configuration.
    private(set) var layers: [TransportLayers] = []
    /// By listener of the configuration: the pre-shared keys that its handshakes look into.
    private(set) var keys: [PreSharedKeyRing] = []
    /// Where they listen, in the order of the configuration.
    private(set) var addresses: [String] = []

    init(_ configuration: BrokerConfiguration, loops: Int, keyLogFile: String?, log: Log) throws(ServerError) {
        sockets = [[(listener: Listener, policy: Int)]](repeating: [], count: loops)
        for (policy, listener) in configuration.listeners.enumerated() {
            try open(listener, policy, configuration, keyLogFile, log)
        }
        for address in inherited.unusedAddresses {
            log.write(.warning, "Warning: The service manager's socket \(address) belongs to no listener of the configuration.")
        }
    }

    /// Whether only this machine can connect, whatever the configuration calls the place.
    private static func isLoopback(_ listeners: [Listener]) -> Bool {
        !listeners.isEmpty && listeners.allSatisfy { $0.boundAddress.path == nil && $0.boundAddress.endpoint.isLoopback }
    }

    private mutating func open(
        _ configuration: ListenerConfiguration, _ policy: Int, _ broker: BrokerConfiguration, _ keyLogFile: String?, _ log: Log
    ) throws(ServerError) {
        let plan: ListenerPlan
        let ring = PreSharedKeyRing()
        let isHTTP = configuration.application == .httpAPI
        keys.append(ring)
        let opened: [[Listener]]
        do throws(TLSFailure) {
            plan = try ListenerPlan(
                configuration, general: broker.general, keyLogFile: keyLogFile, preSharedKey: { ring.key(for: $0) })
        } catch {
            throw .transportSecurity(policy, error)
        }
        do throws(ListenError) {
            opened = try plan.address.open(loops: isHTTP ? 1 : sockets.count, inherited: inherited)
        } catch {
            guard configuration.isDispensable else { throw .listener(policy, error) }
            layers.append(plan.layers)
            log.write(.notice, "No HTTP for administration: \(error.advice).")
            return
        }
        layers.append(plan.layers)
        if configuration.isForThisMachine || Self.isLoopback(opened[0]) {
            layers[policy].webSocket?.ownNames = broker.administration.hosts.map { $0.lowercased() }
        }
        for listener in opened[0] {
            log.write(.information, plan.announcement(of: listener))
            addresses.append(listener.boundAddress.description)
        }
        guard !isHTTP else {
            httpSockets += opened[0].map { ($0, policy) }
            return
        }
        for loop in sockets.indices { sockets[loop] += opened[loop].map { ($0, policy) } }
    }
}
