import BrokerCore
package import BrokerModel
import MQTTCodec
import Platform
import Security
import Synchronization
package import Transports

/// Turns connections away before a byte of theirs is read: when there are too many, or too many a second from one
/// network.
///
/// Shared by all loops.
package final class ConnectionAdmission: Sendable {
    private let counts: ConnectionCounts
    private let throttle: ConnectionThrottle

    package init(listeners: Int) { (counts, throttle) = (ConnectionCounts(listeners: listeners), ConnectionThrottle()) }

    /// Makes the admission of a reloaded broker, with more listeners behind those that there are: whoever keeps an
    /// earlier one counts in the same places.
    package init(extending admission: ConnectionAdmission, listeners: Int) {
        (counts, throttle) = (ConnectionCounts(extending: admission.counts, listeners: listeners), admission.throttle)
    }

    /// Decides about a connection that was accepted: returns why it is refused, or nil. One that is let in must
    /// `leave`.
    ///
    /// - Parameters:
    ///   - proxyProtocol: how the proxy that has made it tells for whom: then `refusal(ofForwarded:)` has to be asked
    ///     too.
    ///   - isForwarding: whether the peer is a proxy that is believed and will tell for whom it asks: it is not one
    ///     client, so that what one address may do does not bound it, and `refusal(ofForwarded:)` has to be asked too.
    package func refusal(
        of peer: PeerAddress, listener: Int, proxyProtocol: ProxyProtocolSettings?, isForwarding: Bool = false,
        settings: BrokerSettings,
        bans: BanList = BanList(),
        now: UInt64
    ) -> AdmissionRefusal? {
        if let proxyProtocol {
            guard proxyProtocol.trusts(peer) else { return .untrustedProxy }
        } else if !isForwarding, let refusal = refusal(ofForwarded: peer, settings: settings, bans: bans, now: now) {
            return refusal
        }
        let hasRoom = counts.enter(
            listener: listener, listenerMax: settings.listeners[listener].connectionsMax, totalMax: settings.connectionsMax)
        return hasRoom ? nil : .tooMany
    }

    /// Decides about a connection whose proxy has told who the peer is.
    package func refusal(
        ofForwarded peer: PeerAddress, settings: BrokerSettings, bans: BanList = BanList(), now: UInt64
    ) -> AdmissionRefusal? {
        if !bans.isEmpty, bans.ban(ofAddress: peer.host) != nil { return .banned }
        return refusal(ofForwarded: peer, perSecondMax: settings.connectionsPerSecondPerAddressMax, now: now)
    }

    /// Returns why a peer is refused that a proxy has told of and that is no client; nil if it may come.
    package func refusal(ofForwarded peer: PeerAddress, perSecondMax: Int?, now: UInt64) -> AdmissionRefusal? {
        guard let perSecondMax, let network = peer.network else { return nil }
        return switch throttle.connected(from: network, perSecondMax: perSecondMax, now: now) {
        case .admitted: nil
        case .refused(let isNews): .tooFast(perSecondMax: perSecondMax, isNews: isNews)
        }
    }

    /// How many connections are in.
    package var count: Int { counts.count }

    /// How many came through a listener.
    package func count(ofListener listener: Int) -> Int { counts.count(ofListener: listener) }

    /// How many came through a listener since the start.
    package func acceptedCount(ofListener listener: Int) -> UInt64 { counts.acceptedCount(ofListener: listener) }

    package func leave(listener: Int) { counts.leave(listener: listener) }
}

/// The listeners of a loop, and what those pass who come by them. Belongs to the loop.
struct LoopDoors {
    /// Each with its place in the configuration.
    private(set) var listeners: [(listener: any Acceptor, policy: Int)]
    /// What lies on the sockets of each listener of the configuration.
    private(set) var layers: [TransportLayers]
    private(set) var admission: ConnectionAdmission
    /// Whether nobody gets in, because clients are sent away.
    private var isShut = false
    /// When a line last told that somebody banned was turned away, in milliseconds.
    private var bannedLoggedAt: UInt64?

    init(_ listeners: [(listener: any Acceptor, policy: Int)], layers: [TransportLayers], admission: ConnectionAdmission) {
        (self.listeners, self.layers, self.admission) = (listeners, layers, admission)
    }

    /// A reload has brought other layers, and closes some of the listeners.
    mutating func exchange(_ layers: [TransportLayers], _ admission: ConnectionAdmission, closed: [Int]) {
        (self.layers, self.admission) = (layers, admission)
        stop { closed.contains($0) }
    }

    /// Adds a listener that has just begun to serve.
    mutating func add(_ listener: any Acceptor, _ policy: Int) {
        if isShut { listener.suspend() }
        listeners.append((listener, policy))
    }

