import BrokerModel
import MQTTCodec

/// What a session that leaves is, in pieces: see `Departure` for their order.
///
///     stepDepartures ─► give ─► offerMore ─► PieceItem ─► ClusterNote.leaving
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
