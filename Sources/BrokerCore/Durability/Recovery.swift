public import BrokerModel
import MQTTCodec

/// Brings back what a store kept: takes its rows in, table after table in the order of `StoreTable.inOrderOfRecovery`,
/// and gives each to the shard where it belongs now. On one thread, before any shard has its first turn.
///
///     for row in store { recovery.restore(row) }  ─►  finish()
public struct Recovery: ~Copyable {
    /// Where a session is, and its entries that are to be put in order.
    private struct RestoredSession {
        let shard: BrokerShard
        let session: Session
        let isConnected: Bool
        /// Whether it was to end with its connection: nothing is given to it any more, and share groups have what they
        /// had given it.
        var ends: Bool { session.expiryIntervalSeconds == 0 }
    }

    private let shards: [BrokerShard]
    private var sessions: [UInt64: RestoredSession] = [:]
    /// The sessions that were on their way from another node of a cluster.
    private var halves: Set<UInt64> = []
    /// The bodies of shared messages, kept only when sessions live on other shards than when the store was written.
    private var bodies: [UInt64: [UInt8]] = [:]
    private var flows: [UInt64: StoredFlow] = [:]
    /// Messages that share groups had given to members whose sessions have ended, or end with the broker.
    private var orphans: [Orphan] = []
    /// The rows of entries whose messages another shard has: a share group has given them to a member there, and the
    /// rows here had not gone.
    private var moved: Set<UInt64> = []
    /// Copies of shared messages for shards that their rows do not belong to.
    private var copies: [Copy: UInt64] = [:]
    private var sources: [StoredOrigin: RetainedSource] = [:]
    /// How far each shard of that run had read a cluster's log.
    private var logPositions: [Int: StoredLogPositions] = [:]
    /// What each shard knew to be done of what share groups dispatch out of it.
    private var groupDispatches: [Int: StoredDispatches] = [:]
    /// How the broker ran before; nil for a store that was made by an import, as by one shard.
    private var run: StoredBrokerState?
    /// Whether rows belong to other shards now than when they were written.
    private var isRebalancing: Bool { Int(run?.shardCount ?? 1) != shards.count }
    private var summary = RecoverySummary()

    private struct Orphan {
        let number: UInt64
        let member: GroupMember
        /// For the member's shard.
        let message: Message
    }

    private struct Copy: Hashable {
        let number: UInt64
        let shard: Int
    }

    /// - Parameters:
    ///   - shards: all of them, by index, none with clients yet.
    ///   - highestKeys: the highest key in each table that has rows.
    public init(shards: [BrokerShard], highestKeys: [StoreTable: UInt64]) {
        self.shards = shards
        let numbered: [StoreTable] = [.broker, .subscription, .message, .entry, .retained, .relayed]
        let serial = numbered.compactMap { highestKeys[$0] }.max() ?? 0
        for shard in shards { shard.sessionRows.skipNumbers(session: (highestKeys[.session] ?? 0) >> 8, other: serial >> 8) }
    }

    /// Takes a row in.
    ///
    /// - Returns: false if its body is not what the core writes.
    public mutating func restore(_ table: StoreTable, key: UInt64, body: UnsafeRawBufferPointer) -> Bool {
        switch table {
        case .broker: restoreBrokerRow(key, body)
        case .session: restoreSession(key, body)
        case .subscription: restoreSubscription(key, body)
        case .received: restoreReceipt(key, body)
        case .message: restoreMessage(key, body)
        case .entry: restoreEntry(key, body)
        case .flow: restoreFlow(key, body)
        case .retained: restoreRetained(key, body)
        case .relayed: restoreRelayed(key, body)
        }
    }

    /// After the last row: puts the queues in order, and lets clients that were connected have gone.
    ///
    /// - Returns: how much there was, and what has changed by it, which must be durable in one chunk before any shard
    ///   has its first turn.
    public consuming func finish() -> (summary: RecoverySummary, changes: JournalBatch) {
        keepBrokerState()
        restoreLogPositions()
        restoreDispatch()
        passOnOrphans()
        arrangeQueues()
        // The rows of shared messages that no entry names go.
        for shard in shards { shard.journal?.settleShared() }
        return (summary, takeChanges())
    }

    private mutating func passOnOrphans() {
        for orphan in orphans {
            shards[0].journal?.delete(.entry, key: orphan.number)
            shards[orphan.member.shard].sessionRows.restoreShared(orphan.message, for: orphan.member)
            summary.dispatchedToGone += 1
        }
    }

