internal import Bytes
internal import ClientCore
internal import ClientStore
internal import Platform

/// What the loop does with the client's store.
extension ClientRecords {
    /// The part of a turn's end that the store has: messages of the outbox go into the session, what has changed goes
    /// to the store.
    func endTurn(now: UInt64, _ engine: ClientEngine) {
        sendOutbox(engine, now: now)
        for sink in inboxes.values where sink.nextExpiry != nil { sink.trimIfDue(self, now: engine.wallNow) }
        if collect(engine.session.takeChanges()) {
            for sink in inboxesInOrder { add(sink.book.sessionLost()) }
        }
        commit(for: engine)
        commitAdditions(engine)
        updateQueuePositions(engine)
        // Behind the commits, so that what is read is what was written.
        read(engine)
        gate.turnEnded(pending: engine.session.outputByteCount)
    }

    /// When the outbox wants a turn.
    func nextDeadline(_ engine: ClientEngine) -> UInt64? {
        // A store that has failed is read no more.
        let sweep = failure == nil ? outbox.nextSweep : nil
        var expiry = min(outbox.nextExpiry ?? .max, sweep ?? .max)
        if failure == nil {
            for case let next? in inboxes.values.map(\.nextExpiry) { expiry = min(expiry, next) }
        }
        if expiry == .max { return nil }
        let wall = engine.wallNow
        return engine.loop.now + (expiry > wall ? expiry - wall : 0)
    }

    /// The store has answered a commit.
    func committed(_ number: UInt64, _ error: StoreError?, _ engine: ClientEngine) {
        if let error { return failed(error, engine) }
        for sequel in committed(number) { sequel(engine, nil) }
    }

    /// Nothing can be promised any more.
    func failed(_ error: StoreError, _ engine: ClientEngine) {
        guard failure == nil else { return }
        let error = error == .closed ? ClientError.ended : ClientError(error)
        failure = error
        end(engine)
        if error != .ended { engine.giveUpForStore(error) }
    }

    /// The client has ended: nobody waits for the store any more.
    func end(_ engine: ClientEngine) {
        if failure == nil { failure = .ended }
        for call in blocked.takeAll() { call.call.complete(.failure(failure ?? .ended)) }
        for sequel in giveUp() { sequel(engine, failure) }
        for sink in inboxesInOrder { sink.core.ended() }
        owners.end()
        board.end()
    }

    /// Updates the followers of queued messages how many messages are ahead of theirs.
    private func updateQueuePositions(_ engine: ClientEngine) {
        guard outbox.count != reportedCount else { return }
        reportedCount = outbox.count
        for number in board.numbers(most: Limits.queuePositionsMax)
        where outbox.contains(number) && !outbox.isInFlight(number) {
            board.set(number, .queued(ahead: outbox.countAhead(of: number)))
        }
    }

    private func read(_ engine: ClientEngine) {
        guard failure == nil else { return }
        if let query = outbox.nextReading() {
            storage.read(query) { [weak engine] result in
                engine?.post(.records { $0.records?.outboxRead(result, of: query, $0) })
            }
        }
        sweepOutbox(engine)
        for sink in spillsInOrder { sink.read(engine, self) }
    }
}

// MARK: - Outbox

extension ClientRecords {
    /// Looks for messages that are too old among those that only the store has.
    private func sweepOutbox(_ engine: ClientEngine) {
        guard let query = outbox.sweepReading(now: engine.wallNow) else { return }
        storage.read(query) { [weak engine] result in
            engine?.post(.records { $0.records?.outboxSwept(result, of: query, $0) })
        }
    }

    private func outboxSwept(_ result: Result<StoreRows, StoreError>, of query: StoreQuery, _ engine: ClientEngine) {
        switch result {
        case .success(let rows):
            let (expired, changes) = outbox.swept(rows, of: query, now: engine.wallNow)
            add(changes)
            for number in expired { report(number, .expired) }
            if !expired.isEmpty { releaseBlockedEnqueues(engine) }
        case .failure(let error): failed(error, engine)
        }
    }

    private func outboxRead(_ result: Result<StoreRows, StoreError>, of query: StoreQuery, _ engine: ClientEngine) {
        switch result {
        case .success(let rows):
            let changes = outbox.read(rows, of: query)
            add(changes)
            for case .remove(_, let key) in changes {
                guard let number = key.lastNumber else { continue }
                report(number, .failed(.store("the message in the outbox is damaged")))
            }
        case .failure(let error): failed(error, engine)
        }
    }

