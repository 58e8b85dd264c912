import BrokerModel
import Bytes
import MQTTCodec

/// What a session that leaves is, in chunks: see `SessionExport` for their order.
///
///     stepExports ─► give ─► offerMore ─► ChunkItem ─► ToCluster.leaving
///                                  └─► Effect.read ─► receivedRows(ofExport:)
extension SessionDepartures {
    /// Gives pieces as far as the other node takes them and what they need is here.
    func give(_ export: SessionExport) {
        while !export.isAwaitingReceiver, export.awaited.isEmpty, !export.hasEnded {
            if export.ready.isEmpty, export.stage != .ended { offerMore(export) }
            guard export.awaited.isEmpty, let piece = export.takeSessionChunk() else { continue }
            shard.effects.append(.cluster(.leaving(identifier: export.session.clientIdentifier.bytes, piece)))
        }
    }

    /// Makes some more ready, or asks the store for it.
    private func offerMore(_ export: SessionExport) {
        switch export.stage {
        case .settling, .ended: return
        case .session:
            var row = shard.sessionRows.given(export.session)
            // Whoever has the session next names its will anew.
            row.willName = nil
            // The next one's clock may be behind.
            if let log = shard.clusterLog {
                row.stepFloor = FlowStep.Place(epoch: export.session.cluster.epoch, number: log.lastStep)
            }
            export.offer(ChunkItem.session(row, export.places))
            if let stepFloor = export.stepFloor { export.offer(ChunkItem.steps(after: stepFloor)) }
            if let done = export.done { export.offer(ChunkItem.done(done)) }
            export.stage = .subscriptions
        case .subscriptions:
            let all = export.subscriptions + export.groups
            let end = min(all.count, export.position + Limits.chunkItemsPerStep)
            for held in all[export.position..<end] {
                export.offer(ChunkItem.subscription(held.filter, held.terms))
                if let stage = export.session.owed?.stage(of: Array(held.filter.bytes)) {
                    export.offer(ChunkItem.owed(held.filter, stage))
                }
            }
            export.position = end
            if end == all.count { (export.stage, export.position) = (.queue, 0) }
        case .queue: offerQueue(export)
        case .receipts:
            for receipt in export.receipts { export.offer(ChunkItem.receipt(receipt)) }
            export.stage = .ended
        }
    }

    private func offerQueue(_ export: SessionExport) {
        var bytes = 0
        while export.awaited.count < Limits.chunkItemsPerStep, export.ready.count < Limits.chunkItemsPerStep,
            bytes < Limits.sessionChunkBytesMax
        {
            // What memory has is offered, or what the store has is asked for: not both at once, for the order's sake.
            if export.isNextStored ? !export.ready.isEmpty : !export.awaited.isEmpty { break }
            switch export.takeNext() {
            case .known(let entry):
                bytes += Int(entry.byteCount)
                offer(entry, export)
            case .stored(let place):
                bytes += Int(place.byteCount)
                export.awaited.append(SessionExport.Awaited(place: place, state: .waiting, packetIdentifier: 0, group: 0))
            case nil:
                export.receipts = receipts(of: export.session)
                export.stage = .receipts
                return readAwaited(export)
            }
        }
        readAwaited(export)
    }

    func receipts(of session: Session) -> [SessionProgress.Receipt] {
        var receipts: [SessionProgress.Receipt] = []
        session.receivedIdentifiers.forEach {
            receipts.append(SessionProgress.Receipt(packetIdentifier: $0, digest: session.receivedIdentifiers.digest(of: $0)))
        }
        return receipts.sorted { $0.packetIdentifier < $1.packetIdentifier }
    }

    private func offer(_ entry: QueueEntry, _ export: SessionExport) {
        let group = entry.group == 0 ? 0 : export.groupPlaces[entry.group] ?? 0
        switch entry.state {
        case .vacant: return
        case .released: return export.offer(ChunkItem.released(packetIdentifier: entry.packetIdentifier))
        case .sent, .waiting: break
        }
        let state: ChunkItem.EntryState = entry.packetIdentifier == 0 ? .waiting : .sent
        guard let message = entry.message?.object else {
            let payload = entry.payload?.number ?? 0
            let place = PagedEntry(number: entry.storeNumber, payload: payload, byteCount: entry.byteCount)
            export.awaited.append(
                SessionExport.Awaited(place: place, state: state, packetIdentifier: entry.packetIdentifier, group: group))
            return
        }
        var header = EntryHeader(session: 0, qos: entry.qos, retain: entry.retain, byteCount: entry.byteCount, group: 0)
        header.name = entry.name
        let identifiers = entry.identifiers?.encoded ?? []
        let parts = MessageParts(Publication(message), expiresAt: shard.wallClock(message.expiresAt))
        parts.bytes.withUnsafeBytes {
            export.offer(
                ChunkItem.entry(
                    state, header, packetIdentifier: entry.packetIdentifier, group: group, identifiers: identifiers, message: $0))
        }
    }

    private func readAwaited(_ export: SessionExport) {
        guard !export.awaited.isEmpty else { return }
        let session = export.session
        var rows: [StoreRequest.Row] = []
        for awaited in export.awaited {
            rows.append(StoreRequest.Row(.entry, key: awaited.place.number))
            if awaited.place.payload != 0 { rows.append(StoreRequest.Row(.message, key: awaited.place.payload)) }
        }
        var request = StoreRequest(sessionIndex: session.index, sessionKey: session.key, entries: [], rows: rows)
        request.departureRound = export.round
        shard.effects.append(.read(request))
    }