    private func arrangeQueues() {
        var flows = flows
        for key in sessions.keys.sorted() {
            guard let restored = sessions[key] else { continue }
            let sent = restored.session.queue.arrange(
                flows, inFlightMax: restored.isConnected ? restored.shard.sessionRows.windowMax : 0)
            for number in sent { flows[number] = nil }
            if restored.isConnected {
                restored.shard.sessionRows.endConnection(ofRestored: restored.session)
            } else {
                restored.shard.lifecycle.armTimer(of: restored.session)
            }
            restored.shard.queueRoom.updateFullness(of: restored.session)
        }
        // What its own shard does not use any more, for it was copied or nobody names it.
        for number in bodies.keys.sorted() where copies[Copy(number: number, shard: Int(number & 0xff))] == nil {
            shards[0].journal?.delete(.message, key: number)
        }
        // What a crash left of flows whose entry had gone.
        for number in flows.keys.sorted() { shards[0].journal?.delete(.flow, key: number) }
    }

    private func takeChanges() -> JournalBatch {
        let changes = JournalBatch()
        for shard in shards {
            guard let journal = shard.journal, let batch = journal.takeBatch() else { continue }
            batch.forEach { changes.append($0) }
            journal.committed(through: batch.lastSequence)
        }
        return changes
    }

    private mutating func restoreBrokerRow(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        if let shard = StoredLogPositions.shard(ofKey: key) {
            guard let row = StoredLogPositions(decoding: body) else { return false }
            logPositions[shard] = row
            return true
        }
        if let shard = StoredDispatches.shard(ofKey: key) {
            guard let row = StoredDispatches(decoding: body) else { return false }
            groupDispatches[shard] = row
            return true
        }
        if key == StoredMembership.key {
            shards[0].clusterRows.membership = StoredMembership(decoding: body)
            return shards[0].clusterRows.membership != nil
        }
        guard key == StoredBrokerState.key else {
            return StoredBan(decoding: body).map { shards[0].banEnforcement.restore($0.ban, key: key) } ?? false
        }
        guard let row = StoredBrokerState(decoding: body) else { return false }
        run = row
        return true
    }

    private mutating func restoreSession(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        guard let row = StoredSession(decoding: body) else { return false }
        guard !row.isArriving else {
            // The node that had it has it still, or another one.
            halves.insert(key)
            shards[0].journal?.delete(.session, key: key)
            return true
        }
        let shard = shards[shards[0].placement.shard(of: row.clientIdentifier)]
        guard let session = shard.sessionRows.restore(row, key: key) else { return false }
        sessions[key] = RestoredSession(shard: shard, session: session, isConnected: row.isConnected)
        if isRebalancing, !logPositions.isEmpty, !session.isReplaying {
            let floor = logFloor(of: row.clientIdentifier)
            session.logFloor = floor.map { session.logFloor?.later($0) ?? $0 } ?? session.logFloor
        }
        if row.expiryIntervalSeconds > 0 { summary.sessions += 1 }
        return true
    }

    private mutating func restoreSubscription(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        guard let row = StoredSubscription(decoding: body) else { return false }
        guard let restored = sessions[row.session], !restored.ends else {
            shards[0].journal?.delete(.subscription, key: key)
            return true
        }
        summary.subscriptions += 1
        restored.shard.sessionRows.restore(row, of: restored.session, number: key, among: shards)
        return true
    }

    private mutating func restoreReceipt(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        guard let receipt = StoredReceipt(key: key, body: body) else { return false }
        if let restored = sessions[receipt.session] {
            _ = restored.session.receivedIdentifiers.insert(
                receipt.packetIdentifier, digest: Storing.shortDigest(receipt.digest))
            if let step = receipt.place {
                restored.shard.clusterRows.steps[receipt.session, default: [:]][receipt.packetIdentifier] = step
            }
            if !receipt.choices.isEmpty { restored.shard.receipts.choose(receipt.choices, for: key) }
            restored.shard.receipts.markRestored(key)
            // What a single shard received stands in one batch with all that came of it.
            let isComplete = run.map { $0.hasEnded || $0.shardCount == 1 && !receipt.hasParts } ?? true
            if !isComplete { restored.shard.receipts.markUncertain(key, digest: receipt.digest, hasMoved: isRebalancing) }
            if isRebalancing, isComplete { restoreTaken(key, receipt.digest, receipt.choices) }
        } else {
            shards[0].journal?.delete(.received, key: key)
        }
        return true
    }

    private mutating func restoreMessage(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        var reader = RecordReader(body)
        guard let parts = MessageParts(&reader), parts.isLegal, reader.isAtEnd else { return false }
        if isRebalancing {
            bodies[key] = Array(body)
        } else {
            shards[Int(key & 0xff) % shards.count].journal?.markShared(key)
        }
        return true
    }

