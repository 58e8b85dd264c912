import MQTTCodec

/// What waits for the store before it happens. [MQTT-4.3.2-4 v5] asks that PUBACK passes ownership on: it leaves when the broker can keep
/// that word, whatever happens to the power.
extension BrokerShard {
    /// The store has something to tell.
    public func received(_ report: StoreReport) {
        guard let journal else { return }
        switch report {
        case .committed(let sequence):
            journal.committed(through: sequence)
        case .hasRoom:
            guard journal.health == .full else { return }
            journal.health = .good
            guard index == 0 else { return }
            log(.notice) { "The store has room again; messages are kept as before." }
            publishStoreHealth(.good)
        case .full:
            guard journal.health == .good else { return }
            journal.health = .full
            guard index == 0 else { return }
            log(.error) { "Error: The store is full: nothing that must be kept is acknowledged until it has room." }
            publishStoreHealth(.full)
        case .failed:
            guard journal.health != .failed else { return }
            journal.health = .failed
            guard index == 0 else { return }
            log(.error) {
                "Error: The store has failed: nothing that must be kept is acknowledged until the broker is started again."
            }
            publishStoreHealth(.failed)
        case .rows(let rows):
            receivedRows(rows)
        }
        endUnanswered(journal)
    }

    /// Counts everything that has to become durable, here or on another shard: whoever has caused none of it need not wait.
    var durableChanges: UInt64 { (journal?.sequence ?? 0) &+ durableMail }

    /// Sends an acknowledgement, when what came before it is durable.
    func promise(_ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode = .success, to connection: Connection) {
        guard mustHold(connection), let journal else {
            sendAcknowledgement(type, packetIdentifier, reason, to: connection)
            return
        }
        held.append(HeldPacket(HeldPacket.Kind(type), after: journal.sequence, connection.id, packetIdentifier, reason))
        connection.heldCount &+= 1
    }

    /// Does what an answer says, when what came before it is durable.
    func promise(_ answer: HeldAnswer, to connection: Connection) {
        // A session that ends with its connection relies on no disk.
        let isKept = connection.session?.isStored == true || connection.heldCount > 0
        guard isKept, mustHold(connection), let journal else {
            give(answer, connection)
            return
        }
        held.append(answer, after: journal.sequence, connection.id)
        connection.heldCount &+= 1
    }

    /// Keeps CONNACK, and all that follows it, in the connection's output until the session is durable.
    func holdOutput(of connection: Connection) {
        guard mustHold(connection), let journal else { return }
        connection.isAwaitingStore = true
        held.append(HeldPacket(.connack, after: journal.sequence, connection.id))
        connection.heldCount &+= 1
    }

    /// Keeps a QoS 2 PUBLISH until its packet identifier is durable: sent before, it could be sent twice; and what comes behind it, so
    /// that the queue keeps its order. False if the message need not wait.
    func holdsPublish(_ entry: OutboxEntry, _ packetIdentifier: UInt16, to connection: Connection) -> Bool {
        guard (entry.qos == .exactlyOnce && entry.storeNumber != 0) || connection.heldPublishCount > 0 else { return false }
        guard mustHold(connection), let journal else { return false }
        held.append(HeldPacket(.publish, after: journal.sequence, connection.id, packetIdentifier))
        connection.heldCount &+= 1
        connection.heldPublishCount &+= 1
        return true
    }

    /// Whether what is sent to a connection now would promise more than is durable, or overtake what is held.
    private func mustHold(_ connection: Connection) -> Bool {
        guard let journal, connection.holdsPromises else { return false }
        return connection.heldCount > 0 || !journal.isPersisted || held.isWaitingForShards
    }

    /// Gives the store what has gathered, unless it is busy or the shell decides when.
    func giveBatch() {
        guard let journal else { return }
        guard journal.health != .failed else {
            journal.discardBatch()
            abandonedEntries = []
            return
        }
        endAbandonedEntries()
        guard !journal.isStoreBusy else { return }
        guard settings.storesAtOnce || isStopping || journal.batchBytes > Limits.storeBatchBytesMax || isSaving else { return }
        patience = isStopping || isSaving ? nil : journal.patience(now: now)
        guard patience == nil else { return }
        isSaving = false
        if let batch = journal.takeBatch() { effects.append(.store(batch)) }
    }

    /// Gives the store everything now, where it otherwise waits for its interval.
    public func save() { isSaving = true }