    func enqueue(_ call: EnqueueCall, _ engine: ClientEngine) {
        if call.call.isOver { return }
        if let error = failure ?? (engine.hasEnded ? .ended : nil) {
            call.call.complete(.failure(error))
            return
        }
        guard !blocked.isEmpty || !outbox.hasRoom(for: call.publication) else { return add(call, engine) }
        switch whenFull {
        case .wait: blocked.append(call)
        case .refuse: call.call.complete(.failure(.queueFull))
        case .dropOldest:
            while !outbox.hasRoom(for: call.publication), let dropped = outbox.dropOldest() {
                add([dropped.change])
                report(dropped.message.number, .failed(.queueFull))
            }
            if outbox.hasRoom(for: call.publication) {
                add(call, engine)
            } else {
                call.call.complete(.failure(.queueFull))
            }
        }
    }

    private func add(_ call: EnqueueCall, _ engine: ClientEngine) {
        var publication = call.publication
        if case .inbox(let name, _) = call.destination {
            guard inboxes[name] != nil else {
                call.call.complete(.failure(.ended))
                return
            }
            publication.properties.sentAt = engine.wallNow
        }
        let (message, change) = outbox.add(publication, now: engine.wallNow)
        var addition = Addition(call: call, message: message, changes: [change], byteCount: change.byteCount)
        switch call.destination {
        case .none: break
        case .collection(let name, _): addition.owner = .collection(name)
        case .inbox(let name, let conversation):
            if let own = inboxes[name]?.book.sent(message.publication, in: conversation, now: engine.wallNow) {
                addition.own = own
                addition.owner = .inbox(name, conversation: own.message.conversation, number: own.message.number)
            }
        }
        if let owner = addition.owner { addition.changes.append(owner.put(message.number)) }
        additions.append(addition)
    }

    private func commitAdditions(_ engine: ClientEngine) {
        guard !additions.isEmpty else { return }
        var additions = additions
        self.additions = []
        for (place, addition) in additions.enumerated() { additions[place].changes += ownChanges(addition) }
        if let error = failure {
            for addition in additions { addition.call.call.complete(.failure(error)) }
            return
        }
        let batch = StoreBatch(additions.flatMap(\.changes), waitsForRoom: false)
        // Captured for the loop's own thread, which alone looks at them.
        let box = LoopOwned(additions)
        storage.commit(batch) { [weak engine] error in engine?.post(.records { $0.records?.added(box.value, error, $0) }) }
    }

    private func added(_ additions: [Addition], _ error: StoreError?, _ engine: ClientEngine) {
        if let error {
            for addition in additions.reversed() {
                outbox.notStored(addition.message.number, byteCount: addition.byteCount)
                ownNotStored(addition)
            }
            for addition in additions {
                addition.call.call.complete(.failure(error == .closed ? .ended : ClientError(error)))
            }
            if case .noRoom = error { return releaseBlockedEnqueues(engine) }
            return failed(error, engine)
        }
        if let last = additions.last { outbox.stored(through: last.message.number) }
        for addition in additions {
            let message = addition.message
            if let owner = addition.owner { owners.add(owner, of: message.number, addition.call.observer) }
            if let own = addition.own { addition.call.item.withLock { $0 = own.message } }
            let tracking = board.tracking(
                message.number, byteCount: addition.byteCount, .queued(ahead: outbox.countAhead(of: message.number)))
            addition.call.call.complete(
                .success(
                    Delivery(id: message.identifier ?? "\(message.number)", topic: message.publication.topic, tracking: tracking)))
        }
    }

    /// Hands the session what its window takes.
    private func sendOutbox(_ engine: ClientEngine, now: UInt64) {
        let countBefore = outbox.count
        while let next = outbox.next(now: engine.wallNow, maySend: engine.session.windowRoom > 0 && failure == nil) {
            switch next {
            case .expired(let message):
                add([.remove(.outbox, StoreKey(message.number))])
                report(message.number, .expired)
            case .send(let message): send(message, engine, now: now)
            }
        }
        engine.handleEvents()
        if outbox.count < countBefore { releaseBlockedEnqueues(engine) }
    }

    private func send(_ message: OutboxMessage, _ engine: ClientEngine, now: UInt64) {
        leaves(message, isUnnamed: engine.session.options.version != .v5, now: engine.wallNow)
        do throws(RequestRefusal) {
            let ticket = try engine.session.publish(message.publication(at: engine.wallNow), now: now)
            guard message.publication.qos > .atMostOnce else { return over(message.number, .acknowledged) }
            flights[ticket] = .init(number: message.number, publication: message.publication)
            report(message.number, .sent)
        } catch {
            over(message.number, .failed(ClientError(error)))
            add(refused.add(message.publication, error.reasonCode, nil, now: engine.wallNow))
        }
    }