    private mutating func restoreEntry(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        var reader = RecordReader(body)
        guard let header = EntryHeader(&reader), let identifiers = reader.take(Int(header.identifiersLength)),
            Properties.areSubscriptionIdentifiers(identifiers)
        else { return false }
        // One of QoS 2 is there once, whether the session that had it is still there or not.
        if moved.contains(key) || header.qos == .atMostOnce && header.packetIdentifier == EntryHeader.endsWithBroker {
            shards[0].journal?.delete(.entry, key: key)
            return true
        }
        let rest = reader.rest
        var payload: UInt64 = 0
        if header.isInline {
            guard let parts = MessageParts(&reader), parts.isLegal, reader.isAtEnd else { return false }
        } else {
            guard let number = reader.read(UInt64.self), reader.isAtEnd else { return false }
            if sessions[header.session] != nil {
                guard let known = self.payload(number, of: header, key, body) else { return false }
                payload = known
            }
        }
        guard let restored = sessions[header.session], !restored.ends || header.group == 0 else {
            var reader = RecordReader(rest)
            // What was sent with QoS 2 stays with the session that is gone. [MQTT-4.8.2-5 v5]
            let stays = header.qos == .exactlyOnce && (header.packetIdentifier != 0 || flows[key] != nil)
            if !stays, !halves.contains(header.session), let topic = MessageParts(&reader)?.topic,
                let member = shards[0].sessionRows.member(ofGroup: header.group, for: topic),
                let message = shards[member.shard].sessionRows.restoredMessage(rest)
            {
                orphans.append(Orphan(number: key, member: member, message: message))
            } else {
                shards[0].journal?.delete(.entry, key: key)
            }
            return true
        }
        summary.messages += 1
        // What was in flight to a client that was connected stands in front as a whole: a QoS 1 message of it has no
        // flow, and may not fall behind one of QoS 2 that has. How large the window was, nobody has written down.
        let frontMax = max(restored.shard.settings.residentMessagesMax, restored.isConnected ? Int(UInt16.max) : 0)
        restored.shard.sessionRows.restore(
            header, Array(identifiers), of: restored.session, number: key, payload: payload, message: rest,
            isInFront: flows[key] != nil || restored.session.queue.count < frontMax)
        return true
    }

    /// The row of a shared message, as the shard of the entry's session knows it, with a reference to it; a copy of the
    /// row if it was another shard's. Nil if there is no such row.
    private mutating func payload(_ number: UInt64, of header: EntryHeader, _ key: UInt64, _ body: UnsafeRawBufferPointer)
        -> UInt64?
    {
        guard isRebalancing else {
            return shards[Int(number & 0xff) % shards.count].journal?.claimShared(number) ?? false ? number : nil
        }
        guard let restored = sessions[header.session], let bytes = bodies[number], let journal = restored.shard.journal else {
            return nil
        }
        let isOwn = Int(number & 0xff) == restored.shard.index
        let copy = Copy(number: number, shard: restored.shard.index)
        let made = copies[copy] ?? (isOwn ? number : journal.nextNumber())
        if copies[copy] == nil {
            copies[copy] = made
            if !isOwn { journal.insert(.message, key: made, bytes) }
            journal.markShared(made)
        }
        if !isOwn { rewrite(key, body, to: made, journal) }
        return journal.claimShared(made) ? made : nil
    }

