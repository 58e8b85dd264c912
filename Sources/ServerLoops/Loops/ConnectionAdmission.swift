import BrokerCore
package import BrokerModel
import MQTTCodec
import Platform
import Security
import Synchronization
package import Transports

/// Turns connections away before a byte of theirs is read: when they come from where they may not, when there are too
/// many, in all or from one network, or when too many come in a second.
///
/// Shared by all loops.
package final class ConnectionAdmission: Sendable {
    private let counts: ConnectionCounts
    private let throttle: ConnectionThrottle
    private let slots: AddressSlots

    package init(listeners: Int) {
        (counts, throttle, slots) = (ConnectionCounts(listeners: listeners), ConnectionThrottle(), AddressSlots())
    }

    /// Makes the admission of a reloaded broker, with more listeners behind those that there are: whoever keeps an
    /// earlier one counts in the same places.
    package init(extending admission: ConnectionAdmission, listeners: Int) {
        (counts, throttle) = (ConnectionCounts(extending: admission.counts, listeners: listeners), admission.throttle)
        slots = admission.slots
    }

    /// Decides about a connection that was accepted: returns why it is refused, or nil. One that is let in must
    /// `leave`; what its address counts for is asked with `takeSlot`.
    ///
    /// - Parameters:
    ///   - addresses: from where clients may come to this listener; nil for anywhere.
    ///   - proxyProtocol: how the proxy that has made it tells for whom: then `refusal(ofForwarded:)` has to be asked
    ///     too.
    ///   - isForwarding: whether the peer is a proxy that is believed and will tell for whom it asks: it is not one
    ///     client, so that what one address may do does not bound it, and `refusal(ofForwarded:)` has to be asked too.
    package func refusal(
        of peer: PeerAddress, listener: Int, proxyProtocol: ProxyProtocolSettings?, isForwarding: Bool = false,
        addresses: AddressRules? = nil, settings: BrokerSettings,
        bans: BanList = BanList(),
        now: UInt64
    ) -> AdmissionRefusal? {
        if let proxyProtocol {
            guard proxyProtocol.trusts(peer) else { return .untrustedProxy }
        } else if !isForwarding,
            let refusal = refusal(ofForwarded: peer, addresses: addresses, settings: settings, bans: bans, now: now)
        {
            return refusal
        }
        let hasRoom = counts.enter(
            listener: listener, listenerMax: settings.listeners[listener].connectionsMax, totalMax: settings.connectionsMax)
        guard hasRoom else { return .tooMany }
        let (ownMax, totalMax) = (settings.listeners[listener].connectionsPerSecondMax, settings.connectionsPerSecondMax)
        guard let exceeded = counts.pace(listener: listener, listenerMax: ownMax, totalMax: totalMax, now: now) else { return nil }
        counts.leave(listener: listener)
        return .tooFastTogether(perSecondMax: exceeded)
    }

    /// Gives a connection that was let in a slot among those of its address and its network, where these are
    /// counted; it has it as long as it keeps it.
    ///
    /// - Parameter peer: of a connection by a proxy the client that it has told of.
    package func takeSlot(
        for peer: PeerAddress, settings: BrokerSettings
    ) throws(AdmissionRefusal) -> AddressSlot? {
        guard settings.connectionsPerAddressMax != nil || settings.connectionsPerNetwork != nil else { return nil }
        return try slots.take(for: peer, addressMax: settings.connectionsPerAddressMax, network: settings.connectionsPerNetwork)
    }

    /// Decides about a connection whose proxy has told who the peer is.
    package func refusal(
        ofForwarded peer: PeerAddress, addresses: AddressRules? = nil, settings: BrokerSettings, bans: BanList = BanList(),
        now: UInt64
    ) -> AdmissionRefusal? {
        if let addresses, !addresses.admits(peer) { return .addressDenied }
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

    /// Returns why one more connection of a listener of HTTP is refused; nil if it may come. Those of all listeners
    /// together do not count it: a storm of clients keeps nobody from looking what is wrong.
    package func refusal(byRateOf listener: Int, perSecondMax: Int?, now: UInt64) -> AdmissionRefusal? {
        counts.pace(listener: listener, listenerMax: perSecondMax, totalMax: nil, now: now)
            .map { .tooFastTogether(perSecondMax: $0) }
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
    private var refusalLines = RefusalLines()

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

    /// What the log says of somebody who is turned away; nil for nothing. `now` in milliseconds.
    mutating func line(on refusal: AdmissionRefusal, of peer: PeerAddress, now: UInt64) -> String? {
        refusalLines.line(on: refusal, of: peer, now: now)
    }
}

/// How often a loop says that somebody was turned away: once a second for each kind of reason, with how many of that
/// kind were turned away since the last time.
struct RefusalLines {
    private struct Kind {
        var saidAt: UInt64
        var unsaid = 0
    }

    private var kinds: [RefusedConnection: Kind] = [:]

    /// The line that is due; nil for none. `now` in milliseconds.
    mutating func line(on refusal: AdmissionRefusal, of peer: some CustomStringConvertible, now: UInt64) -> String? {
        guard let line = refusal.line(for: peer) else { return nil }
        guard let kind = kinds[refusal.tally], now < kind.saidAt + Limits.refusalLineMilliseconds else {
            let unsaid = kinds[refusal.tally]?.unsaid ?? 0
            kinds[refusal.tally] = Kind(saidAt: now)
            return unsaid == 0 ? line : "\(line) \(unsaid) more were denied before."
        }
        kinds[refusal.tally]?.unsaid += 1
        return nil
    }
}

extension Limits {
    /// How long a loop says nothing more of those who are turned away for a reason that it has told, in milliseconds;
    /// it counts them.
    static let refusalLineMilliseconds: UInt64 = 1000
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
    private let totalPace: ConnectionPace
    private let paces: [ConnectionPace]

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
        totalPace = counts.totalPace
        paces = counts.paces + (0..<more).map { _ in ConnectionPace() }
    }

    init(listeners: Int) {
        total = Counter()
        perListener = (0..<listeners).map { _ in Counter() }
        accepted = (0..<listeners).map { _ in Counter() }
        totalPace = ConnectionPace()
        paces = (0..<listeners).map { _ in ConnectionPace() }
    }

    /// Counts a connection against how many may come in a second.
    ///
    /// - Parameters:
    ///   - listenerMax: how many on this listener; nil for no limit.
    ///   - totalMax: how many in all; nil for no limit.
    ///   - now: milliseconds of any monotonic clock.
    /// - Returns: the limit that is exceeded; nil for none.
    func pace(listener: Int, listenerMax: Int?, totalMax: Int?, now: UInt64) -> Int? {
        if let listenerMax, !paces[listener].admits(perSecondMax: listenerMax, now: now) { return listenerMax }
        if let totalMax, !totalPace.admits(perSecondMax: totalMax, now: now) { return totalMax }
        return nil
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

/// How fast connections come, for all loops: a second's worth may come at once, and after that one more whenever its
/// part of a second has passed. Who is refused does not count.
final class ConnectionPace: Sendable {
    /// When all that was let in would have come at an even pace, in microseconds.
    private let next = Atomic<UInt64>(0)

    /// Whether one more may come. `now` in milliseconds of any monotonic clock.
    func admits(perSecondMax: Int, now: UInt64) -> Bool {
        let nowMicroseconds = now * 1000
        let spacing = Self.secondMicroseconds / UInt64(max(1, perSecondMax))
        var known = next.load(ordering: .relaxed)
        while true {
            let desired = max(known, nowMicroseconds) + spacing
            guard desired <= nowMicroseconds + Self.secondMicroseconds else { return false }
            let (exchanged, original) = next.weakCompareExchange(expected: known, desired: desired, ordering: .relaxed)
            if exchanged { return true }
            known = original
        }
    }

    private static let secondMicroseconds: UInt64 = 1_000_000
}

/// How many connections each address and each network has now: what `martlet_max_connections_per_address` and
/// `martlet_max_connections_per_network` bound.
///
/// Shared by all loops; a connection costs a lock as it comes and as it goes, where one of the options is set. Entries
/// are at most two for each connection.
final class AddressSlots: Sendable {
    private let counts = Locked<[TrustedNetwork: Int]>([:])

    /// Takes a slot; throws why there is none. nil for a peer inside the machine, who is not counted.
    ///
    /// - Parameters:
    ///   - addressMax: how many one address may have; nil for no limit.
    ///   - network: how many a network may have; nil for no limit.
    func take(
        for peer: PeerAddress, addressMax: Int?, network: NetworkConnectionBound?
    ) throws(AdmissionRefusal) -> AddressSlot? {
        guard let address = TrustedNetwork(of: peer, ipv4Bits: 32, ipv6Bits: 64) else { return nil }
        let site = network.flatMap { TrustedNetwork(of: peer, ipv4Bits: $0.ipv4Bits, ipv6Bits: $0.ipv6Bits) }
        // A network that is no larger than an address has one count with it.
        let own = site == address ? [address] : [address] + (site.map { [$0] } ?? [])
        let refusal: AdmissionRefusal? = counts.withLock { counts in
            if let addressMax, counts[address, default: 0] >= addressMax { return .tooManyOfAddress(addressMax) }
            if let network, let site, counts[site, default: 0] >= network.count { return .tooManyOfNetwork(network.count) }
            for one in own { counts[one, default: 0] += 1 }
            return nil
        }
        if let refusal { throw refusal }
        return AddressSlot(own, among: self)
    }

    fileprivate func leave(_ own: [TrustedNetwork]) {
        counts.withLock { counts in
            for one in own {
                guard let count = counts[one], count > 1 else {
                    counts[one] = nil
                    continue
                }
                counts[one] = count - 1
            }
        }
    }
}

/// A connection's slot among those of its address and its network: whoever keeps this has the slot.
package final class AddressSlot: Sendable {
    private let own: [TrustedNetwork]
    private let slots: AddressSlots

    fileprivate init(_ own: [TrustedNetwork], among slots: AddressSlots) { (self.own, self.slots) = (own, slots) }

    deinit { slots.leave(own) }
}

/// Why a connection is closed as soon as it is there.
package enum AdmissionRefusal: Error, Equatable {
    /// `max_connections` or `global_max_connections`.
    case tooMany
    /// `martlet_max_connections_per_second_per_address`. What is no news has been said since the network was last let
    /// in.
    case tooFast(perSecondMax: Int, isNews: Bool)
    /// `martlet_max_connections_per_second`.
    case tooFastTogether(perSecondMax: Int)
    /// `martlet_max_connections_per_address`.
    case tooManyOfAddress(Int)
    /// `martlet_max_connections_per_network`.
    case tooManyOfNetwork(Int)
    /// `martlet_allow_from`, `martlet_deny_from` and their files.
    case addressDenied

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
        case .tooFastTogether(let perSecondMax):
            "Client connection from \(peer) denied: more than \(perSecondMax) connections per second "
                + "(martlet_max_connections_per_second)."
        case .tooManyOfAddress(let most):
            "Client connection from \(peer) denied: its address has \(most) connections (martlet_max_connections_per_address)."
        case .tooManyOfNetwork(let most):
            "Client connection from \(peer) denied: its network has \(most) connections (martlet_max_connections_per_network)."
        case .addressDenied:
            "Client connection from \(peer) denied: not from there (martlet_allow_from, martlet_deny_from)."
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
        case .tooFastTogether: .tooFastTogether
        case .tooManyOfAddress: .tooManyOfAddress
        case .tooManyOfNetwork: .tooManyOfNetwork
        case .addressDenied: .addressDenied
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