    /// The server has answered a message. Returns whether it was one of the outbox.
    func published(
        _ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts?, _ engine: ClientEngine
    ) -> Bool {
        guard let flight = flights.removeValue(forKey: ticket) else { return false }
        // The server had done with it before a crash here: its PUBREL came once more.
        let isDone = !reason.isError || reason == .packetIdentifierNotFound
        over(flight.number, isDone ? .acknowledged : .failed(ClientError(refused: reason, texts)))
        if !isDone {
            // Together with its end: whoever has the store next learns of it.
            add(refused.add(flight.publication, reason, texts, now: engine.wallNow))
            engine.notifyInterceptors(of: Refusal(.publication(flight.publication.topic), reason, texts))
        }
        releaseBlockedEnqueues(engine)
        return true
    }

    /// A message of the outbox that had been sent became too old before it could be sent again, to a server that had
    /// forgotten it.
    func expired(_ ticket: PublishTicket, _ engine: ClientEngine) -> Bool {
        guard let flight = flights.removeValue(forKey: ticket) else { return false }
        over(flight.number, .expired)
        releaseBlockedEnqueues(engine)
        return true
    }

    func received(_ ticket: PublishTicket) {
        guard let number = flights[ticket]?.number else { return }
        report(number, .received)
    }

    private func over(_ number: UInt64, _ status: DeliveryStatus) {
        if let change = outbox.settled(number) { add([change]) }
        report(number, status)
    }

    private func releaseBlockedEnqueues(_ engine: ClientEngine) {
        while let call = blocked.first {
            if call.call.isOver {
                blocked.popFirst()
                continue
            }
            guard outbox.hasRoom(for: call.publication) else { return }
            blocked.popFirst()
            add(call, engine)
        }
    }

    func withdraw(_ tracking: DeliveryTracking, _ call: AwaitedOutcome<Bool>, _ engine: ClientEngine) {
        guard failure == nil, !tracking.latest.value.isFinal,
            let change = outbox.withdraw(tracking.number, byteCount: tracking.byteCount)
        else {
            call.complete(.success(false))
            return
        }
        add([change])
        report(tracking.number, .failed(.cancelled))
        // Nobody but its holder may follow it.
        tracking.set(.failed(.cancelled))
        afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(true)) }
        releaseBlockedEnqueues(engine)
    }

    /// Reads what the server has refused.
    func readRefused(_ call: AwaitedOutcome<[Outbox.RefusedMessage]>) {
        storage.read(StoreQuery(.refusal)) { result in
            switch result {
            case .failure(let error): call.complete(.failure(ClientError(error)))
            case .success(let rows):
                call.complete(.success(rows.rows.compactMap { RefusedRow($0).map { Outbox.RefusedMessage($0) } }))
            }
        }
    }

    func forgetRefused(_ numbers: [UInt64], _ call: AwaitedOutcome<Void>) {
        guard failure == nil else {
            call.complete(failure.map { .failure($0) } ?? .success(()))
            return
        }
        add(numbers.compactMap { refused.remove($0) })
        afterCommit { _, error in call.complete(error.map { .failure($0) } ?? .success(())) }
    }

    /// Reads the outbox in pieces.
    func openDeliveries(_ reading: DeliveryReading, _ engine: ClientEngine) {
        guard !reading.call.isOver, reading.found.count < reading.limit else { return reading.end() }
        let count = min(reading.limit - reading.found.count, Limits.deliveriesReadMax)
        let query = StoreQuery(.outbox, from: StoreKey(reading.next), to: nil, limit: count)
        storage.read(query) { [weak engine] result in
            engine?.post(.records { $0.records?.deliveriesRead(result, count: count, for: reading, $0) })
        }
    }

    private func deliveriesRead(
        _ result: Result<StoreRows, StoreError>, count: Int, for reading: DeliveryReading, _ engine: ClientEngine
    ) {
        switch result {
        case .failure(let error): reading.call.complete(.failure(ClientError(error)))
        case .success(let rows):
            reading.found += rows.rows.compactMap { delivery($0, engine) }
            let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
            guard let last, rows.rows.count + rows.damages.count == count else { return reading.end() }
            reading.next = last + 1
            openDeliveries(reading, engine)
        }
    }

    /// The delivery of a row that is not over.
    private func delivery(_ row: StoreRow, _ engine: ClientEngine) -> Delivery? {
        guard let message = OutboxMessage(row), outbox.contains(message.number) else { return nil }
        let isInFlight = outbox.isInFlight(message.number)
        // It goes in these moments, and nobody would tell whoever follows it.
        if !isInFlight, let expiresAt = message.expiresAt, expiresAt <= engine.wallNow { return nil }
        let tracking = board.tracking(
            message.number, byteCount: row.body.count,
            isInFlight ? .sent : .queued(ahead: outbox.countAhead(of: message.number)))
        return Delivery(id: message.identifier ?? "\(message.number)", topic: message.publication.topic, tracking: tracking)
    }
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
