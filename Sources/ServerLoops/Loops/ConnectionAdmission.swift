package import BrokerModel
import Security
package import Transports

/// Turns connections away before a byte of theirs is read: when there are too many, or too many a second from one network.
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

    /// A connection was accepted. One that is let in must `leave`.
    ///
    /// - Parameters:
    ///   - proxyProtocol: how the proxy that has made it tells for whom: then `refusal(ofForwarded:)` has to be asked too.
    ///   - isForwarding: whether the peer is a proxy that is believed and will tell for whom it asks: it is not one client, so that what one
    ///     address may do does not bound it, and `refusal(ofForwarded:)` has to be asked too.
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

    /// The proxy in front has told who the peer is.
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
