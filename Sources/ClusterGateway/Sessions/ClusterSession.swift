import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// What is under way of one session, as one node of the cluster sees it: whose it is `SessionOwnership` says.
///
/// It may come and go at the same time: a client comes back whose session is leaving still.
struct ClusterSession {
    /// Its client waits here for it.
    var coming: IncomingSession?
    /// Another node has asked for it.
    var going: OutgoingSession?
    /// It is kept here while other nodes may still act by earlier claims.
    var unsettled: UnsettledSession?
    /// It is over, and its record is to go.
    var ending: SessionEnding?
    /// What its shard has given for its record.
    var saves = SessionSaves()
    /// What is published of it by its node, or for nobody.
    var wills = SessionWills()
    /// It is claimed although no client has come, or is to be.
    var adoption = SessionAdoption()

    /// What there may be of a session, for which the others are not looked through.
    enum Part: CaseIterable {
        case coming
        case going
        case unsettled
        case ending
        case saves
        case wills
    }

    func has(_ part: Part) -> Bool {
        switch part {
        case .coming: coming != nil
        case .going: going != nil
        case .unsettled: unsettled != nil
        case .ending: ending != nil
        case .saves: !saves.isEmpty
        case .wills: !wills.isEmpty
        }
    }

    var isEmpty: Bool { adoption.isEmpty && Part.allCases.allSatisfy { !has($0) } }
}

/// The sessions of which something is under way, by Client Identifier.
///
/// Invariant: of the others nothing is kept.
struct SessionTable {
    private var sessions: [[UInt8]: ClusterSession] = [:]
    private var names: [ClusterSession.Part: Set<[UInt8]>] = [:]

    subscript(session: [UInt8]) -> ClusterSession {
        get { sessions[session] ?? ClusterSession() }
        set {
            let before = sessions[session]
            for part in ClusterSession.Part.allCases where newValue.has(part) != before?.has(part) ?? false {
                if newValue.has(part) {
                    names[part, default: []].insert(session)
                } else {
                    names[part]?.remove(session)
                }
            }
            sessions[session] = newValue.isEmpty ? nil : newValue
        }
    }

    /// Whether any session has it.
    func has(_ part: ClusterSession.Part) -> Bool { names[part]?.isEmpty == false }

    /// The sessions that have it, in order.
    func names(with part: ClusterSession.Part) -> [[UInt8]] {
        (names[part] ?? []).sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Takes something out of a session.
    mutating func take<Value>(_ part: WritableKeyPath<ClusterSession, Value?>, of session: [UInt8]) -> Value? {
        guard let value = sessions[session]?[keyPath: part] else { return nil }
        self[session][keyPath: part] = nil
        return value
    }

    /// Forgets what a node without a lease does not go on with: it still gives sessions to others, and ends some.
    mutating func endLease() {
        for (session, entry) in sessions {
            var kept = ClusterSession()
            (kept.going, kept.ending) = (entry.going, entry.ending)
            kept.going?.held = nil
            self[session] = kept
        }
    }
}

/// A record that is to go: what it is; nil while it is looked for.
struct SessionEnding {
    var found: (epoch: UInt64, number: UInt64)?
}

/// A client's session on its way to this node.
///
///     waiting ──► claiming ──► fetching ──► replaying
///        └───────────┴────────────┴──► over: its client is let in, or refused
struct IncomingSession {
    enum Stage {
        /// This node has no lease yet, or another node's client is to have the session first.
        case waiting
        /// `SessionOwnership` finds out who has it, and has them stop.
        case claiming
        case fetching(Fetch)
        /// All of it is here; its shard says when its client is let in.
        case replaying
    }

    /// Taking a session chunk by chunk from the node that kept it.
    struct Fetch {
        var source: NodeID
        var offer: SessionAnswer.Offer
        /// Of the chunk that is wanted, or that the shard has been given.
        var number = 0
        /// Whether the chunk is the last one; nil while it is on its way here.
        var isLast: Bool?
        /// When the chunk is to be asked for; nil while an answer is awaited.
        var asksAt: UInt64?
        /// Whether it is what stands in the cluster's record, because the node that kept it is gone.
        var isRestored = false
    }

    var claim: SessionClaim
    var stage: Stage
    /// When something came forward last.
    var progressAt: UInt64
    /// When its first client came.
    let beganAt: UInt64
    /// What becomes of the wills of its earlier connections.
    enum Wills {
        case unknown
        /// The wills that are due are to be found out.
        case owed
        case publishing
        /// The session itself is over, and is to leave the record as well.
        case forgetting
        /// None stands in the record any more.
        case cleared
    }

    var wills = Wills.unknown
    /// Whether the node that kept it up to now has answered, and so has published what was due.
    var hasSettledWills = false
    /// The node that has the session, is away, and is waited for: the client is to come again later.
    var awaits: NodeID?
    /// Whether the session's time was over before its client came.
    var hasExpired = false
    /// Whether no client has come: the session is restored because it ends, for what share groups have dispatched to
    /// it.
    var isForNobody = false
    /// What had been stored of a session that ends with this CONNECT, and does not stand in the record any more.
    var ended: SessionRecord.Saved?
    /// The record as others have left it; nil for none.
    var found: SessionRecord?
    var record: SessionRecord?
    /// The answers of the nodes, by their stores: which incarnation answered, and what it offers.
    var offers: [UInt32: (node: NodeID, offer: SessionAnswer.Offer?)] = [:]

