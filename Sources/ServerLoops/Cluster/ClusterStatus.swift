package import Cluster

/// How the cluster is, as one node sees it.
package struct ClusterStatus: Sendable, Equatable {
    /// Why the node does not carry messages; nil if it does.
    package var trouble: String?
    /// The server that it is connected to, and the server's version; nil for none.
    package var server: String?
    /// How many other nodes there are.
    package var others = 0
    package var messagesOut: UInt64 = 0
    package var messagesIn: UInt64 = 0
    /// Messages that found no connection, or that a server could not take: too large, or more than it reads.
    package var dropped: UInt64 = 0
    package var copies: UInt64 = 0
    package var illegible: UInt64 = 0
    /// Messages of QoS 1 and 2 that are in the log, and that did not get there; records that were read, and that had gone before.
    package var logWritten: UInt64 = 0
    package var logFailed: UInt64 = 0
    package var logRead: UInt64 = 0
    package var logLost: UInt64 = 0
    /// Sessions that came from other nodes, went there, and began anew because nobody had them any more; clients that were refused because
    /// nobody could say who keeps their session.
    package var sessionsTaken: UInt64 = 0
    package var sessionsGiven: UInt64 = 0
    package var sessionsLost: UInt64 = 0
    package var claimsRefused: UInt64 = 0
    /// Sessions that were taken up from their records, without the nodes that had them; those that have ended whose nodes were gone, and wills of
    /// such that this node has published.
    package var sessionsRestored: UInt64 = 0
    package var sessionsExpired: UInt64 = 0
    package var willsOfOthers: UInt64 = 0
    /// Times that the connection to a server was lost.
    package var losses: UInt64 = 0
    /// All nodes that are known of.
    package var members: [ClusterMember] = []
    package var sharedNames: [String] = []
    /// Changes of retained messages that are not in the stream yet.
    package var retainedWaiting = 0
    /// Streams for whose records the servers have no room.
    package var refusingStreams = 0

    package init(trouble: String? = nil) { self.trouble = trouble }

    /// Where the other nodes are reached that let clients in.
    package var addressesOfOthers: [String] {
        members.compactMap { member in
            guard !member.isSelf, member.state == .up, let summary = member.summary, !summary.isDraining, !summary.address.isEmpty
            else {
                return nil
            }
            return summary.address
        }
    }
}

/// What the control thread knows of this node for its summary.
package struct NodeFigures: Sendable {
    package var startedAt: UInt64 = 0
    package var clientsConnected: UInt64 = 0
    package var sessions: UInt64 = 0
    package var subscriptions: UInt64 = 0
    package var retainedMessages: UInt64 = 0
    package var storedMessages: UInt64 = 0
    package var receivedRate: UInt64 = 0
    package var sentRate: UInt64 = 0
    package var dropped: UInt64 = 0
    package var residentBytes: UInt64 = 0
    package var processorLoad: UInt64 = 0
    package var isDraining = false
    package var dashboard = ""
    package var trouble = ""

    package init() {}
}

/// What a node has answered; nil for nothing in time.
package struct NodeReport: Sendable {
    package var node: String
    package var answer: NodeAnswer?

    package init(
        node: String, answer: NodeAnswer? = nil
    ) {
        self.node = node
        self.answer = answer
    }
}

extension ClusterMember {
    /// What people call it.
    package var shownName: String { summary.map { $0.name.isEmpty ? node.description : $0.name } ?? node.description }
}

/// When a server brings records to its disk.
package enum SyncConduct: Sendable, Equatable {
    /// Before it acknowledges them.
    case always
    /// Every so many seconds.
    case every(seconds: Int64)
    /// Nobody knows, for this reason.
    case unknown(String)
}

/// A node's part in its cluster, as the loop that it belongs to knows it: it speaks to the servers for all loops of the node.
package protocol ClusterParticipant: AnyObject {
    /// Connects. Once, before the loop's first turn.
    func start()
    /// Says goodbye to the other nodes, and sends what is to be sent.
    func stop()
    /// Takes what it is told.
    func received(_ message: ToGateway)
    /// When it is to be called next by `advance`, in the loop's milliseconds; nil for not before something comes.
    var nextDeadline: UInt64? { get }
    /// Does what is due.
    func advance(now: UInt64)
    /// Sends what the turn has brought.
    func endTurn()
}
