internal import ClientCore
internal import ClientStore
internal import Platform

/// What the loop does with the client's store.
extension ClientEngine {
    /// Milliseconds since 1970.
    var wallNow: UInt64 { loop.wallMilliseconds() }

    /// What that is ahead of the loop's clock by.
    var wallOffset: UInt64 {
        let (wall, now) = (wallNow, loop.now)
        return wall - min(wall, now)
    }

    /// The part of a turn's end that the store has: messages of the outbox go into the session, what has changed goes
    /// to the store.
    func endRecordsTurn(now: UInt64) {
        guard let records else { return }
        sendOutbox(records, now: now)
        for sink in records.inboxes.values where sink.nextExpiry != nil { sink.trimIfDue(records, now: wallNow) }
        if records.collect(session.takeChanges()) {
            for sink in records.inboxesInOrder { records.add(sink.book.sessionLost()) }
        }
        records.commit(for: self)
        commitAdditions(records)
        tellPlaces(records)
        // Behind the commits, so that what is read is what was written.
        read(records)
        records.gate.turnEnded(pending: session.outputByteCount)
    }

    /// When the outbox wants a turn.
    var recordsDeadline: UInt64? {
        guard let records else { return nil }
        // A store that has failed is read no more.
        let sweep = records.failure == nil ? records.outbox.nextSweep : nil
        var expiry = min(records.outbox.nextExpiry ?? .max, sweep ?? .max)
        if records.failure == nil {
            for case let next? in records.inboxes.values.map(\.nextExpiry) { expiry = min(expiry, next) }
        }
        if expiry == .max { return nil }
        let wall = wallNow
        return loop.now + (expiry > wall ? expiry - wall : 0)
    }

    func committed(_ number: UInt64, _ error: StoreError?) {
        guard let records else { return }
        guard let error else {
            for sequel in records.committed(number) { sequel(self, nil) }
            return
        }
        storeFailed(error)
    }

    /// Nothing can be promised any more.
    func storeFailed(_ error: StoreError) {
        guard let records, records.failure == nil else { return }
        let error = error == .closed ? ClientError.ended : ClientError(error)
        records.failure = error
        endRecords()
        if error != .ended { giveUpForStore(error) }
    }

    /// The client has ended: nobody waits for the store any more.
    func endRecords() {
        guard let records else { return }
        if records.failure == nil { records.failure = .ended }
        for call in records.blocked.removeAll() { call.call.complete(.failure(records.failure ?? .ended)) }
        for sequel in records.giveUp() { sequel(self, records.failure) }
        for sink in records.inboxesInOrder { sink.core.ended() }
        records.owners.end()
        records.board.end()
    }

    /// Tells the followers of queued messages how many messages are ahead of theirs.
    private func tellPlaces(_ records: ClientRecords) {
        guard records.outbox.count != records.toldCount else { return }
        records.toldCount = records.outbox.count
        for number in records.board.numbers(most: Limits.toldPlacesMax)
        where records.outbox.contains(number) && !records.outbox.isInFlight(number) {
            records.board.set(number, .queued(ahead: records.outbox.countAhead(of: number)))
        }
    }

    private func read(_ records: ClientRecords) {
        guard records.failure == nil else { return }
        if let query = records.outbox.nextReading() {
            records.storage.read(query) { [weak self] result in
                self?.post(
                    .records { engine in
                        guard let records = engine.records else { return }
                        switch result {
                        case .success(let rows):
                            let changes = records.outbox.read(rows, of: query)
                            records.add(changes)
                            for case .remove(_, let key) in changes {
                                guard let number = key.lastNumber else { continue }
                                records.tell(number, .failed(.store("the message in the outbox is damaged")))
                            }
                        case .failure(let error): engine.storeFailed(error)
                        }
                    })
            }
        }
        sweepOutbox(records)
        for sink in records.spillsInOrder { sink.read(self, records) }
    }
}

// MARK: - Outbox

extension ClientEngine {
    /// Looks for messages that are too old among those that only the store has.
    private func sweepOutbox(_ records: ClientRecords) {
        guard let query = records.outbox.sweepReading(now: wallNow) else { return }
        records.storage.read(query) { [weak self] result in
            self?.post(
                .records { engine in
                    guard let records = engine.records else { return }
                    switch result {
                    case .success(let rows):
                        let (expired, changes) = records.outbox.swept(rows, of: query, now: engine.wallNow)
                        records.add(changes)
                        for number in expired { records.tell(number, .expired) }
                        if !expired.isEmpty { engine.releaseBlockedEnqueues(records) }
                    case .failure(let error): engine.storeFailed(error)
                    }
                })
        }
    }
}

extension ClientEngine {
    func enqueue(_ call: EnqueueCall) {
        guard let records else {
            call.call.complete(.failure(.settings("enqueue needs a store: set settings.store")))
            return
        }
        if call.call.isOver { return }
        if let error = records.failure ?? endedError {
            call.call.complete(.failure(error))
            return
        }
        guard !records.blocked.isEmpty || !records.outbox.hasRoom(for: call.publication) else { return add(call, records) }
        switch records.whenFull {
        case .wait: records.blocked.append(call)
        case .refuse: call.call.complete(.failure(.queueFull))
        case .dropOldest:
            while !records.outbox.hasRoom(for: call.publication), let dropped = records.outbox.dropOldest() {
                records.add([dropped.change])
                records.tell(dropped.message.number, .failed(.queueFull))
            }
            if records.outbox.hasRoom(for: call.publication) {
                add(call, records)
            } else {
                call.call.complete(.failure(.queueFull))
            }
        }
    }

