import BrokerModel
import MQTTCodec

/// Finding the retained messages for new subscriptions.
///
/// A subscription to one topic asks the shard that keeps it, any other all shards; each walks its own messages a few
/// steps a turn. A session asks for so much at a time; its other subscriptions wait their turn, and nobody else waits
/// for them.
struct RetainedScanning {
    let shard: BrokerShard

    /// How many messages may wait for a session before its scan pauses; fewer where queues are short.
    func scanQueueMax(of session: Session) -> Int {
        let messagesMax = shard.dispatcher.bound(of: session).messagesMax
        return messagesMax == 0 ? 64 : min(64, max(1, messagesMax / 2))
    }

    /// Subscriptions ask for what is retained.
    func beginScans(_ queries: [RetainedQuery]) {
        guard let first = queries.first else { return }
        if let owed = shard.sessions.find(index: first.sessionIndex, key: first.sessionKey)?.owed {
            for query in queries { owed.begin(query.filter) }
        }
        guard shard.shardCount > 1 || shard.retained.count > 0 || queries.last?.mark != nil else {
            return shard.scans.recordEnd(of: first)
        }
        if queries.count == 1, finds(nothingFor: first) { return shard.scans.recordEnd(of: first) }
        let slot = shard.scans.makeSlot(for: first)
        for var query in queries {
            query.startStamp = shard.retained.stamp
            shard.scans[slot].want(query)
        }
        // The others are asked at the end of the turn.
        var steps = Limits.scanStepsAtOnce
        askWanted(slot, &steps)
        shard.scans.removeIfEmpty(at: slot)
    }

    /// Whether a query for one topic is answered at once, for there is nothing, and its session waits for nothing else.
    private func finds(nothingFor query: RetainedQuery) -> Bool {
        guard query.mark == nil, shard.scans.slot(of: query.sessionKey) == nil, Self.isExact(query) else { return false }
        return query.filter.withUnsafeBytes { shard.placement.shard(of: $0) == shard.index && shard.retained.find($0) == nil }
    }

    /// The queries of a session whose turn it is, as far as it has room for the answers, and the steps go, of which a
    /// filter takes its levels.
    private func askWanted(_ slot: Int, _ steps: inout Int) {
        guard let session = shard.sessions.find(index: shard.scans[slot].sessionIndex, key: shard.scans[slot].sessionKey) else {
            return
        }
        while steps > 0, mayAsk(session, slot), let query = shard.scans[slot].nextWanted() {
            shard.scans.visitCount += 1
            steps = max(0, steps - OpenPackets.steps(of: query.filter))
            ask(query, session, slot)
        }
    }

    /// Whether a session may ask for more just now: it has room, and half of its queue is left for what other shards
    /// send ahead.
    private func mayAsk(_ session: Session, _ slot: Int) -> Bool {
        guard shard.scans[slot].askableCount > 0, hasRoom(session) else { return false }
        return shard.scans[slot].partCount == 0 || session.retainedAhead < creditSum(of: session, queues: true)
    }

    private func creditSum(of session: Session, queues: Bool) -> Int {
        let messagesMax = shard.dispatcher.bound(of: session).messagesMax
        return queues && messagesMax > 0 ? messagesMax / 2 : Limits.scanCreditSum
    }

    private func ask(_ waited: RetainedQuery, _ session: Session, _ slot: Int) {
        if let mark = waited.mark { return scansEnded(before: mark) }
        var query = waited
        // What was subscribed to again meanwhile has other terms. [MQTT-3.8.4-3 v5]
        let record = query.filter.withUnsafeBytes { shard.tree.find($0, subscriber: .session(session.index)) }
        guard record != SubscriptionRecord.none else { return }
        query.terms = shard.tree.records[record].terms
        guard Self.isExact(query) else {
            if shard.shardCount > 1 { ask(&query, of: (0..<shard.shardCount).filter { $0 != shard.index }, session, slot) }
            if shard.retained.count > 0 { openScan(query, slot) }
            return
        }
        let keeper = query.filter.withUnsafeBytes { shard.placement.shard(of: $0) }
        guard keeper == shard.index else { return ask(&query, of: [keeper], session, slot) }
        // One topic needs no walk.
        if let message = query.filter.withUnsafeBytes({ shard.retained.find($0, until: query.startStamp) }) {
            shard.retainedMessages.deliverRetained(message, query)
        }
    }

