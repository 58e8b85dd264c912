/// The cluster that the broker is a node of, as it was a moment ago.
public struct AdministeredCluster: Sendable {
    public var name: String
    /// Why messages are not carried; nil if they are.
    public var trouble: String?
    /// The server that this node is connected to, and its version; nil for none.
    public var server: String?
    /// How many other nodes there are.
    public var otherNodes = 0
    public var messagesOut: UInt64 = 0
    public var messagesIn: UInt64 = 0
    /// Messages that did not leave: without a connection, too large, or more than the servers read.
    public var dropped: UInt64 = 0
    /// Messages that came a second time, or were overtaken.
    public var copies: UInt64 = 0
    /// What came and cannot be read.
    public var illegible: UInt64 = 0
    /// Messages of QoS 1 and 2 that are in the cluster's log, and that did not get there.
    public var logWritten: UInt64 = 0
    public var logFailed: UInt64 = 0
    /// Records of the log that were read, and that had gone before they were.
    public var logRead: UInt64 = 0
    public var logLost: UInt64 = 0
    /// What an acknowledgement says, `synced` or `replicated`; nil if nobody knows.
    public var mode: String?
    /// The servers whose monitoring is asked.
    public var servers: [Server] = []
    /// Connections to servers that were lost.
    public var losses: UInt64 = 0
    /// Sessions that came from other nodes, went there, and began anew because the node that kept them was gone; clients that were refused
    /// because nobody could say who keeps their session.
    public var sessionsTaken: UInt64 = 0
    public var sessionsGiven: UInt64 = 0
    public var sessionsLost: UInt64 = 0
    public var claimsRefused: UInt64 = 0
    /// Sessions that were taken up from their records, without the nodes that had them.
    public var sessionsRestored: UInt64 = 0
    /// Sessions that have ended, and wills that this node has published, whose nodes were gone.
    public var sessionsExpired: UInt64 = 0
    public var willsOfOthers: UInt64 = 0
    /// All nodes that are known of, this one among them, in the order of their names.
    public var nodes: [AdministeredNode] = []
    /// Names that several nodes have: each is to have its own.
    public var sharedNames: [String] = []
    /// Changes of retained messages that the cluster has not confirmed yet.
    public var retainedWaiting = 0
    /// Streams for whose records the servers have no room.
    public var refusingStreams = 0

    public init(name: String) { self.name = name }

    /// A warning while messages are carried: nodes whose clocks differ.
    var warning: String? {
        let words = nodes.compactMap { node in node.clockTrouble.map { "\(node.shownName): \($0)" } }
        return words.isEmpty ? nil : words.joined(separator: "; ")
    }

    /// A server, and when it brings what it acknowledges to its disk.
    public struct Server: Sendable {
        public enum Syncs: Sendable {
            case always
            case everySeconds(Int64)
            case unknown(String)
        }

        public var address: String
        public var syncs: Syncs

        public init(address: String, syncs: Syncs) { (self.address, self.syncs) = (address, syncs) }
    }
}

/// A node of the cluster, as this one sees it.
public struct AdministeredNode: Sendable {
    public enum State: String, Sendable, CaseIterable {
        /// It has been heard of a moment ago.
        case up
        /// It holds a lease, and says nothing of itself.
        case silent
        /// It has said goodbye.
        case left
        /// The node is not there any more, and has not said goodbye.
        case gone
    }

    /// What a node has said of itself.
    public struct Figures: Sendable {
        public var version = ""
        /// Milliseconds since 1970.
        public var startedAt: UInt64 = 0
        public var clientsConnected: UInt64 = 0
        public var sessions: UInt64 = 0
        public var subscriptions: UInt64 = 0
        public var retainedMessages: UInt64 = 0
        public var storedMessages: UInt64 = 0
        /// Messages a second.
        public var receivedRate: UInt64 = 0
        public var sentRate: UInt64 = 0
        public var dropped: UInt64 = 0
        public var residentBytes: UInt64 = 0
        /// Processors that it keeps busy.
        public var processorLoad = 0.0
        /// Nil if it is well.
        public var trouble: String?
        /// The server that it is connected to.
        public var server: String?
        /// Where clients and people reach it; nil for nowhere that it knows of.
        public var address: String?
        public var dashboard: String?
        public var isDraining = false

        public init() {}
    }

    /// One run of a node.
    public var identifier: String
    /// Nil until it has said it.
    public var name: String?
    public var state: State
    public var isSelf: Bool
    /// Since when it is in this state, in milliseconds since 1970.
    public var since: UInt64
    public var figures: Figures?
    /// By how many seconds its clock is ahead of this node's, less than 0 for behind; nil for not known.
    public var clockOffset: Double?
    /// In words, if that is too much.
    public var clockTrouble: String?

    public init(identifier: String, name: String?, state: State, isSelf: Bool, since: UInt64, figures: Figures?) {
        (self.identifier, self.name, self.state) = (identifier, name, state)
        (self.isSelf, self.since, self.figures) = (isSelf, since, figures)
    }

    /// What people call it.
    var shownName: String { name ?? identifier }

    /// Whether it does anything: of another one its figures are what it has said last.
    var isThere: Bool { state == .up || state == .silent }
}

/// A request to another node for somebody whom this one knows.
public struct NodeRequest: Sendable, Equatable {
    public var method: String
    /// Path and query.
    public var target: String
    /// Where the page begins; nil at the beginning.
    public var cursor: String?
    public var role: AdministrationRole
    /// For the other node's audit.
    public var who: String

    public init(method: String, target: String, cursor: String?, role: AdministrationRole, who: String) {
        (self.method, self.target, self.cursor, self.role, self.who) = (method, target, cursor, role, who)
    }
}

/// What a node has answered.
public struct NodeResponse: Sendable {
    /// Its name, or its identifier.
    public var node: String
    /// nil if it did not in time.
    public var status: Int?
    public var body: [UInt8]

    public init(node: String, status: Int?, body: [UInt8]) { (self.node, self.status, self.body) = (node, status, body) }
}