    private func add(_ call: EnqueueCall, _ records: ClientRecords) {
        var publication = call.publication
        if case .inbox(let name, _) = call.destination {
            guard records.inboxes[name] != nil else {
                call.call.complete(.failure(.ended))
                return
            }
            publication.properties.sentAt = wallNow
        }
        let (message, change) = records.outbox.add(publication, now: wallNow)
        var addition = ClientRecords.Addition(call: call, message: message, changes: [change], byteCount: change.byteCount)
        switch call.destination {
        case .none: break
        case .collection(let name, _): addition.owner = .collection(name)
        case .inbox(let name, let conversation):
            if let own = records.inboxes[name]?.book.sent(message.publication, in: conversation, now: wallNow) {
                addition.own = own
                addition.owner = .inbox(name, conversation: own.message.conversation, number: own.message.number)
            }
        }
        if let owner = addition.owner { addition.changes.append(owner.put(message.number)) }
        records.additions.append(addition)
    }

    private func commitAdditions(_ records: ClientRecords) {
        guard !records.additions.isEmpty else { return }
        var additions = records.additions
        records.additions = []
        for (place, addition) in additions.enumerated() { additions[place].changes += records.ownChanges(addition) }
        if let error = records.failure {
            for addition in additions { addition.call.call.complete(.failure(error)) }
            return
        }
        let batch = StoreBatch(additions.flatMap(\.changes), waitsForRoom: false)
        // Captured for the loop's own thread, which alone looks at them.
        let box = LoopOwned(additions)
        records.storage.commit(batch) { [weak self] error in self?.post(.records { $0.added(box.value, error) }) }
    }

    private func added(_ additions: [ClientRecords.Addition], _ error: StoreError?) {
        guard let records else { return }
        if let error {
            for addition in additions.reversed() {
                records.outbox.notStored(addition.message.number, byteCount: addition.byteCount)
                records.ownNotStored(addition)
            }
            for addition in additions {
                addition.call.call.complete(.failure(error == .closed ? .ended : ClientError(error)))
            }
            if case .noRoom = error { return releaseBlockedEnqueues(records) }
            return storeFailed(error)
        }
        if let last = additions.last { records.outbox.stored(through: last.message.number) }
        for addition in additions {
            let message = addition.message
            if let owner = addition.owner { records.owners.add(owner, of: message.number, addition.call.observer) }
            if let own = addition.own { addition.call.item.withLock { $0 = own.message } }
            let tracking = records.board.tracking(
                message.number, byteCount: addition.byteCount, .queued(ahead: records.outbox.countAhead(of: message.number)))
            addition.call.call.complete(
                .success(
                    Delivery(id: message.identifier ?? "\(message.number)", topic: message.publication.topic, tracking: tracking)))
        }
    }

    /// Hands the session what its window takes.
    private func sendOutbox(_ records: ClientRecords, now: UInt64) {
        let countBefore = records.outbox.count
        while let next = records.outbox.next(now: wallNow, maySend: session.windowRoom > 0 && records.failure == nil) {
            switch next {
            case .expired(let message):
                records.add([.remove(.outbox, StoreKey(message.number))])
                records.tell(message.number, .expired)
            case .send(let message): send(message, records, now: now)
            }
        }
        handleEvents()
        if records.outbox.count < countBefore { releaseBlockedEnqueues(records) }
    }

    private func send(_ message: OutboxMessage, _ records: ClientRecords, now: UInt64) {
        records.leaves(message, isUnnamed: session.options.version != .v5, now: wallNow)
        do throws(RequestRefusal) {
            let ticket = try session.publish(message.publication(at: wallNow), now: now)
            guard message.publication.qos > .atMostOnce else { return over(message.number, .acknowledged, records) }
            records.flights[ticket] = .init(number: message.number, publication: message.publication)
            records.tell(message.number, .sent)
        } catch {
            over(message.number, .failed(ClientError(error)), records)
            records.add(records.refused.add(message.publication, error.reasonCode, nil, now: wallNow))
        }
    }

    /// The server has answered a message. Returns whether it was one of the outbox.
    func outboxPublished(_ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts?) -> Bool {
        guard let records, let flight = records.flights.removeValue(forKey: ticket) else { return false }
        // The server had done with it before a crash here: its PUBREL came once more.
        let isDone = !reason.isError || reason == .packetIdentifierNotFound
        over(flight.number, isDone ? .acknowledged : .failed(ClientError(refused: reason, texts)), records)
        if !isDone {
            // Together with its end: whoever has the store next learns of it.
            records.add(records.refused.add(flight.publication, reason, texts, now: wallNow))
            told(Refusal(.publication(flight.publication.topic), reason, texts))
        }
        releaseBlockedEnqueues(records)
        return true
    }

