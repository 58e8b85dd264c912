import BrokerModel
@testable import Cluster

/// A connection of a client in the simulation, and what is known of its end. Times are in microseconds of the world's
/// clock.
final class ClientConnection {
    let client: String
    let number: UInt64
    weak var node: SessionNode?
    let askedAt: UInt64
    /// Its will, if the client was let in.
    var name: WillName?
    var establishedAt: UInt64?
    /// When it ended, or its node: nobody may have known of it until that one's lease was over.
    var endedAt: UInt64?
    /// Whether it had ended before, and nobody knows when.
    var isEndLate = false
    /// Whether its node was well then.
    var isEndSeen = false
    /// DISCONNECT was sent, and the cluster knows of that.
    var hasSaidGoodbye = false
    var isGoodbyeStored = false

    init(_ client: String, number: UInt64, at node: SessionNode, now: UInt64) {
        (self.client, self.number, self.node, askedAt) = (client, number, node, now)
    }

    var isEstablished: Bool { establishedAt != nil }

    /// Of each client the same: seconds that the will waits, and that the session outlives the connection.
    static func terms(of client: String) -> (delay: UInt32, expiry: UInt32) {
        switch client {
        case "d": (8, 60)
        case "e": (20, 5)
        case "f": (3, 0)
        case "g": (0, 0)
        default: (0, 100_000)
        }
    }

    /// Whether it begins anew each time, without a will: it need not wait for a node that does not answer.
    var isClean: Bool { client == "g" }

    var terms: (delay: UInt32, expiry: UInt32) { Self.terms(of: client) }
    /// After how many microseconds the will is due, or the session over.
    var dueAfter: UInt64 { UInt64(min(terms.delay, terms.expiry)) * 1_000_000 }
    var overAfter: UInt64 { UInt64(terms.expiry) * 1_000_000 }
}
