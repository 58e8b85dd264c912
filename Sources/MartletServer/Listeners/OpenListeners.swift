import BrokerCore
import BrokerModel
import Configuration
import Glibc
import Platform
import ServerLoops
import Transports

/// The listeners of a configuration, open: their sockets for each loop, and the layers of their connections.
struct OpenListeners {
    /// One listener of the configuration.
    struct Place {
        /// What its connections have on top of their sockets.
        var layers: TransportLayers
        /// The pre-shared keys that its handshakes look into.
        let keys: PreSharedKeyRing
        /// By loop; of HTTP, which is the control thread's, one list. None where it could not be opened and is dispensable.
        let sockets: [[Listener]]
        let isHTTP: Bool
        let announcements: [String]

        /// Where it listens.
        var addresses: [String] { sockets.first?.map(\.boundAddress.description) ?? [] }

        /// The sockets that a loop accepts on.
        func sockets(ofLoop loop: Int) -> [Listener] { isHTTP || sockets.isEmpty ? [] : sockets[loop] }

        /// The sockets that the control thread accepts on.
        var httpSockets: [Listener] { isHTTP ? sockets.first ?? [] : [] }

        /// Whether only this machine can connect, whatever the configuration calls the place.
        fileprivate var isLoopback: Bool {
            guard let listeners = sockets.first, !listeners.isEmpty else { return false }
            return listeners.allSatisfy { $0.boundAddress.path == nil && $0.boundAddress.endpoint.isLoopback }
        }
    }

    /// By listener of the configuration.
    private(set) var places: [Place] = []
    private let loops: Int
    private let keyLogFile: String?

    /// By listener of the configuration.
    var layers: [TransportLayers] { places.map(\.layers) }

    /// By listener of the configuration: the pre-shared keys that its handshakes look into.
    var keys: [PreSharedKeyRing] { places.map(\.keys) }

    /// Where they listen, in the order of the configuration.
    var addresses: [String] { places.flatMap(\.addresses) }

    /// By loop.
    var sockets: [[(listener: Listener, policy: Int)]] {
        (0..<loops).map { loop in
            places.indices.flatMap { policy in places[policy].sockets(ofLoop: loop).map { ($0, policy) } }
        }
    }

    /// The sockets of HTTP, which are the control thread's.
    var httpSockets: [(listener: Listener, policy: Int)] {
        places.indices.flatMap { policy in places[policy].httpSockets.map { ($0, policy) } }
    }

    init(_ configuration: BrokerConfiguration, loops: Int, keyLogFile: String?, log: Log) throws(ServerError) {
        (self.loops, self.keyLogFile) = (loops, keyLogFile)
        // What the service manager has opened for us.
        let inherited = InheritedSockets { getenv($0).map { String(cString: $0) } }
        for (index, listener) in configuration.listeners.enumerated() {
            let place = try open(listener, index, configuration, log) { address throws(ListenError) in
                try address.open(loops: listener.application == .httpAPI ? 1 : loops, inherited: inherited)
            }
            for line in place.announcements { log.write(.information, line) }
            places.append(place)
        }
        for address in inherited.unusedAddresses {
            log.write(.warning, "Warning: The service manager's socket \(address) belongs to no listener of the configuration.")
        }
    }

    /// Reads the certificates of a listener and opens its sockets.
    ///
    /// - Parameters:
    ///   - index: where the files have it.
    ///   - sockets: opens them.
    private func open(
        _ configuration: ListenerConfiguration, _ index: Int, _ broker: BrokerConfiguration, _ log: Log,
        sockets: (ListenAddress) throws(ListenError) -> [[Listener]]
    ) throws(ServerError) -> Place {
        let plan: ListenerPlan
        let ring = PreSharedKeyRing()
        do throws(TLSFailure) {
            plan = try ListenerPlan(
                configuration, general: broker.general, keyLogFile: keyLogFile, preSharedKey: { ring.key(for: $0) })
        } catch {
            throw .transportSecurity(index, error)
        }
        var opened: [[Listener]] = []
        do throws(ListenError) {
            opened = try sockets(plan.address)
        } catch {
            guard configuration.isDispensable else { throw .listener(index, error) }
            log.write(.notice, "No HTTP for administration: \(error.advice).")
        }
        var place = Place(
            layers: plan.layers, keys: ring, sockets: opened, isHTTP: configuration.application == .httpAPI,
            announcements: opened.first?.map { plan.announcement(of: $0) } ?? [])
        let names = Self.ownNames(of: place, configuration, broker)
        place.layers.webSocket?.ownNames = names
        return place
    }