    /// A message of the outbox that had been sent became too old before it could be sent again, to a server that had
    /// forgotten it.
    func outboxExpired(_ ticket: PublishTicket) -> Bool {
        guard let records, let flight = records.flights.removeValue(forKey: ticket) else { return false }
        over(flight.number, .expired, records)
        releaseBlockedEnqueues(records)
        return true
    }

    func outboxReceived(_ ticket: PublishTicket) {
        guard let records, let number = records.flights[ticket]?.number else { return }
        records.tell(number, .received)
    }

    private func over(_ number: UInt64, _ status: DeliveryStatus, _ records: ClientRecords) {
        if let change = records.outbox.settled(number) { records.add([change]) }
        records.tell(number, status)
    }

    private func releaseBlockedEnqueues(_ records: ClientRecords) {
        while let call = records.blocked.first {
            if call.call.isOver {
                records.blocked.popFirst()
                continue
            }
            guard records.outbox.hasRoom(for: call.publication) else { return }
            records.blocked.popFirst()
            add(call, records)
        }
    }

    func withdraw(_ tracking: DeliveryTracking, _ call: AwaitedOutcome<Bool>) {
        guard let records, records.failure == nil, !tracking.latest.value.isFinal,
            let change = records.outbox.withdraw(tracking.number, byteCount: tracking.byteCount)
        else {
            call.complete(.success(false))
            return
        }
        records.add([change])
        records.tell(tracking.number, .failed(.cancelled))
        // Nobody but its holder may follow it.
        tracking.set(.failed(.cancelled))
        records.afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(true)) }
        releaseBlockedEnqueues(records)
    }

    /// Reads what the server has refused.
    func readRefused(_ call: AwaitedOutcome<[Outbox.RefusedMessage]>) {
        guard let records else {
            call.complete(.success([]))
            return
        }
        records.storage.read(StoreQuery(.refusal)) { result in
            switch result {
            case .failure(let error): call.complete(.failure(ClientError(error)))
            case .success(let rows):
                call.complete(.success(rows.rows.compactMap { RefusedRow($0).map { Outbox.RefusedMessage($0) } }))
            }
        }
    }

    func forgetRefused(_ numbers: [UInt64], _ call: AwaitedOutcome<Void>) {
        guard let records, records.failure == nil else {
            call.complete(records?.failure.map { .failure($0) } ?? .success(()))
            return
        }
        records.add(numbers.compactMap { records.refused.remove($0) })
        records.afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(())) }
    }

    func measureOutbox(_ call: AwaitedOutcome<(messages: Int, bytes: Int)>) {
        call.complete(.success((records?.outbox.count ?? 0, records?.outbox.byteCount ?? 0)))
    }

    /// Reads the outbox in pieces.
    func openDeliveries(_ reading: DeliveryReading) {
        guard let records, !reading.call.isOver, reading.found.count < reading.limit else { return reading.end() }
        let count = min(reading.limit - reading.found.count, Limits.deliveriesReadMax)
        let query = StoreQuery(.outbox, from: StoreKey(reading.next), to: nil, limit: count)
        records.storage.read(query) { [weak self] result in
            self?.post(
                .records { engine in
                    switch result {
                    case .failure(let error): reading.call.complete(.failure(ClientError(error)))
                    case .success(let rows):
                        reading.found += rows.rows.compactMap { engine.delivery($0) }
                        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
                        guard let last, rows.rows.count + rows.damages.count == count else { return reading.end() }
                        reading.next = last + 1
                        engine.openDeliveries(reading)
                    }
                })
        }
    }

    /// The delivery of a row that is not over.
    private func delivery(_ row: StoreRow) -> Delivery? {
        guard let records, let message = OutboxMessage(row), records.outbox.contains(message.number) else { return nil }
        let isInFlight = records.outbox.isInFlight(message.number)
        // It goes in these moments, and nobody would tell whoever follows it.
        if !isInFlight, let expiresAt = message.expiresAt, expiresAt <= wallNow { return nil }
        let tracking = records.board.tracking(
            message.number, byteCount: row.body.count,
            isInFlight ? .sent : .queued(ahead: records.outbox.countAhead(of: message.number)))
        return Delivery(id: message.identifier ?? "\(message.number)", topic: message.publication.topic, tracking: tracking)
    }

    private var endedError: ClientError? { if case .ended = phase { .ended } else { nil } }
}

/// What `open` has found so far. In one place: what it has found is not copied with each piece.
final class DeliveryReading: @unchecked Sendable {
    // Unchecked: all but `call` belongs to the loop's thread.
    let call = AwaitedOutcome<[Delivery]>()
    let limit: Int
    /// From which number on it is to be read.
    var next: UInt64 = 0
    var found: [Delivery] = []

    init(limit: Int) { self.limit = limit }

    func end() { call.complete(.success(found)) }
}

/// What belongs to the loop's thread, on its way through another that does not look at it.
struct LoopOwned<Value>: @unchecked Sendable {
    // Unchecked: whoever carries it only hands it on.
    let value: Value

    init(_ value: Value) { self.value = value }
}
