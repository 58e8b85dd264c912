import BrokerCore
package import BrokerModel
import MQTTCodec
package import Transports

/// Why a connection is closed as soon as it is there.
package enum AdmissionRefusal: Equatable {
    /// `max_connections` or `global_max_connections`.
    case tooMany
    /// `martlet_max_connections_per_second_per_address`. What is no news has been said since the network was last let in.
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
