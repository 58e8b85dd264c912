import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// A client's session on its way to this node.
///
///     waiting ──► claiming ──► fetching ──► replaying
///        └───────────┴────────────┴──► over: its client is let in, or refused
struct SessionVisit {
    enum Stage {
        /// This node has no lease yet.
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

    let shard: Int
    var claim: SessionClaim
    var stage: Stage
    /// When something came forward last.
    var progressAt: UInt64
    /// When its first client came.
    let beganAt: UInt64
    /// The record as others have left it; nil for none.
    var previous: SessionRecord?
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
    /// The record as it was found.
    var found: SessionRecord?
    var record: SessionRecord?
    /// The answers of the nodes, by their stores: which incarnation answered, and what it offers.
    var offers: [UInt32: (node: NodeID, offer: SessionAnswer.Offer?)] = [:]

    init(shard: Int, claim: SessionClaim, stage: Stage, now: UInt64) {
        (self.shard, self.claim, self.stage, progressAt, beganAt) = (shard, claim, stage, now, now)
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
    let shard: Int
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
    /// Whether this node has kept it, and so sees to its wills before it answers.
    var hasSettledWills = false
    var touchedAt: UInt64
}

/// Clients that begin anew: they need nothing of the node that has kept their session, so they wait for its answer a
/// moment, and not until its lease has ended.
///
///     claiming ── no answer ──► kept, unsettled ── it has stopped, or its lease has ended ──► kept
///                                     └── the session ends meanwhile: its record stays until then, so that whoever comes next asks too
extension SessionCoordinator {
    /// Lets clients in whose claims stand, and that nobody has answered in time.
    func letInUnsettled() {
        for (session, visit) in visits where now >= visit.beganAt + Limits.sessionMessageMillisecondsMax {
            guard case .claiming = visit.stage, visit.record == nil, needsNobody(visit) else { continue }
            owner?.keepUnsettled(session, self)
            guard let epoch = owner?.epoch(of: session), owner?.isSettled(session) == false else { continue }
            unsettled[session] = UnsettledSession(epoch: epoch, since: now)
        }
    }

    /// Whether a client begins anew, and nothing of what it had is owed to anybody: no will, and nothing that share
    /// groups may have dispatched to it.
    private func needsNobody(_ visit: SessionVisit) -> Bool {
        guard visit.claim.cleanStart, !visit.isForNobody, let found = visit.found, found.wills.isEmpty else { return false }
        return found.saved.map { !SavedSession.isMember(state: $0.state) } ?? true
    }

    func tickUnsettled() {
        letInUnsettled()
        for (session, entry) in unsettled {
            guard owner?.keeps(session) == true, owner?.epoch(of: session) == entry.epoch else {
                unsettled[session] = nil
                continue
            }
            guard owner?.isSettled(session) == false else {
                unsettled[session] = nil
                if entry.isOver { releaseAndEnd(session) }
                continue
            }
            if entry.isOver, !entry.isEmptied { empty(session) }
            guard now >= entry.since + Limits.sessionClaimMillisecondsMax else { continue }
            // The other node holds its lease and cannot be reached from here: the client would be connected twice for
            // as long as that lasts.
            unsettled[session] = nil
            owner?.release(session)
            if let shard = shard(of: session) { post(.sessionGone(session), to: shard) }
            log(
                .warning,
                "client \(Self.name(session)) is disconnected: another node that had its session holds its lease, and does not answer."
            )
        }
    }

    /// Ends a session that other nodes may still believe to own; false if it is not such a session.
    func endsUnsettled(_ session: [UInt8]) -> Bool {
        guard let entry = unsettled[session], owner?.epoch(of: session) == entry.epoch, owner?.isSettled(session) == false else {
            return false
        }
        unsettled[session]?.isOver = true
        empty(session)
        return true
    }

    /// Empties the record of a session that is over, so that no node restores it.
    private func empty(_ session: [UInt8]) {
        let isOnItsWay = owner?.save(session, hasAll: true, now: now, self) {
            ($0.wills, $0.awaySince, $0.expiryInterval, $0.saved) = ([], 0, 0, nil)
        }
        unsettled[session]?.isEmptied = isOnItsWay == true
    }
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

/// Clients that are refused because the node that has their sessions is away: of each node the first one is told of by
/// itself, the others from time to time by their number.
struct AwaitedNodes {
    private struct Refused {
        var count: UInt64 = 0
        var loggedAt: UInt64
    }

    private var refused: [NodeID: Refused] = [:]

    /// Whether nothing is to be told any more.
    var isEmpty: Bool { refused.isEmpty }

    /// A client is refused on account of a node; returns whether that is to be told by itself.
    mutating func refuses(for node: NodeID, now: UInt64) -> Bool {
        guard refused[node] != nil else {
            refused[node] = Refused(loggedAt: now)
            return true
        }
        refused[node]?.count += 1
        return false
    }

    /// How many more clients were refused, by node, where that is to be logged now. Nodes for which there were none for
    /// a while are forgotten.
    mutating func due(now: UInt64) -> [(node: NodeID, count: UInt64)] {
        var due: [(node: NodeID, count: UInt64)] = []
        for (node, entry) in refused.sorted(by: { $0.key < $1.key })
        where now >= entry.loggedAt + Limits.awaitedLoggedMilliseconds {
            refused[node] = entry.count == 0 ? nil : Refused(loggedAt: now)
            if entry.count > 0 { due.append((node, entry.count)) }
        }
        return due
    }
}

/// By which claim of another node each session was given up here, with its wills settled; all are forgotten for the
/// next one when there are too many.
///
/// Invariant: at most `Limits.sessionDropsMax`, whose names have `Limits.sessionNameBytesMax`. Belongs to a
/// `SessionCoordinator`.
struct SettledClaims {
    private var epochs: [[UInt8]: UInt64] = [:]
    private var byteCount = 0

    subscript(session: [UInt8]) -> UInt64? { epochs[session] }

    mutating func insert(_ session: [UInt8], _ epoch: UInt64) {
        if epochs[session] == nil {
            if epochs.count >= Limits.sessionDropsMax || byteCount + session.count > Limits.sessionNameBytesMax {
                (epochs, byteCount) = ([:], 0)
            }
            byteCount += session.count
        }
        epochs[session] = epoch
    }
}

extension Limits {
    /// How often it is told how many clients were refused because the node that has their sessions is away, in
    /// milliseconds.
    static let awaitedLoggedMilliseconds: UInt64 = 10_000
}
