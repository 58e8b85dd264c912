import BrokerModel
import MQTTCodec

/// What a session that leaves is, in pieces: see `Departure` for their order.
///
///     stepDepartures ─► give ─► offerMore ─► PieceItem ─► ToCluster.leaving
///                                  └─► Effect.read ─► receivedRows(ofDeparture:)
extension BrokerShard {
    /// Gives pieces as far as the other node takes them and what they need is here.
    func give(_ departure: Departure) {
        while !departure.isAwaitingReceiver, departure.awaited.isEmpty, !departure.hasEnded {
            if departure.ready.isEmpty, departure.stage != .ended { offerMore(departure) }
            guard departure.awaited.isEmpty, let piece = departure.takePiece() else { continue }
            let identifier = Array(departure.session.clientIdentifier.bytes)
            effects.append(.cluster(.leaving(identifier: identifier, piece)))
        }
    }

    /// Makes some more ready, or asks the store for it.
    private func offerMore(_ departure: Departure) {
        switch departure.stage {
        case .settling, .ended: return
        case .session:
            var row = given(departure.session)
            // Whoever has the session next names its will anew; nodes of an earlier version know no names.
            row.willName = nil
            // The next one's clock may be behind.
            if let log = clusterLog { row.stepFloor = FlowStep.Place(epoch: departure.session.epoch, number: log.lastStep) }
            departure.offer(PieceItem.session(row, departure.places))
            if let stepFloor = departure.stepFloor { departure.offer(PieceItem.steps(after: stepFloor)) }
            departure.stage = .subscriptions
        case .subscriptions:
            let all = departure.subscriptions + departure.groups
            let end = min(all.count, departure.position + Limits.pieceItemsPerStep)
            for held in all[departure.position..<end] {
                departure.offer(PieceItem.subscription(held.filter, held.terms))
                if let stage = departure.session.owed?.stage(of: Array(held.filter.bytes)) {
                    departure.offer(PieceItem.owed(held.filter, stage))
                }
            }
            departure.position = end
            if end == all.count { (departure.stage, departure.position) = (.resident, 0) }
        case .resident: offerResident(departure)
        case .paged: offerPaged(departure)
        case .receipts:
            for receipt in departure.receipts {
                departure.offer(PieceItem.receipt(receipt.packetIdentifier, digest: receipt.digest))
            }
            departure.stage = .ended
        }
    }

    private func offerResident(_ departure: Departure) {
        guard let outbox = departure.outbox else { return }
        var bytes = 0
        while departure.position < outbox.count, departure.awaited.count < Limits.pieceItemsPerStep,
            departure.ready.count < Limits.pieceItemsPerStep, bytes < Limits.pieceBytesMax
        {
            let entry = outbox[departure.position]
            // What memory has is offered, or what the store has is asked for: not both at once, for the order's sake.
            if entry.isSwappedOut ? !departure.ready.isEmpty : !departure.awaited.isEmpty { break }
            departure.position += 1
            bytes += Int(entry.byteCount)
            offer(entry, departure)
        }
        if departure.position == outbox.count { (departure.stage, departure.position) = (.paged, 0) }
        readAwaited(departure)
    }

    private func offerPaged(_ departure: Departure) {
        var bytes = 0
        while departure.awaited.count < Limits.pieceItemsPerStep, departure.ready.count < Limits.pieceItemsPerStep,
            bytes < Limits.pieceBytesMax
        {
            if departure.isNextPagedStored ? !departure.ready.isEmpty : !departure.awaited.isEmpty { break }
            switch departure.nextPaged() {
            case .pinned(let entry):
                bytes += Int(entry.byteCount)
                offer(entry, departure)
            case .stored(let place):
                bytes += Int(place.byteCount)
                departure.awaited.append(Departure.Awaited(place: place, state: .waiting, packetIdentifier: 0, group: 0))
            case nil:
                departure.receipts = receipts(of: departure.session)
                departure.stage = .receipts
                return readAwaited(departure)
            }
        }
        readAwaited(departure)
    }

    func receipts(of session: Session) -> [(packetIdentifier: UInt16, digest: UInt32)] {
        var receipts: [(packetIdentifier: UInt16, digest: UInt32)] = []
        session.receivedIdentifiers.forEach { receipts.append(($0, session.receivedIdentifiers.digest(of: $0))) }
        return receipts.sorted { $0.packetIdentifier < $1.packetIdentifier }
    }