    init(claim: SessionClaim, stage: Stage, now: UInt64) {
        (self.claim, self.stage, progressAt, beganAt) = (claim, stage, now, now)
    }

    /// Lets the client begin a new session: the old one had expired before it came, or has ended here.
    mutating func beginsAnew() { (claim.cleanStart, hasExpired) = (true, true) }

    /// The node that has what is newest of the session, if that is another one.
    var source: (node: NodeID, offer: SessionAnswer.Offer)? {
        var newest: (node: NodeID, offer: SessionAnswer.Offer)?
        for (_, found) in offers.sorted(by: { $0.key < $1.key }) {
            guard let offer = found.offer, offer.epoch > newest?.offer.epoch ?? 0 || newest == nil else { continue }
            newest = (found.node, offer)
        }
        guard let newest, claim.hasSession, claim.epoch >= newest.offer.epoch else { return newest }
        return nil
    }
}

/// A session on its way from this node to another.
struct OutgoingSession {
    let node: NodeID
    /// Of the claim that it goes by.
    let epoch: UInt64
    let offer: UInt64
    /// By which claim this node has kept it.
    var keptBy: UInt64 = 0
    /// The piece that waits to be fetched, or was.
    var piece: SessionChunk?
    /// The subject on which another node waits for the first chunk to come.
    var asker: Subject?
    /// The subject on which another node waits for a chunk, and that chunk's number.
    var fetcher: (reply: Subject, number: Int)?
    /// A piece that is given when the session's wills are in the log.
    var held: SessionChunk?
    /// Whether this node has kept it, and so sees to its wills before it answers.
    var hasSettledWills = false
    var touchedAt: UInt64
}

/// Sessions over which clients on several nodes fight: another node has claimed them from this one a moment ago, and
/// before that. Its client is to get there first, before one that has come here takes the session back. Else two
/// clients of one identifier that come again at once keep each other out for ever, because a claim ends the other one's
/// while the session is on its way.
///
/// Invariant: at most `Limits.contestedSessionsMax`; of others nobody waits.
struct ContestedSessions {
    private struct Contest {
        /// When another node has claimed the session last.
        var claimedAt: UInt64
        /// How long who comes here waits: from when on, and until when.
        var since: UInt64 = 0
        var until: UInt64 = 0
    }

    private var contests: [[UInt8]: Contest] = [:]
    /// When it is looked next which of them are over, if there is no room.
    private var looksAt: UInt64 = 0

    /// Another node has claimed a session. The first time is no fight: its client may have gone there.
    mutating func claimed(_ session: [UInt8], now: UInt64) {
        if contests.count >= Limits.contestedSessionsMax, now >= looksAt {
            looksAt = now + Limits.contestMilliseconds
            contests = contests.filter { now < $0.value.claimedAt + Limits.contestMilliseconds }
        }
        guard let before = contests[session], now < max(before.claimedAt + Limits.contestMilliseconds, before.until) else {
            if contests.count < Limits.contestedSessionsMax || contests[session] != nil {
                contests[session] = Contest(claimedAt: now)
            }
            return
        }
        contests[session]?.claimedAt = now
        extend(session, now: now, by: before)
    }

    /// The other node is being given a session.
    mutating func isGiven(_ session: [UInt8], now: UInt64) {
        if let contest = contests[session], contest.until > now { extend(session, now: now, by: contest) }
    }

    private mutating func extend(_ session: [UInt8], now: UInt64, by contest: Contest) {
        let since = contest.until > now ? contest.since : now
        contests[session]?.since = since
        contests[session]?.until = min(now + Limits.contestPauseMilliseconds, since + Limits.contestPauseMillisecondsMax)
    }

    /// Whether who has come here for a session waits for the other node's client to get it.
    func waits(_ session: [UInt8], now: UInt64) -> Bool { contests[session].map { now < $0.until } ?? false }
}

extension Limits {
    /// Within how long another node's claims of a session are a fight over it, in milliseconds.
    static let contestMilliseconds: UInt64 = 5000

    /// How long a client waits then, behind that claim and each piece of the session that the other node is given, in
    /// milliseconds.
    static let contestPauseMilliseconds: UInt64 = 1000

    /// How long at most, however long the session takes to get there.
    static let contestPauseMillisecondsMax: UInt64 = 10_000

    /// How many such sessions are remembered; the clients of others do not wait. Bytes: 64 KiB each.
    static let contestedSessionsMax = 10_000
}

/// A session that is kept here while another node may still act by an earlier claim.
struct UnsettledSession {
    let epoch: UInt64
    /// When its client was let in.
    let since: UInt64
    /// Whether it has ended, and its record has nothing of it any more.
    var isOver = false
    var isEmptied = false
}