    /// Lets the row of an entry name another row of its message.
    private func rewrite(_ key: UInt64, _ body: UnsafeRawBufferPointer, to number: UInt64, _ journal: Journal) {
        var bytes = Array(body)
        let count = bytes.count
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: number, toByteOffset: count - 8, as: UInt64.self) }
        journal.delete(.entry, key: key)
        journal.insert(.entry, key: key, bytes)
    }

    private mutating func restoreFlow(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        guard let flow = StoredFlow(decoding: body) else { return false }
        flows[key] = flow
        return true
    }

    /// After an orderly end every shard has had its part of a QoS 2 message. On other shards than before all of them
    /// are told so.
    private func restoreTaken(_ receipt: UInt64, _ digest: UInt64?, _ choices: [GroupChoice]) {
        for shard in shards {
            restore(RelayedReceipt(receipt, .routed), digest, shard)
            restore(RelayedReceipt(receipt, .retained), digest, shard)
            for choice in choices { restore(RelayedReceipt(receipt, .routed, group: choice.group), digest, shard) }
        }
    }

    private func restore(_ taken: RelayedReceipt, _ digest: UInt64?, _ shard: BrokerShard) {
        if !shard.receipts.isStored(taken) { shard.storing.keepRelayed(taken, digest: digest) }
    }

    /// What the shard had read of the log on which a session was.
    private func logFloor(of clientIdentifier: EncodedString) -> LogPositions? {
        let placement = ShardPlacement(shardCount: Int(run?.shardCount ?? 1), hashing: shards[0].placement.hashing)
        return logPositions[placement.shard(of: clientIdentifier)]?.places
    }

    /// On other shards than before, all read from the earliest position on, and each session is given what is behind
    /// its own.
    private func restoreLogPositions() {
        guard !logPositions.isEmpty else { return }
        let earliest = logPositions.values.map(\.places).reduce(nil as LogPositions?) { $0?.earlier($1) ?? $1 }
        for shard in shards {
            shard.clusterRows.hasLogPositions = logPositions[shard.index] != nil
            shard.clusterRows.logPositions =
                isRebalancing ? earliest.map { StoredLogPositions($0) } : logPositions[shard.index]
        }
        for shard in logPositions.keys.sorted() where shard >= shards.count {
            shards[0].journal?.delete(.broker, key: StoredLogPositions.key(shard: shard))
        }
    }

    /// Restores the dispatches of share groups: a message that one shard has dispatched may wait on any.
    private func restoreDispatch() {
        guard let all = groupDispatches.values.reduce(nil as StoredDispatches?, { $0?.union($1) ?? $1 }) else { return }
        for shard in shards {
            shard.clusterRows.dispatch = all
            shard.clusterRows.hasDispatch = groupDispatches[shard.index] != nil
        }
        for shard in groupDispatches.keys.sorted() where shard >= shards.count {
            shards[0].journal?.delete(.broker, key: StoredDispatches.key(shard: shard))
        }
    }

    private func keepBrokerState() {
        let row = StoredBrokerState(shardCount: shards.count, hasEnded: false).encoded()
        shards[0].journal?.put(.broker, key: StoredBrokerState.key, row, isThere: run != nil)
    }

    /// On other shards than before, every one of them takes it for its own. After a crash none does: the part of a
    /// shard that is no more could be lost, and must not pass for done.
    private mutating func restoreRelayed(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        guard let (receipt, digest) = RelayedReceipt.decode(body) else { return false }
        if let number = receipt.entry { moved.insert(number) }
        guard sessions[receipt.session] != nil else {
            shards[0].journal?.delete(.relayed, key: key)
            return true
        }
        guard isRebalancing else {
            let own = shards[Int(key & 0xff) % shards.count]
            own.receipts.take(receipt, row: key, digest: digest)
            let hasEnded = run?.hasEnded ?? true
            for shard in shards where shard === own || receipt.group != 0 && !hasEnded {
                // A share group takes its part once, and the member that took it may have gone with the crash: sent
                // again, the message is another member's.
                if shard !== own { shard.receipts.take(receipt, digest: digest) }
                // One of the shard's own clients is known already, with its digest.
                guard shard === own || sessions[receipt.session]?.shard !== shard else { continue }
                if !hasEnded, !shard.receipts.isUncertain(receipt.receipt) {
                    shard.receipts.markUncertain(receipt.receipt, digest: nil)
                }
            }
            return true
        }
        shards[0].journal?.delete(.relayed, key: key)
        if run?.hasEnded ?? true {
            for shard in shards { restore(receipt, digest, shard) }
        }
        return true
    }

    private mutating func restoreRetained(_ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool {
        var reader = RecordReader(body)
        guard let parts = MessageParts(&reader), parts.isLegal else { return false }
        var source: RetainedSource?
        if !reader.isAtEnd {
            guard let origin = StoredOrigin(&reader), reader.isAtEnd else { return false }
            source = self.source(origin)
        }
        shards[shards[0].placement.shard(of: parts.topic)].sessionRows.restoreRetained(parts, source: source, number: key)
        summary.retained += 1
        return true
    }

    /// One for all messages of an origin.
    private mutating func source(_ origin: StoredOrigin) -> RetainedSource {
        if let known = sources[origin] { return known }
        let settings = shards[0].settings
        let index = origin.listener.index(among: settings)
        let name = if case .name(let name) = origin.listener { name } else { index.map { settings.policy(of: $0).name } ?? "" }
        let made = RetainedSource(
            clientIdentifier: origin.clientIdentifier, userName: origin.userName, listener: index, listenerName: name)
        sources[origin] = made
        return made
    }
}

/// How much a store has given back.
public struct RecoverySummary: Sendable, Equatable {
    public internal(set) var sessions = 0
    public internal(set) var subscriptions = 0
    /// Messages on their way to sessions.
    public internal(set) var messages = 0
    public internal(set) var retained = 0
    /// Messages that share groups had dispatched to members whose sessions have ended, which go to others.
    public internal(set) var dispatchedToGone = 0

    public init() {}
}