    private func ask(_ query: inout RetainedQuery, of shards: [Int], _ session: Session, _ slot: Int) {
        // Those that are asked now share what is left.
        let count = min(shard.scans[slot].wantedCount + 1, shard.scans[slot].askableCount)
        query.credit = reserveCredit(of: session, query.terms, shards: shards.count, sharedBy: count)
        for target in shards {
            shard.scans[slot].addPart(of: target, shardCount: shard.shardCount)
            shard.messaging.send(.retainedQuery(query), target)
        }
    }

    /// The credit of a query that shares what is left with as many others. All that a session has asked for fills half
    /// of its queue, if it may have to wait there, save that each query gets one message from each shard.
    private func reserveCredit(of session: Session, _ terms: SubscriptionTerms, shards: Int, sharedBy count: Int) -> Int {
        let mayQueue = terms.maximumQoS > .atMostOnce || shard.settings.queuesQoS0
        let messages = min(Limits.scanCreditMax, (creditSum(of: session, queues: mayQueue) - session.retainedAhead) / count)
        let credit = max(1, messages / shards)
        session.retainedAhead += credit * shards
        return credit
    }

    private static func isExact(_ query: RetainedQuery) -> Bool {
        !query.filter.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
    }

    private func openScan(_ query: RetainedQuery, _ slot: Int) {
        let startStamp = query.shard == shard.index ? query.startStamp : shard.retained.stamp
        let scan = query.filter.withUnsafeBytes { RetainedScan(filter: $0, store: shard.retained, startStamp: startStamp) }
        shard.scans.open(query, scan, at: slot)
    }

    /// A session of another shard asks.
    func receivedQuery(_ query: RetainedQuery) {
        guard shard.retained.count > 0, !Self.isExact(query) else {
            let message = query.filter.withUnsafeBytes { shard.retained.find($0) }
            if let message, shard.retainedMessages.checkRetained(message) { send(message, to: query, request: 0, scan: 0) }
            shard.messaging.send(.retainedFinished(query, scan: 0), query.shard)
            return
        }
        openScan(query, shard.scans.makeSlot(for: query))
    }

    /// Another shard has found everything.
    func receivedFinish(of query: RetainedQuery, scan: UInt64, by target: Int) {
        if let slot = shard.scans.slot(of: query.sessionKey) { shard.scans[slot].finishPart(of: target, scan: scan) }
        shard.sessions.find(index: query.sessionIndex, key: query.sessionKey)?.retainedAhead -= query.credit
    }

    /// The session has ended. Those that look for it hear of it.
    func cancelScans(of session: Session) {
        guard let slot = shard.scans.slot(of: session.key) else { return }
        let parts = shard.scans[slot].parts
        shard.scans.remove(session.key, in: &shard.retained)
        for target in parts.indices where parts[target] > 0 {
            shard.messaging.send(.retainedCancelled(sessionKey: session.key), target)
        }
    }

    /// The session has unsubscribed from a filter whose turn has not come.
    func forgetQuery(_ filter: [UInt8], of session: Session) {
        guard let slot = shard.scans.slot(of: session.key) else { return }
        shard.scans[slot].unwant(filter)
        shard.scans.removeIfEmpty(at: slot)
    }

    /// Takes the scans some steps further, as far as their receivers keep up.
    func stepScans() {
        var turn = shard.scans.beginTurn()
        while let slot = shard.scans.nextSlot(in: &turn) { step(slot, &turn.steps) }
    }

    /// After the flush: whether a scan has room that it had not before, so that the next turn must come at once.
    func markReadyScans() {
        if shard.scans.sessions.contains(where: isReady) { shard.scans.markReady() }
    }

    private func isReady(_ session: SessionScans) -> Bool {
        guard session.shard == shard.index else { return !session.isStuck && !session.scans.isEmpty }
        guard let owner = shard.sessions.find(index: session.sessionIndex, key: session.sessionKey), hasRoom(owner) else {
            return false
        }
        return session.hasWork
            || (session.mayAskMore && (session.partCount == 0 || owner.retainedAhead < creditSum(of: owner, queues: true)))
    }

