public import BrokerModel
import MQTTCodec

/// What waits for the store before it happens. [MQTT-4.3.2-4 v5] asks that PUBACK passes ownership on: it leaves when
/// the broker can keep that word, whatever happens to the power.
struct Storing {
    let shard: BrokerShard

    /// Sends an acknowledgement, when what came before it is durable.
    ///
    /// - Parameter dependency: what other shards must have stored before.
    func sendWhenDurable(
        _ type: PacketType, _ packetIdentifier: UInt16, _ reason: ReasonCode = .success,
        dependingOn dependency: DurabilityDependency = .nothing,
        to connection: Connection
    ) {
        guard mustHold(connection, dependency) else {
            shard.sending.sendAcknowledgement(type, packetIdentifier, reason, to: connection)
            return
        }
        shard.durability?.hold(HeldPacket.Kind(type), packetIdentifier, reason, to: connection.id, dependingOn: dependency)
        connection.holding.count &+= 1
    }

    /// Does what an answer says, when what came before it is durable, and the cluster has stored what there is to be
    /// stored of it.
    func sendWhenDurable(_ answer: HeldAnswer, to connection: Connection) {
        if shard.cluster?.moves != nil, shard.saves.holdsUntilSaved(answer, connection) { return }
        acknowledgeFromDisk(answer, to: connection)
    }

    /// Does what an answer says, when what came before it is durable here.
    func acknowledgeFromDisk(_ answer: HeldAnswer, to connection: Connection) {
        // A session that ends with its connection relies on no disk.
        let isKept = connection.session?.storage.isStored == true || connection.holding.count > 0
        guard isKept, mustHold(connection) else {
            give(answer, connection)
            return
        }
        shard.durability?.hold(answer, to: connection.id)
        connection.holding.count &+= 1
    }

    /// Keeps CONNACK, and all that follows it, in the connection's output until the session is durable.
    func holdOutput(of connection: Connection) {
        guard mustHold(connection) else { return }
        connection.holding.isAwaitingStore = true
        shard.durability?.hold(.connack, to: connection.id)
        connection.holding.count &+= 1
    }

    /// Keeps a QoS 2 PUBLISH until its packet identifier is durable, and in a cluster's log: sent before, it could be
    /// sent twice; and what comes behind it, so that the queue keeps its order. False if the message need not wait.
    func holdsPublish(
        _ entry: QueueEntry, _ packetIdentifier: UInt16, to connection: Connection, dependingOn dependency: DurabilityDependency
    ) -> Bool {
        guard (entry.qos == .exactlyOnce && entry.storeNumber != 0) || connection.holding.publishCount > 0 else { return false }
        guard mustHold(connection, dependency) else { return false }
        shard.durability?.hold(.publish, packetIdentifier, to: connection.id, dependingOn: dependency)
        connection.holding.count &+= 1
        connection.holding.publishCount &+= 1
        return true
    }

    /// A QoS 2 message that share groups have given to other shards goes there when the choice is durable, and then its
    /// PUBREC to its sender.
    func sendWhenDurable(_ dispatch: HeldDispatch, _ packetIdentifier: UInt16, _ reason: ReasonCode, to connection: Connection) {
        guard connection.holding.holdsAcknowledgements else {
            shard.durability?.hold(dispatch, packetIdentifier, reason, to: Self.nobody)
            shard.sending.sendAcknowledgement(.pubrec, packetIdentifier, reason, to: connection)
            return
        }
        shard.durability?.hold(dispatch, packetIdentifier, reason, to: connection.id)
        connection.holding.count &+= 1
    }

    /// No connection has this name.
    private static let nobody = ConnectionID(slot: .max, generation: .max)

    // Each message asks these. The journal is asked first: whether there is a `Durability` is found out by a call.

    /// A packet, or a batch of shard messages, is about to be worked off.
    @inline(__always)
    func beginPacket() {
        if shard.journal != nil { shard.durability?.beginPacket() }
    }

    /// Whether the packet being worked off has caused anything that has to become durable.
    @inline(__always)
    var hasChanged: Bool { shard.journal != nil && shard.durability?.hasChanged ?? false }

    /// What the packet being worked off has caused on other shards.
    @inline(__always)
    var dependency: DurabilityDependency { shard.journal == nil ? .nothing : shard.durability?.dependency ?? .nothing }

    /// Whether what is sent to a connection now would promise more than is durable, or overtake what is held for it.
    ///
    /// What its session is and has lives in this shard's journal. What other shards have made of its messages is named
    /// in `dependency`: their stores are nothing to anybody else.
    @inline(__always)
    private func mustHold(_ connection: Connection, _ dependency: DurabilityDependency = .nothing) -> Bool {
        guard shard.journal != nil, connection.holding.holdsAcknowledgements else { return false }
        return connection.holding.count > 0 || shard.durability?.mustHold(dependingOn: dependency) ?? false
    }

    /// Gives the store what has gathered, unless it is busy or the shell decides when.
    func giveBatch() {
        let batch = shard.durability?.takeBatch(
            storesAtOnce: shard.settings.storesAtOnce, isStopping: shard.policy.isStopping, now: shard.now)
        if let batch { shard.effects.append(.store(batch)) }
    }

