import BrokerCore
import BrokerModel
internal import Bytes

/// The turns of the shards' loops.
extension SimulatedBroker {
    /// Gives the shards turns, in an order that the seed decides, until nothing is left to do at this time.
    public func settle() {
        var turns = 0
        while true {
            if let shard = shardWithWork() {
                turn(shard)
                if let store, random.oneIn(4) { store.work(shards) }
            } else if store?.work(shards) != true {
                if checksInvariants { for shard in shards { shard.core.checkInvariants() } }
                return
            }
            turns += 1
            guard turns < settleTurnsMax else {
                fatalError("the broker did not settle in \(turns) turns (seed \(seed))")
            }
        }
    }

    /// Gives one shard a turn if any has something to do; false if none has.
    @discardableResult
    public func step() -> Bool {
        guard let shard = shardWithWork() else { return false }
        turn(shard)
        return true
    }

    /// One turn of a shard, or a commit of the store, whichever the seed chooses; false if there is nothing to do at
    /// this time.
    @discardableResult
    package func stepOnce() -> Bool {
        if let store, random.oneIn(4), store.work(shards) { return true }
        return step() || store?.work(shards) ?? false
    }

    /// Whether a turn at this time would do anything.
    package var hasWork: Bool { shards.contains { $0.hasWork(at: now) } }

    /// Whether a turn at this time would do anything, or the store has something to do.
    package var hasWorkOrStore: Bool { hasWork || store?.hasWork ?? false }

    /// When something is to be done next; nil for never.
    package var nextDeadline: UInt64? { shards.compactMap(\.core.nextDeadline).min() }

    private func shardWithWork() -> SimulatedShard? {
        if shards.count == 1 { return shards[0].hasWork(at: now) ? shards[0] : nil }
        let start = Int.random(in: 0..<shards.count, using: &random)
        for step in 0..<shards.count {
            let shard = shards[(start + step) % shards.count]
            if shard.hasWork(at: now) { return shard }
        }
        return nil
    }

    /// One turn of a shard, in the order that `BrokerShard` asks for.
    package func turn(_ shard: SimulatedShard) {
        turnCount += 1
        shard.core.advance(to: now)
        if shard.core.boundsMemory {
            shard.core.recordHeld(elsewhere: shards.reduce(0) { $0 + ($1 === shard ? 0 : $1.core.limitedBytes) })
        }
        deliverReports(to: shard)
        deliverShardMessages(to: shard)
        connectArrivals(shard)
        deliverAnswers(to: shard)
        deliverInput(to: shard)
        deliverWritable(to: shard)
        shard.core.endTurn(into: shard.sink) { shards[$0].shardMessages[shard.index].append($1) }
        shard.core.takeEffects { carryOut($0, of: shard) }
        if checksInvariants {
            shard.core.checkInvariants()
            for id in shard.parties.keys { shard.core.checkInvariants(ofLocal: id) }
        }
        let delivered = shard.sink.delivered
        shard.sink.delivered = []
        for connection in delivered { connection.onReceive?(connection) }
        // Who listens holds the connection, and is held by it no more.
        for connection in shard.sink.closed { connection.onReceive = nil }
        shard.sink.closed = []
    }

    /// Some of the batches that are on their way, at least one: FIFO from each shard, at random among the shards.
    private func deliverShardMessages(to shard: SimulatedShard) {
        repeat {
            let senders = shard.shardMessages.indices.filter { !shard.shardMessages[$0].isEmpty }
            guard let sender = senders.randomElement(using: &random) else { return }
            shard.core.receivedShardMessages(shard.shardMessages[sender].removeFirst(), from: sender)
        } while !random.oneIn(4)
    }

    private func deliverReports(to shard: SimulatedShard) {
        let reports = shard.reports
        shard.reports = []
        for report in reports { shard.core.received(report) }
    }

    private func connectArrivals(_ shard: SimulatedShard) {
        let arrivals = shard.arrivals
        shard.arrivals = []
        for arrival in arrivals {
            let id = arrival.handOver.map { shard.core.adopt($0) } ?? shard.core.connected(arrival.info)
            arrival.connection.peer.id = id
            shard.sink.add(arrival.connection, as: id)
        }
    }

