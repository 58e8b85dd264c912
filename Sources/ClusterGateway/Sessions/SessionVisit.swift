import BrokerCore
import Cluster
import NATSClient

/// A client's session on its way to this node.
///
///     waiting ──► claiming ──► fetching ──► replaying
///        └───────────┴────────────┴──► over: its client is let in, or refused
struct SessionVisit {
    enum Stage {
        /// This node has no lease yet.
        case waiting
        /// `SessionKeeper` finds out who has it, and has them stop.
        case claiming
        case fetching(Fetch)
        /// All of it is here; its shard says when its client is let in.
        case replaying
    }

    /// Taking a session piece by piece from the node that kept it.
    struct Fetch {
        var source: NodeID
        var offer: SessionAnswer.Offer
        /// Of the piece that is wanted, or that the shard has been given.
        var number = 0
        /// Whether the piece is the last one; nil while it is on its way here.
        var isLast: Bool?
        /// When the piece is to be asked for; nil while an answer is awaited.
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
    /// Whether no client has come: the session is taken up because it ends, for what share groups have dealt it.
    var isForNobody = false
    /// What had been stored of a session that ends with this CONNECT, and does not stand in the record any more.
    var ended: SessionRecord.Saved?
    /// The record as it was found.
    var found: SessionRecord?
    var record: SessionRecord?
    /// What nodes with these stores have answered: who it was, and what they have.
    var offers: [UInt32: (node: NodeID, offer: SessionAnswer.Offer?)] = [:]

    init(shard: Int, claim: SessionClaim, stage: Stage, now: UInt64) {
        (self.shard, self.claim, self.stage, progressAt, beganAt) = (shard, claim, stage, now, now)
    }

    /// The session's time was over before its client came, or it has ended here: the client begins a new one.
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
struct SessionDeparture {
    let shard: Int
    let node: NodeID
    /// Of the claim that it goes by.
    let epoch: UInt64
    let offer: UInt64
    /// By which claim this node has kept it.
    var keptBy: UInt64 = 0
    /// The piece that waits to be fetched, or was.
    var piece: SessionPiece?
    /// The subject on which another node waits for the first piece to come.
    var asker: Subject?
    /// The subject on which another node waits for a piece, and that piece's number.
    var fetcher: (reply: Subject, number: Int)?
    /// Whether this node has kept it, and so sees to its wills before it answers.
    var hasSettledWills = false
    var touchedAt: UInt64
}