    /// The names by which browsers may call a listener that only this machine reaches; nil of one that others reach.
    private static func ownNames(
        of place: Place, _ configuration: ListenerConfiguration, _ broker: BrokerConfiguration
    ) -> [String]? {
        guard configuration.isForThisMachine || place.isLoopback else { return nil }
        return broker.administration.hosts.map { $0.lowercased() }
    }
}

// MARK: - Reload

extension OpenListeners {
    /// The broker is about to become another user, who opens other listeners beside these later.
    func give(toUser user: UInt32, group: UInt32) {
        for listener in places.flatMap({ $0.sockets.flatMap { $0 } }) { listener.give(toUser: user, group: group) }
    }

    /// Opens the listeners that a reload brings, beside those that are open; nobody is let in yet, and all of them close again by themselves if
    /// they are not taken.
    func opening(_ reloaded: ReloadedConfiguration, log: Log) throws(ServerError) -> [(listener: Int, place: Place)] {
        var opened: [(listener: Int, place: Place)] = []
        let leaving = reloaded.closings.flatMap { places[$0].sockets.flatMap { $0 } }
        for opening in reloaded.openings {
            let configuration = reloaded.configuration.listeners[opening.listener]
            let count = configuration.application == .httpAPI ? 1 : loops
            let predecessor = opening.predecessor.map { places[$0].sockets } ?? []
            let place = try open(configuration, opening.wanted, reloaded.configuration, log) { address throws(ListenError) in
                guard !predecessor.isEmpty else { return try address.open(loops: count, leaving: leaving) }
                return try Self.succeed(predecessor, loops: count)
            }
            opened.append((opening.listener, place))
        }
        return opened
    }

    /// Takes over the sockets of a listener that is about to be closed, for another number of loops if need be.
    private static func succeed(_ earlier: [[Listener]], loops: Int) throws(ListenError) -> [[Listener]] {
        var listeners: [[Listener]] = []
        for loop in 0..<loops {
            var list: [Listener] = []
            for listener in earlier[loop < earlier.count ? loop : 0] {
                do throws(SystemError) {
                    list.append(try Listener(succeeding: listener, isAlone: loops <= earlier.count))
                } catch {
                    throw .refused(listener.boundAddress, error)
                }
            }
            listeners.append(list)
        }
        return listeners
    }

    /// Takes in what was opened, and what connections of the others have on top of their sockets from now on: whom they believe, as which
    /// page they may come. Their TLS stays as it is.
    mutating func take(_ opened: [(listener: Int, place: Place)], _ broker: BrokerConfiguration) {
        for (listener, place) in opened {
            if listener == places.count { places.append(place) } else { places[listener] = place }
        }
        let new = Set(opened.map(\.listener))
        for index in places.indices where !new.contains(index) {
            let configuration = broker.listeners[index]
            // Its sockets close when those who have them let go of them.
            guard !configuration.isClosed else {
                places[index] = Place(
                    layers: places[index].layers, keys: places[index].keys, sockets: [], isHTTP: places[index].isHTTP,
                    announcements: [])
                continue
            }
            let tls = places[index].layers.tls
            places[index].layers = ListenerPlan.layers(configuration, general: broker.general)
            places[index].layers.tls = tls
            let names = Self.ownNames(of: places[index], configuration, broker)
            places[index].layers.webSocket?.ownNames = names
        }
    }
}