    private func offer(_ entry: OutboxEntry, _ departure: Departure) {
        let group = entry.group == 0 ? 0 : departure.groupPlaces[entry.group] ?? 0
        switch entry.state {
        case .vacant: return
        case .released: return departure.offer(PieceItem.released(packetIdentifier: entry.packetIdentifier))
        case .sent, .waiting: break
        }
        let state: PieceItem.EntryState = entry.packetIdentifier == 0 ? .waiting : .sent
        guard let message = entry.message?.object else {
            let payload = entry.payload?.number ?? 0
            let place = StoredPlace(number: entry.storeNumber, payload: payload, byteCount: entry.byteCount)
            departure.awaited.append(
                Departure.Awaited(place: place, state: state, packetIdentifier: entry.packetIdentifier, group: group))
            return
        }
        var header = EntryHeader(session: 0, qos: entry.qos, retain: entry.retain, byteCount: entry.byteCount, group: 0)
        header.name = entry.name
        let identifiers = entry.identifiers?.encoded ?? []
        let parts = MessageParts(Publication(message), expiresAt: wallClock(message.expiresAt))
        parts.bytes.withUnsafeBytes {
            departure.offer(
                PieceItem.entry(
                    state, header, packetIdentifier: entry.packetIdentifier, group: group, identifiers: identifiers, message: $0))
        }
    }

    private func readAwaited(_ departure: Departure) {
        guard !departure.awaited.isEmpty else { return }
        let session = departure.session
        var rows: [StoreRequest.Row] = []
        for awaited in departure.awaited {
            rows.append(StoreRequest.Row(.entry, key: awaited.place.number))
            if awaited.place.payload != 0 { rows.append(StoreRequest.Row(.message, key: awaited.place.payload)) }
        }
        var request = StoreRequest(sessionIndex: session.index, sessionKey: session.key, entries: [], rows: rows)
        request.departureRound = departure.round
        effects.append(.read(request))
    }

    /// Rows of a queue that leaves have been read.
    func receivedRows(_ answer: StoreRows, ofDeparture round: Int) {
        guard let moves = cluster?.moves, let departure = moves.departures[answer.request.sessionKey], departure.round == round
        else { return }
        var position = 0
        for awaited in departure.awaited {
            let body = answer.bodies[position]
            position += 1
            var shared: [UInt8]?
            if awaited.place.payload != 0 {
                shared = answer.bodies[position]
                position += 1
            }
            guard let body, let item = item(awaited, body, shared) else {
                log(.error) {
                    "Error: A message for client \(departure.session.clientIdentifier) (entry \(awaited.place.number)) cannot be read "
                        + "from the store; it stays behind."
                }
                continue
            }
            departure.offer(item)
        }
        departure.awaited = []
        moves.makeBusy(departure)
    }

    /// The item of an entry as its rows say; nil if they are damaged.
    private func item(_ awaited: Departure.Awaited, _ body: [UInt8], _ shared: [UInt8]?) -> [UInt8]? {
        body.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard let header = EntryHeader(&reader), let identifiers = reader.take(Int(header.identifiersLength)) else {
                return nil
            }
            func item(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
                var reader = RecordReader(message)
                guard MessageParts(&reader) != nil, reader.isAtEnd else { return nil }
                return PieceItem.entry(
                    awaited.state, header, packetIdentifier: awaited.packetIdentifier, group: awaited.group,
                    identifiers: Array(identifiers), message: message)
            }
            if header.isInline { return item(reader.rest) }
            return shared.flatMap { $0.withUnsafeBytes { item($0) } }
        }
    }
}

/// A session on its way to another node: what was taken from it, and how far it has been given away.
///
///     settling ─► session ─► subscriptions ─► resident ─► paged ─► receipts ─► ended
///
/// While it settles, what is still on its way to it arrives. Then its queue stands here, and nothing changes it. Its rows stay in the store. What its
/// share groups dispatch to it from then on has a queue of its own: other members get it when the session is gone, or
/// the session if that stays.
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
    /// Until when it has passed on to others what its share groups had dispatched to it, or has got such from them; nil
    /// if it never has.
    var passedOn: Durability.Moment?
    var groups: [HeldSubscription] = []
    /// By serial number, the place of each share group among them, from 1 on.
    var groupPlaces: [UInt32: UInt16] = [:]
    var stage = Stage.settling
    /// Until when it waits for what is on its way, in milliseconds; nil when it does not.
    var deadline: UInt64?
    /// Whether everything is here that other shards' share groups had dispatched to it before.
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
