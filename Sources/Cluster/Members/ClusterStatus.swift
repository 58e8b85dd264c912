/// How the cluster is, as one node of it sees it: what the loop that speaks to the servers tells the control thread,
/// and that an administrator.
public struct ClusterStatus: Sendable, Equatable {
    /// `martlet_cluster`.
    public var name: String
    /// Why the node does not carry messages; nil if it does.
    public var trouble: String?
    /// The server that it is connected to, and the server's version; nil for none.
    public var server: String?
    /// How many other nodes there are.
    public var others = 0
    public var messagesOut: UInt64 = 0
    public var messagesIn: UInt64 = 0
    /// Messages that found no connection, or that a server could not take: too large, or more than it reads.
    public var dropped: UInt64 = 0
    /// Messages that came a second time, or were overtaken.
    public var copies: UInt64 = 0
    /// Messages that came and cannot be read.
    public var illegible: UInt64 = 0
    /// Messages of QoS 1 and 2 that are in the log, and that did not get there.
    public var logWritten: UInt64 = 0
    public var logFailed: UInt64 = 0
    /// Records of the log that were read, and that had gone before they were.
    public var logRead: UInt64 = 0
    public var logLost: UInt64 = 0
    /// Records of the log that were read once more, for sessions that came from elsewhere and for nodes that are gone.
    public var logReread: UInt64 = 0
    /// Times that the log was told how far a session has come.
    public var positionsTold: UInt64 = 0
    /// Sessions that came from other nodes, went there, and began anew because nobody had them any more; clients that
    /// were refused because nobody could say who keeps their session.
    public var sessionsTaken: UInt64 = 0
    public var sessionsGiven: UInt64 = 0
    public var sessionsLost: UInt64 = 0
    public var claimsRefused: UInt64 = 0
    /// Sessions that were taken up from their records, without the nodes that had them; those that have ended whose
    /// nodes were gone, and wills of such that this node has published.
    public var sessionsRestored: UInt64 = 0
    public var sessionsExpired: UInt64 = 0
    public var willsOfOthers: UInt64 = 0
    /// Times that the connection to a server was lost.
    public var losses: UInt64 = 0
    /// All nodes that are known of, this one among them, in the order of their names.
    public var members: [ClusterMember] = []
    /// Names that several nodes have: each is to have its own.
    public var sharedNames: [String] = []
    /// Changes of retained messages that are not in the stream yet.
    public var retainedWaiting = 0
    /// Streams for whose records the servers have no room, and in the servers' words why; nil while there are none.
    public var refusingStreams = 0
    public var refusal: String?
    /// What an acknowledgement says, `synced`, `replicated` or `node`; nil if nobody knows. The control thread knows
    /// it.
    public var mode: String?
    /// The servers whose monitoring is asked, and what was found out. The control thread knows it.
    public var servers: [Server] = []

    /// A server, and when it brings what it acknowledges to its disk.
    public struct Server: Sendable, Equatable {
        public var address: String
        public var syncs: SyncConduct

        public init(address: String, syncs: SyncConduct) { (self.address, self.syncs) = (address, syncs) }
    }

    public init(name: String, trouble: String? = nil) { (self.name, self.trouble) = (name, trouble) }

    /// Where the other nodes are reached that let clients in.
    public var addressesOfOthers: [String] {
        members.compactMap { member in
            guard !member.isSelf, member.state == .up, let summary = member.summary, !summary.isDraining, !summary.address.isEmpty
            else {
                return nil
            }
            return summary.address
        }
    }

    /// A warning while messages are carried, the nodes whose clocks differ; nil for none.
    public var warning: String? {
        let words = members.compactMap { member in member.clockTrouble.map { "\(member.shownName): \($0)" } }
        return words.isEmpty ? nil : words.joined(separator: "; ")
    }
}

/// When a server brings records to its disk.
public enum SyncConduct: Sendable, Equatable {
    /// Before it acknowledges them.
    case always
    /// Every so many seconds.
    case every(seconds: Int64)
    /// Nobody knows, for this reason.
    case unknown(String)
}

extension ClusterMember {
    /// The node's name, or its identifier if it has none.
    public var shownName: String { summary.map { $0.name.isEmpty ? node.description : $0.name } ?? node.description }

    /// Whether it does anything: of another one its figures are what it has said last.
    public var isThere: Bool { state == .up || state == .silent }

    /// In words, if its clock differs too much from this node's; else nil.
    public var clockTrouble: String? {
        guard let clockOffset, ClockWatch.isFar(clockOffset) else { return nil }
        return "its clock is \(ClockWatch.words(clockOffset)) that of this node"
    }
}