    /// Rows of a queue that leaves have been read.
    func receivedRows(_ answer: StoreRows, ofExport round: Int) {
        guard let moves = shard.cluster?.moves, let export = moves.underWay[answer.request.sessionKey]?.export,
            export.round == round
        else { return }
        var position = 0
        for awaited in export.awaited {
            let body = answer.bodies[position]
            position += 1
            var shared: [UInt8]?
            if awaited.place.payload != 0 {
                shared = answer.bodies[position]
                position += 1
            }
            guard let body, let item = item(awaited, body, shared) else {
                shard.log(.error) {
                    "Error: A message for client \(export.session.clientIdentifier) (entry \(awaited.place.number)) cannot be read "
                        + "from the store; it stays behind."
                }
                continue
            }
            export.offer(item)
        }
        export.awaited = []
        moves.makeBusy(export)
    }

    /// The item of an entry as its rows say; nil if they are damaged.
    private func item(_ awaited: SessionExport.Awaited, _ body: [UInt8], _ shared: [UInt8]?) -> [UInt8]? {
        body.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard let header = EntryHeader(&reader), let identifiers = reader.take(Int(header.identifiersLength)) else {
                return nil
            }
            func item(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
                var reader = RecordReader(message)
                guard MessageParts(&reader) != nil, reader.isAtEnd else { return nil }
                return ChunkItem.entry(
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
///     settling ─► session ─► subscriptions ─► queue ─► receipts ─► ended
///
/// While it settles, what is still on its way to it arrives. Then its queue stands here, and nothing changes it. Its
/// rows stay in the store. What its share groups dispatch to it from then on has a queue of its own: other members get
/// it when the session is gone, or the session if that stays.
final class SessionExport {
    enum Stage {
        case settling, session, subscriptions, queue, receipts, ended
    }

    struct HeldSubscription {
        let filter: TopicFilter
        let terms: SubscriptionTerms
        /// The key of its row.
        let storeNumber: UInt64
    }

    /// An entry whose rows are being read.
    struct Awaited {
        let place: PagedEntry
        let state: ChunkItem.EntryState
        let packetIdentifier: UInt16
        let group: UInt16
    }

    let session: Session
    /// Up to where it has been given the log, and before what it has nothing left to do, if that is known.
    let places: LogPositions
    let done: LogPositions?
    /// The subscriptions that were taken from the session: all of them when it has settled.
    var subscriptions: [HeldSubscription] = []
    /// Where the next owner begins to learn what the log says of it, if this node has not read all of that; nil if it
    /// has.
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
    var queue: SessionQueue?
    /// Where the next one of the stage stands.
    var position = 0
    /// What of the paged part of the queue was not given yet.
    private(set) var pagedNumbers = SiftedNumbers()
    private var pinnedEntries = Deque<QueueEntry>()
    var receipts: [SessionProgress.Receipt] = []
    /// Items that are in no chunk yet.
    var ready: [[UInt8]] = []
    var piece: [UInt8] = []
    var sessionChunkNumber = 0
    /// Whether the last chunk was given.
    private(set) var hasEnded = false
    /// Whether the other node has not confirmed the last chunk.
    var isAwaitingReceiver = false
    /// The rows that the store was asked for; empty when it was not.
    var awaited: [Awaited] = []
    /// Tells a question to the store from those before the export began anew.
    var round = 0

    init(_ session: Session, places: LogPositions, done: LogPositions?) {
        (self.session, self.places, self.done) = (session, places, done)
    }

    /// Begins at the first chunk.
    func begin() {
        stage = .session
        (position, sessionChunkNumber, isAwaitingReceiver, hasEnded) = (0, 0, false, false)
        (ready, piece, awaited) = ([], [ChunkItem.version], [])
        round += 1
        pagedNumbers = queue?.paged?.numbers ?? SiftedNumbers()
        pinnedEntries = queue?.paged?.pinned ?? []
        pinnedEntries.append(contentsOf: queue?.paged?.arriving ?? [])
    }

    /// What comes next of the queue.
    enum Next {
        case known(QueueEntry)
        case stored(PagedEntry)
    }

    /// nil behind the end of the queue, whose paged part comes last.
    func takeNext() -> Next? {
        if let queue, position < queue.count {
            position += 1
            return .known(queue[position - 1])
        }
        while true {
            switch pagedNumbers.popFirst() {
            case .stored(let place): return .stored(place)
            case .pinned, nil:
                // Behind the numbers stands what is not durable yet.
                guard let entry = pinnedEntries.popFirst() else { return nil }
                if entry.state != .vacant { return .known(entry) }
            }
        }
    }

    /// Whether the next one is to be read.
    var isNextStored: Bool {
        if let queue, position < queue.count { return queue[position].isSwappedOut }
        return if case .stored = pagedNumbers.first() { true } else { false }
    }

    /// An item to be given, in the next chunk that has room.
    func offer(_ item: [UInt8]) { ready.append(item) }

    /// The piece, if it is full or nothing follows.
    func takeSessionChunk() -> SessionChunk? {
        var taken = 0
        var isFull = false
        while taken < ready.count, !isFull {
            if piece.count > 1, piece.count + ready[taken].count > Limits.sessionChunkBytesMax {
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
            piece = [ChunkItem.version]
            sessionChunkNumber += 1
        }
        (isAwaitingReceiver, hasEnded) = (true, isLast)
        return SessionChunk(number: sessionChunkNumber, isLast: isLast, bytes: piece, epoch: session.cluster.epoch)
    }
}

extension Limits {
    /// Subscriptions or messages of it that are made ready at a time.
    static let chunkItemsPerStep = 256
}