    /// Lets happen what the store and the other shards were awaited for.
    func releaseHeld() {
        guard let journal else { return }
        while let (item, answer) = held.pop(persisted: journal.persisted) {
            if case .endEntry(let number, let hasFlow) = answer { journal.endEntry(number, hasFlow: hasFlow) }
            if case .deal(let message, let receipt, let choices) = answer { deal(message, receipt, choices) }
            guard let connection = connections.find(item.connection) else { continue }
            connection.heldCount &-= 1
            release(item, answer, connection)
        }
        confirmMail(journal)
        chillQueues(journal)
    }

    private func release(_ item: HeldPacket, _ answer: HeldAnswer?, _ connection: Connection) {
        if item.kind == .publish { connection.heldPublishCount &-= 1 }
        if item.kind == .connack {
            connection.isAwaitingStore = false
            markDirty(connection)
            return
        }
        guard connection.state == .connected else { return }
        switch item.kind {
        case .puback: sendAcknowledgement(.puback, item.packetIdentifier, item.reason, to: connection)
        case .pubrec: sendAcknowledgement(.pubrec, item.packetIdentifier, item.reason, to: connection)
        case .pubrel: sendAcknowledgement(.pubrel, item.packetIdentifier, item.reason, to: connection)
        case .pubcomp: sendAcknowledgement(.pubcomp, item.packetIdentifier, item.reason, to: connection)
        case .publish: sendHeld(item.packetIdentifier, connection)
        case .answer: if let answer { give(answer, connection) }
        case .connack: return
        }
    }

    private func give(_ answer: HeldAnswer, _ connection: Connection) {
        switch answer {
        case .suback(let packet, let queries): acknowledge(packet, connection, queries)
        case .unsuback(let packet): acknowledge(packet, connection)
        case .deal, .endEntry: return
        }
    }

    /// The rows of a message that a share group's member here had, and that a member elsewhere has now: they go when that one's are durable.
    func endEntryWhenConfirmed(_ number: UInt64, hasFlow: Bool) {
        guard let journal else { return }
        held.append(.endEntry(number, hasFlow: hasFlow), after: journal.sequence, Self.nobody)
    }

    /// A QoS 2 message that share groups have given to other shards goes there when the choice is durable.
    func holdDeal(_ message: Message, receipt: UInt64, _ choices: [GroupChoice]) {
        guard let journal else { return }
        held.append(.deal(message, receipt: receipt, choices), after: journal.sequence, Self.nobody)
    }

    /// No connection waits for it; none has this name.
    private static let nobody = ConnectionID(slot: .max, generation: .max)

    // MARK: Other shards

    /// Notes that a batch of mail holds something that has to be durable at its receiver before this turn's promises are given.
    func requireConfirmation(of batch: MailBatch, _ shard: Int) {
        durableMail &+= 1
        guard batch.serial == 0 else { return }
        mailSerials[shard] &+= 1
        batch.serial = mailSerials[shard]
        held.require(batch.serial, of: shard)
    }

    /// As above, of something that was held until now: what was promised behind it, in earlier turns, waits too.
    func requireConfirmationBehindTaken(of shard: Int) {
        guard let batch = outgoing[shard], batch.serial != 0 else { return }
        held.requireBehindTaken(batch.serial, of: shard)
    }

    /// A batch of mail that its sender wants confirmed is worked off.
    func noteConfirmation(of batch: MailBatch, _ shard: Int) {
        guard batch.serial != 0, let journal else { return }
        confirmations.append((sequence: journal.sequence, shard: shard, serial: batch.serial))
    }

    private func confirmMail(_ journal: Journal) {
        var count = 0
        while count < confirmations.count, confirmations[count].sequence <= journal.persisted {
            tell(.durable(serial: confirmations[count].serial), confirmations[count].shard)
            count += 1
        }
        confirmations.removeFirst(count)
    }

    /// Whether the journal or what is held needs another turn at once.
    var hasDurableWork: Bool {
        guard let journal else { return false }
        if !abandonedEntries.isEmpty { return true }
        return patience == nil && (settings.storesAtOnce || isSaving || isStopping) && !journal.isStoreBusy && !journal.isPersisted
            && journal.health != .failed
    }

    /// Whether nothing is left that the store must have; true as well when it takes nothing any more.
    public var isPersisted: Bool { journal.map { $0.isPersisted || $0.health != .good } ?? true }
}

extension HeldPacket.Kind {
    init(_ type: PacketType) {
        switch type {
        case .puback: self = .puback
        case .pubrec: self = .pubrec
        case .pubrel: self = .pubrel
        case .pubcomp: self = .pubcomp
        default: preconditionFailure("only acknowledgements are held in the short form")
        }
    }
}