    /// Stops the listeners whose places in the configuration are meant.
    mutating func stop(_ isMeant: (Int) -> Bool) {
        for (listener, policy) in listeners where isMeant(policy) { listener.stop() }
        listeners.removeAll { isMeant($0.policy) }
    }

    /// Shuts or opens all of them.
    mutating func shut(_ isShut: Bool, log: Log) {
        self.isShut = isShut
        for (listener, _) in listeners {
            guard !isShut else {
                listener.suspend()
                continue
            }
            do throws(SystemError) {
                try listener.resume()
            } catch {
                log.write(.error, "Error: \(error). Nobody can connect there until the broker is started again.")
            }
        }
    }

    /// Whether a line may say now that somebody banned was turned away: it says so once a second.
    mutating func mayReportBanned(now: UInt64) -> Bool {
        if let bannedLoggedAt, now < bannedLoggedAt + 1000 { return false }
        bannedLoggedAt = now
        return true
    }
}

/// How many connections there are, on each listener and in all: what `max_connections` and `global_max_connections`
/// bound.
///
/// Shared by all loops; a connection counts from accept to close, on whichever loop it is.
package final class ConnectionCounts: Sendable {
    private final class Counter: Sendable {
        package let value = Atomic<Int>(0)
    }

    private let total: Counter
    private let perListener: [Counter]
    private let accepted: [Counter]

    /// How many there are on a listener.
    package func count(ofListener listener: Int) -> Int { perListener[listener].value.load(ordering: .relaxed) }

    /// How many there have been on a listener.
    package func acceptedCount(ofListener listener: Int) -> UInt64 { UInt64(accepted[listener].value.load(ordering: .relaxed)) }

    /// Makes counts that share those of others, with places for more listeners behind those that there are.
    init(extending counts: ConnectionCounts, listeners: Int) {
        total = counts.total
        let more = max(0, listeners - counts.perListener.count)
        perListener = counts.perListener + (0..<more).map { _ in Counter() }
        accepted = counts.accepted + (0..<more).map { _ in Counter() }
    }

    init(listeners: Int) {
        total = Counter()
        perListener = (0..<listeners).map { _ in Counter() }
        accepted = (0..<listeners).map { _ in Counter() }
    }

    /// How many there are in all.
    package var count: Int { total.value.load(ordering: .relaxed) }

    /// Counts a connection in, unless a limit is reached.
    ///
    /// - Parameters:
    ///   - listenerMax: the most on this listener; nil for no limit.
    ///   - totalMax: the most in all; nil for no limit.
    func enter(listener: Int, listenerMax: Int?, totalMax: Int?) -> Bool {
        let onListener = perListener[listener].value.add(1, ordering: .relaxed).newValue
        let inAll = total.value.add(1, ordering: .relaxed).newValue
        guard onListener > listenerMax ?? .max || inAll > totalMax ?? .max else {
            accepted[listener].value.add(1, ordering: .relaxed)
            return true
        }
        leave(listener: listener)
        return false
    }

    package func leave(listener: Int) {
        perListener[listener].value.subtract(1, ordering: .relaxed)
        total.value.subtract(1, ordering: .relaxed)
    }
}

/// Why a connection is closed as soon as it is there.
package enum AdmissionRefusal: Equatable {
    /// `max_connections` or `global_max_connections`.
    case tooMany
    /// `martlet_max_connections_per_second_per_address`. What is no news has been said since the network was last let
    /// in.
    case tooFast(perSecondMax: Int, isNews: Bool)

    /// `martlet_proxy_trusted`.
    case untrustedProxy
    /// Its address is.
    case banned

    /// What the log says, nil for nothing: who is refused a thousand times a second is told of once.
    package func line(for peer: some CustomStringConvertible) -> String? {
        switch self {
        case .tooMany: "Client connection from \(peer) denied: max_connections exceeded."
        case .tooFast(let perSecondMax, isNews: true):
            "Client connection from \(peer) denied: more than \(perSecondMax) connections per second from its address "
                + "(martlet_max_connections_per_second_per_address)."
        case .tooFast(_, isNews: false): nil
        case .banned: "Client connection from \(peer) denied: banned."
        case .untrustedProxy:
            "Connection from \(peer) denied: it is not a trusted proxy. If it is your proxy, add its address to "
                + "martlet_proxy_trusted."
        }
    }
}

extension AdmissionRefusal {
    /// As it is counted.
    package var tally: RefusedConnection {
        switch self {
        case .tooMany: .tooMany
        case .tooFast: .tooFast
        case .banned: .connect(.banned)
        case .untrustedProxy: .untrustedProxy
        }
    }
}

extension FilterRefusal.Layer {
    /// As it is counted.
    package var tally: RefusedConnection {
        switch self {
        case .proxyProtocol: .proxyProtocol
        case .tls: .tls
        // A listener's connections have no proxy that we go through.
        case .webSocket, .proxy: .webSocket
        }
    }
}