    private func deliverAnswers(to shard: SimulatedShard) {
        let answers = shard.answers
        shard.answers = []
        for answer in answers {
            if let id = answer.connection.peer.id { shard.core.authenticated(id, answer.outcome) }
        }
        let decisions = shard.decisions.all
        shard.decisions.all = []
        for (id, question, decision) in decisions { shard.core.decided(id, question, decision) }
    }

    /// One piece for each connection that has something to read; now and then another, as in a busy turn of a loop.
    private func deliverInput(to shard: SimulatedShard) {
        var unreadable: [SimulatedConnection] = []
        defer { for connection in unreadable { hasInput(connection) } }
        repeat {
            let readable = shard.readable
            shard.readable = []
            for connection in readable {
                connection.peer.isQueued = false
                guard let id = connection.peer.id, !connection.isClosed else { continue }
                guard !shard.core.hasOpenPacket(id) else {
                    // It is read from when that is done with.
                    unreadable.append(connection)
                    continue
                }
                if connection.hasInput {
                    connection.takeSessionChunk().withUnsafeBytes { shard.core.received($0, from: id) }
                    if connection.hasInput || connection.isLost { hasInput(connection) }
                } else if connection.isLost {
                    shard.core.closed(id)
                }
            }
        } while !shard.readable.isEmpty && random.oneIn(4)
    }

    private func deliverWritable(to shard: SimulatedShard) {
        let writable = shard.writable
        shard.writable = []
        for connection in writable {
            guard let id = connection.peer.id, !connection.isClosed else { continue }
            connection.becameUnblocked()
            shard.core.writable(id, sink: shard.sink)
        }
    }

    /// A connection has something to read, or has ended.
    func hasInput(_ connection: SimulatedConnection) {
        guard !connection.peer.isQueued, !connection.isClosed else { return }
        connection.peer.isQueued = true
        shards[connection.peer.shard].readable.append(connection)
    }

    /// A connection takes bytes again.
    func becameWritable(_ connection: SimulatedConnection) {
        guard !connection.isClosed else { return }
        shards[connection.peer.shard].writable.append(connection)
    }

    private func carryOut(_ effect: Effect, of shard: SimulatedShard) {
        switch effect {
        case .close(let id):
            shard.sink.close(id)
        case .handOver(let id, let handOver):
            guard let connection = shard.sink.find(id) else { return }
            shard.sink.remove(id)
            move(connection, from: shard, handOver)
        case .authenticate(let id, let request):
            guard let connection = shard.sink.find(id) else { return }
            decide(request, connection, shard)
        case .authorize(let id, let question, let authority):
            authority.decide(question) { [decisions = shard.decisions] in decisions.all.append((id, question, $0)) }
        case .store(let batch):
            store?.give(batch, of: shard.index)
        case .read(let request):
            store?.give(request, of: shard.index)
        case .local(let id, let event):
            shard.parties[id]?.received(event)
        case .reply(let reply):
            shard.replies.append(reply)
        case .control(let message):
            shard.requests.append(message)
        case .outcome(let outcome):
            shard.outcomes.append(outcome)
        case .presence(let event):
            presence.append(event)
        case .offence(let offence):
            offences.append(offence)
        case .traced(let batch):
            traces.append(batch)
            traced(batch)
            shard.core.tracesTaken()
        case .cluster(let note):
            clusterNotes.append((shard.index, note))
        case .log(_, let line, _):
            logLines.append(line)
        }
    }

    private func move(_ connection: SimulatedConnection, from shard: SimulatedShard, _ handOver: HandOver) {
        shard.readable.removeAll { $0 === connection }
        shard.writable.removeAll { $0 === connection }
        let target = shards[handOver.shard]
        let hadInput = connection.peer.isQueued
        connection.peer = SimulatedPeer(shard: handOver.shard)
        target.arrivals.append(SimulatedShard.Arrival(connection: connection, info: handOver.info, handOver: handOver))
        if hadInput { hasInput(connection) }
    }

    private func decide(_ request: AuthenticationRequest, _ connection: SimulatedConnection, _ shard: SimulatedShard) {
        pendingAuthentications.removeAll { $0.connection === connection }
        if case .abandon = request.step { return }
        guard let authenticate else {
            shard.answers.append((connection, .accepted(userName: nil, data: nil)))
            return
        }
        if let outcome = authenticate(request) {
            shard.answers.append((connection, outcome))
        } else {
            pendingAuthentications.append(PendingAuthentication(connection: connection, request: request))
        }
    }
}
