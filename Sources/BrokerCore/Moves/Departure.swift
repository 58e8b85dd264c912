import BrokerModel
import MQTTCodec

/// A session on its way to another node: what was taken from it, and how far it has been given away.
///
///     settling ─► session ─► subscriptions ─► resident ─► paged ─► receipts ─► ended
///
/// While it settles, what is still on its way to it arrives. Then its queue stands here, and nothing changes it. Its rows stay in the store. What its
/// share groups deal it from then on has a queue of its own: other members get it when the session is gone, or the session if that stays.
final class Departure {
    enum Stage {
        case settling, session, subscriptions, resident, paged, receipts, ended
    }

    struct HeldSubscription {
        let filter: TopicFilter
        let terms: SubscriptionTerms
        /// The key of its row.
        let storeNumber: UInt64
    }

    /// An entry whose rows are being read.
    struct Awaited {
        let place: StoredPlace
        let state: PieceItem.EntryState
        let packetIdentifier: UInt16
        let group: UInt16
    }

    let session: Session
    /// Up to where it has been given the log.
    let places: LogPlaces
    /// The subscriptions that were taken from the session: all of them when it has settled.
    var subscriptions: [HeldSubscription] = []
    /// Where the next keeper begins to learn what the log says of it, if this node has not read all of that; nil if it has.
    var stepFloor: FlowStep.Place?
    /// Until when it has passed on to others what its share groups had dealt it, or has got such from them; nil if it never has.
    var passedOn: Durability.Moment?
    var groups: [HeldSubscription] = []
    /// By serial number, the place of each share group among them, from 1 on.
    var groupPlaces: [UInt32: UInt16] = [:]
    var stage = Stage.settling
    /// Until when it waits for what is on its way, in milliseconds; nil when it does not.
    var deadline: UInt64?
    /// Whether everything is here that other shards' share groups had dealt it before.
    var isBarrierPassed = true
    /// Its queue; nil while it settles.
    var outbox: Outbox?
    /// Where the next one of the stage stands.
    var position = 0
    /// What of the paged part of the queue was not given yet.
    private(set) var pagedNumbers = SiftedNumbers()
    private var pinnedEntries: ArraySlice<OutboxEntry> = []
    var receipts: [(packetIdentifier: UInt16, digest: UInt32)] = []
    /// Items that are in no piece yet.
    var ready: [[UInt8]] = []
    var piece: [UInt8] = []
    var pieceNumber = 0
    /// Whether the last piece was given.
    private(set) var hasEnded = false
    /// Whether the other node has not confirmed the last piece.
    var isAwaitingReceiver = false
    /// The rows that the store was asked for; empty when it was not.
    var awaited: [Awaited] = []
    /// Tells a question to the store from those before the export began anew.
    var round = 0

    init(_ session: Session, places: LogPlaces) { (self.session, self.places) = (session, places) }

    /// Begins at the first piece.
    func begin() {
        stage = .session
        (position, pieceNumber, isAwaitingReceiver, hasEnded) = (0, 0, false, false)
        (ready, piece, awaited) = ([], [PieceItem.version], [])
        round += 1
        pagedNumbers = outbox?.paged?.numbers ?? SiftedNumbers()
        pinnedEntries = outbox?.paged?.pinned.entries ?? []
        pinnedEntries += outbox?.paged?.arriving.entries ?? []
    }

    /// What comes next of the paged part; nil behind its end.
    enum Paged {
        case pinned(OutboxEntry)
        case stored(StoredPlace)
    }

    func nextPaged() -> Paged? {
        while true {
            switch pagedNumbers.popFirst() {
            case .stored(let place): return .stored(place)
            case .pinned, nil:
                // Behind the numbers stands what is not durable yet.
                guard let entry = pinnedEntries.popFirst() else { return nil }
                if entry.state != .vacant { return .pinned(entry) }
            }
        }
    }

    /// Whether the next one is to be read.
    var isNextPagedStored: Bool { if case .stored = pagedNumbers.first() { true } else { false } }

    /// An item to be given, in the next piece that has room.
    func offer(_ item: [UInt8]) { ready.append(item) }

    /// The piece, if it is full or nothing follows.
    func takePiece() -> SessionPiece? {
        var taken = 0
        var isFull = false
        while taken < ready.count, !isFull {
            if piece.count > 1, piece.count + ready[taken].count > Limits.pieceBytesMax {
                isFull = true
            } else {
                piece += ready[taken]
                taken += 1
            }
        }
        ready.removeFirst(taken)
        let isLast = stage == .ended && ready.isEmpty
        guard isFull || isLast else { return nil }
        defer {
            piece = [PieceItem.version]
            pieceNumber += 1
        }
        (isAwaitingReceiver, hasEnded) = (true, isLast)
        return SessionPiece(number: pieceNumber, isLast: isLast, bytes: piece, epoch: session.epoch)
    }
}