    /// Lets happen what the store and the other shards were awaited for.
    func releaseHeld() {
        guard shard.journal != nil else { return }
        while let released = shard.durability?.release() {
            let item = released.item
            if case .dispatch(let dispatch) = released.answer {
                releaseDispatch(item, dispatch)
            } else if let connection = shard.connections.find(item.connection) {
                connection.holding.count &-= 1
                releaseAnswer(item, released.answer, connection)
            }
        }
        for entry in shard.durability?.takeLeaving() ?? [] { shard.shareGroups.redistribute(entry, from: 0, connectedOnly: false) }
        shard.durability?.endMovedEntries()
        for (number, group) in shard.durability?.takeGoneEntries() ?? [] {
            let receipt = RelayedReceipt.receipt(ofEntry: number)
            // It may have come back here, when the member on the other shard had gone.
            receivedRelease(receipt, [group])
            shard.messaging.sendToOthers(.released(receipt: receipt, groups: [group]))
        }
        confirmShardMessages()
        shard.storedQueues.pageOutQueues()
    }

    /// Share groups' choices for a QoS 2 message are durable: it goes to their members, whoever has gone meanwhile.
    /// Then PUBREC is due.
    private func releaseDispatch(_ item: HeldPacket, _ dispatch: HeldDispatch) {
        beginPacket()
        dispatchHeld(dispatch)
        guard let connection = shard.connections.find(item.connection), let pubrec = shard.durability?.dispatched(item, dispatch)
        else {
            return
        }
        connection.holding.count &-= 1
        releaseAnswer(pubrec, nil, connection)
    }

    private func releaseAnswer(_ item: HeldPacket, _ answer: HeldAnswer?, _ connection: Connection) {
        if item.kind == .publish { connection.holding.publishCount &-= 1 }
        if item.kind == .connack {
            connection.holding.isAwaitingStore = false
            shard.markDirty(connection)
            return
        }
        guard connection.state == .connected else { return }
        switch item.kind {
        case .puback:
            shard.inspection.latencies.released(.puback, microseconds: heldMicroseconds(item))
            shard.sending.sendAcknowledgement(.puback, item.packetIdentifier, item.reason, to: connection)
        case .pubrec:
            shard.inspection.latencies.released(.pubrec, microseconds: heldMicroseconds(item))
            shard.sending.sendAcknowledgement(.pubrec, item.packetIdentifier, item.reason, to: connection)
        case .pubrel: shard.sending.sendAcknowledgement(.pubrel, item.packetIdentifier, item.reason, to: connection)
        case .pubcomp: shard.sending.sendAcknowledgement(.pubcomp, item.packetIdentifier, item.reason, to: connection)
        case .publish: shard.dispatcher.sendHeld(item.packetIdentifier, connection)
        case .answer: if let answer { give(answer, connection) }
        case .connack, .dispatch: return
        }
    }

    private func heldMicroseconds(_ item: HeldPacket) -> UInt64 {
        UInt64(UInt32(truncatingIfNeeded: shard.ledger.clockMicroseconds) &- item.heldAt)
    }

    private func give(_ answer: HeldAnswer, _ connection: Connection) {
        switch answer {
        case .suback(let packet, let queries): shard.subscribing.acknowledge(packet, connection, queries)
        case .unsuback(let packet): shard.subscribing.acknowledge(packet, connection)
        case .refusal(let packet): shard.receiving.send(refusal: packet, to: connection)
        case .endOfRetained(let mark): shard.scanning.send(mark, to: connection)
        case .dispatch, .export: return
        }
    }

    // MARK: Other shards

    /// Tells the other shards how many of their messages are durable.
    private func confirmShardMessages() {
        for target in 0..<shard.shardCount where target != shard.index {
            if let serial = shard.durability?.takeConfirmation(for: target) {
                shard.messaging.send(.durable(serial: serial), target)
            }
        }
    }

    /// Whether the journal or what is held needs another turn at once.
    var hasDurableWork: Bool {
        shard.durability?.hasWork(storesAtOnce: shard.settings.storesAtOnce, isStopping: shard.policy.isStopping) ?? false
    }
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

/// Gives the store what has gathered in the turn, and lets happen what it has done.
extension Durability: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.journal != nil }

    static func step(_ shard: BrokerShard) {
        shard.storing.giveBatch()
        shard.storing.releaseHeld()
    }

    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.storing.hasDurableWork ? shard.now : shard.durability?.patience }
}

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
            figures.publishStoreHealth(.good)
        case .full:
            guard journal.health == .good else { return }
            journal.health = .full
            guard index == 0 else { return }
            log(.error) { "Error: The store is full: nothing that must be kept is acknowledged until it has room." }
            figures.publishStoreHealth(.full)
        case .failed:
            guard journal.health != .failed else { return }
            journal.health = .failed
            guard index == 0 else { return }
            log(.error) {
                "Error: The store has failed: nothing that must be kept is acknowledged until the broker is started again."
            }
            figures.publishStoreHealth(.failed)
        case .rows(let rows):
            storedQueues.receivedRows(rows)
        }
        storing.endUnanswered(journal)
    }

    /// Gives the store everything now, where it otherwise waits for its interval.
    public func save() { durability?.save() }

    /// Whether nothing is left that the store must have; true as well when it takes nothing any more.
    public var isPersisted: Bool { durability?.isPersisted ?? true }
}