    /// Goes on with what a session has asked for.
    private func step(_ slot: Int, _ steps: inout Int) {
        let (key, sessionIndex, isOwn) = (
            shard.scans[slot].sessionKey, shard.scans[slot].sessionIndex, shard.scans[slot].shard == shard.index
        )
        guard isOwn ? hasRoom(sessionIndex: sessionIndex, sessionKey: key) : !shard.scans[slot].isStuck else { return }
        for grant in shard.scans.takeDue(at: slot) {
            shard.messaging.send(.retainedMore(scan: grant.scan, sessionKey: key, count: grant.count), grant.shard)
        }
        for position in shard.scans[slot].scans.indices where steps > 0 {
            shard.scans.visitCount += 1
            step(slot, position, &steps)
        }
        for finished in shard.scans.takeFinished(at: slot) where finished.query.shard != shard.index {
            shard.messaging.send(.retainedFinished(finished.query, scan: finished.number), finished.query.shard)
        }
        if isOwn { askWanted(slot, &steps) } else { shard.scans[slot].isStuck = steps > 0 }
    }

    /// Takes one scan further.
    private func step(_ slot: Int, _ position: Int, _ steps: inout Int) {
        while hasRoom(shard.scans[slot].scans[position]) {
            switch shard.scans[slot].scans[position].scan.next(in: &shard.retained, steps: &steps) {
            case .message(let message): deliverRetained(message, ofScan: position, slot)
            case .pause: return
            case .finished:
                shard.scans[slot].scans[position].isFinished = true
                return
            }
        }
    }

    /// Whether the receiver of a scan takes more just now.
    private func hasRoom(_ scan: OpenScan) -> Bool {
        guard scan.query.shard == shard.index else { return scan.credit > 0 }
        return hasRoom(sessionIndex: scan.query.sessionIndex, sessionKey: scan.query.sessionKey)
    }

    private func hasRoom(sessionIndex: UInt32, sessionKey: UInt64) -> Bool {
        shard.sessions.find(index: sessionIndex, key: sessionKey).map { hasRoom($0) } ?? true
    }

    private func hasRoom(_ session: Session) -> Bool {
        guard session.queue.waiting < scanQueueMax(of: session) else { return false }
        guard let connection = session.connection else { return true }
        return connection.with { $0.output.pendingBytes < Limits.outputBytesForQueueMax * 4 }
    }

    /// Hands out what a scan has found.
    private func deliverRetained(_ message: Message, ofScan position: Int, _ slot: Int) {
        let query = shard.scans[slot].scans[position].query
        guard query.shard != shard.index else { return shard.retainedMessages.deliverRetained(message, query) }
        guard shard.retainedMessages.checkRetained(message) else { return }
        let request = shard.scans[slot].scans[position].send(byteCount: message.byteCount)
        send(message, to: query, request: request, scan: shard.scans[slot].scans[position].number)
    }

    private func send(_ message: Message, to query: RetainedQuery, request: UInt32, scan: UInt64) {
        let detail = ShardMessageDetail(
            sessionKey: query.sessionKey, sessionIndex: query.sessionIndex, terms: query.terms.bits, request: request,
            stamp: query.stamp, shards: scan)
        shard.messaging.append(Publication(message), as: .retained, detail, to: query.shard)
    }
}

extension RetainedScans: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.scans.isEmpty || shard.scans.hasReadyScan || shard.scans.hasEnded }

    static func step(_ shard: BrokerShard) {
        if !shard.scans.isEmpty || shard.scans.hasReadyScan { shard.scanning.stepScans() }
        if shard.scans.hasEnded { shard.retainedMessages.settleEndedScans() }
    }

    /// Scans whose receivers have no room wait until they do.
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.scans.hasReadyScan ? shard.now : nil }
}

/// Whether a scan has room behind the flush that it had not before it, so that the next turn must come at once.
enum ReadyScans: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.scans.isEmpty && !shard.scans.hasReadyScan }
    static func step(_ shard: BrokerShard) { shard.scanning.markReadyScans() }
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension Limits {
    /// Messages that one scan of another shard may be ahead of the session that asked; beyond it, the scan waits until
    /// some were taken.
    static let scanCreditMax = 2048

    /// Messages that all queries of a shard to others may bring ahead together; beyond it, each gets less.
    static let scanCreditSum = 16_384
}
