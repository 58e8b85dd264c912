import BrokerModel
import MQTTCodec

/// Finding the retained messages for new subscriptions.
///
/// A subscription to one topic asks the shard that keeps it, any other all shards; each walks its own messages a few
/// steps a turn. A session asks for so much at a time; its other subscriptions wait their turn, and nobody else waits
/// for them.
extension BrokerShard {
    /// How many messages may wait for a session before its scan pauses; fewer where queues are short.
    func scanQueueMax(of session: Session) -> Int {
        let messagesMax = bound(of: session).messagesMax
        return messagesMax == 0 ? 64 : min(64, max(1, messagesMax / 2))
    }

    /// Subscriptions ask for what is retained.
    func beginScans(_ queries: [RetainedQuery]) {
        guard let first = queries.first else { return }
        if let owed = sessions.find(index: first.sessionIndex, key: first.sessionKey)?.owed {
            for query in queries { owed.begin(query.filter) }
        }
        guard shardCount > 1 || retained.count > 0 || queries.last?.mark != nil else { return scans.recordEnd(of: first) }
        if queries.count == 1, finds(nothingFor: first) { return scans.recordEnd(of: first) }
        let place = scans.makePlace(for: first)
        for var query in queries {
            query.startStamp = retained.stamp
            scans[place].want(query)
        }
        // The others are asked at the end of the turn.
        var steps = Limits.scanStepsAtOnce
        askWanted(place, &steps)
        scans.removeIfEmpty(at: place)
    }

    /// Whether a query for one topic is answered at once, for there is nothing, and its session waits for nothing else.
    private func finds(nothingFor query: RetainedQuery) -> Bool {
        guard query.mark == nil, scans.place(of: query.sessionKey) == nil, Self.isExact(query) else { return false }
        return query.filter.withUnsafeBytes { placement.shard(of: $0) == index && retained.find($0) == nil }
    }

    /// The queries of a session whose turn it is, as far as it has room for the answers, and the steps go, of which a
    /// filter takes its levels.
    private func askWanted(_ place: Int, _ steps: inout Int) {
        guard let session = sessions.find(index: scans[place].sessionIndex, key: scans[place].sessionKey) else { return }
        while steps > 0, mayAsk(session, place), let query = scans[place].nextWanted() {
            scans.visitCount += 1
            steps = max(0, steps - OpenPackets.steps(of: query.filter))
            ask(query, session, place)
        }
    }

    /// Whether a session may ask for more just now: it has room, and half of its queue is left for what other shards
    /// send ahead.
    private func mayAsk(_ session: Session, _ place: Int) -> Bool {
        guard scans[place].askableCount > 0, hasRoom(session) else { return false }
        return scans[place].partCount == 0 || session.retainedAhead < creditSum(of: session, queues: true)
    }

    private func creditSum(of session: Session, queues: Bool) -> Int {
        let messagesMax = bound(of: session).messagesMax
        return queues && messagesMax > 0 ? messagesMax / 2 : Limits.scanCreditSum
    }

    private func ask(_ waited: RetainedQuery, _ session: Session, _ place: Int) {
        if let mark = waited.mark { return scansEnded(before: mark) }
        var query = waited
        // What was subscribed to again meanwhile has other terms. [MQTT-3.8.4-3 v5]
        let record = query.filter.withUnsafeBytes { tree.find($0, subscriber: .session(session.index)) }
        guard record != SubscriptionRecord.none else { return }
        query.terms = tree.records[record].terms
        guard Self.isExact(query) else {
            if shardCount > 1 { ask(&query, of: (0..<shardCount).filter { $0 != index }, session, place) }
            if retained.count > 0 { openScan(query, place) }
            return
        }
        let keeper = query.filter.withUnsafeBytes { placement.shard(of: $0) }
        guard keeper == index else { return ask(&query, of: [keeper], session, place) }
        // One topic needs no walk.
        if let message = query.filter.withUnsafeBytes({ retained.find($0, until: query.startStamp) }) {
            deliverRetained(message, query)
        }
    }

    private func ask(_ query: inout RetainedQuery, of shards: [Int], _ session: Session, _ place: Int) {
        // Those that are asked now share what is left.
        let count = min(scans[place].wantedCount + 1, scans[place].askableCount)
        query.credit = reserveCredit(of: session, query.terms, shards: shards.count, sharedBy: count)
        for shard in shards {
            scans[place].addPart(of: shard, shardCount: shardCount)
            send(.retainedQuery(query), shard)
        }
    }

    /// The credit of a query that shares what is left with as many others. All that a session has asked for fills half
    /// of its queue, if it may have to wait there, save that each query gets one message from each shard.
    private func reserveCredit(of session: Session, _ terms: SubscriptionTerms, shards: Int, sharedBy count: Int) -> Int {
        let mayQueue = terms.maximumQoS > .atMostOnce || settings.queuesQoS0
        let messages = min(Limits.scanCreditMax, (creditSum(of: session, queues: mayQueue) - session.retainedAhead) / count)
        let credit = max(1, messages / shards)
        session.retainedAhead += credit * shards
        return credit
    }

    private static func isExact(_ query: RetainedQuery) -> Bool {
        !query.filter.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
    }

    private func openScan(_ query: RetainedQuery, _ place: Int) {
        let startStamp = query.shard == index ? query.startStamp : retained.stamp
        let scan = query.filter.withUnsafeBytes { RetainedScan(filter: $0, store: retained, startStamp: startStamp) }
        scans.open(query, scan, at: place)
    }

    /// A session of another shard asks.
    func receivedQuery(_ query: RetainedQuery) {
        guard retained.count > 0, !Self.isExact(query) else {
            let message = query.filter.withUnsafeBytes { retained.find($0) }
            if let message, checkRetained(message) { send(message, to: query, request: 0, scan: 0) }
            send(.retainedFinished(query, scan: 0), query.shard)
            return
        }
        openScan(query, scans.makePlace(for: query))
    }

    /// Another shard has found everything.
    func receivedFinish(of query: RetainedQuery, scan: UInt64, by shard: Int) {
        if let place = scans.place(of: query.sessionKey) { scans[place].finishPart(of: shard, scan: scan) }
        sessions.find(index: query.sessionIndex, key: query.sessionKey)?.retainedAhead -= query.credit
    }

    /// The session has ended. Those that look for it hear of it.
    func cancelScans(of session: Session) {
        guard let place = scans.place(of: session.key) else { return }
        let parts = scans[place].parts
        scans.remove(session.key, in: &retained)
        for shard in parts.indices where parts[shard] > 0 { send(.retainedCancelled(sessionKey: session.key), shard) }
    }

    /// The session has unsubscribed from a filter whose turn has not come.
    func forgetQuery(_ filter: [UInt8], of session: Session) {
        guard let place = scans.place(of: session.key) else { return }
        scans[place].unwant(filter)
        scans.removeIfEmpty(at: place)
    }

    /// Takes the scans some steps further, as far as their receivers keep up.
    func stepScans() {
        var turn = scans.beginTurn()
        while let place = scans.nextPlace(in: &turn) { step(place, &turn.steps) }
    }

    /// After the flush: whether a scan has room that it had not before, so that the next turn must come at once.
    func markReadyScans() {
        if scans.sessions.contains(where: isReady) { scans.markReady() }
    }

    private func isReady(_ session: SessionScans) -> Bool {
        guard session.shard == index else { return !session.isStuck && !session.scans.isEmpty }
        guard let owner = sessions.find(index: session.sessionIndex, key: session.sessionKey), hasRoom(owner) else { return false }
        return session.hasWork
            || (session.mayAskMore && (session.partCount == 0 || owner.retainedAhead < creditSum(of: owner, queues: true)))
    }

    /// Goes on with what a session has asked for.
    private func step(_ place: Int, _ steps: inout Int) {
        let (key, sessionIndex, isOwn) = (scans[place].sessionKey, scans[place].sessionIndex, scans[place].shard == index)
        guard isOwn ? hasRoom(sessionIndex: sessionIndex, sessionKey: key) : !scans[place].isStuck else { return }
        for grant in scans.takeDue(at: place) {
            send(.retainedMore(scan: grant.scan, sessionKey: key, count: grant.count), grant.shard)
        }
        for position in scans[place].scans.indices where steps > 0 {
            scans.visitCount += 1
            step(place, position, &steps)
        }
        for finished in scans.takeFinished(at: place) where finished.query.shard != index {
            send(.retainedFinished(finished.query, scan: finished.number), finished.query.shard)
        }
        if isOwn { askWanted(place, &steps) } else { scans[place].isStuck = steps > 0 }
    }

    /// Takes one scan further.
    private func step(_ place: Int, _ position: Int, _ steps: inout Int) {
        while hasRoom(scans[place].scans[position]) {
            switch scans[place].scans[position].scan.next(in: &retained, steps: &steps) {
            case .message(let message): deliverRetained(message, ofScan: position, place)
            case .pause: return
            case .finished:
                scans[place].scans[position].isFinished = true
                return
            }
        }
    }

    /// Whether the receiver of a scan takes more just now.
    private func hasRoom(_ scan: OpenScan) -> Bool {
        guard scan.query.shard == index else { return scan.credit > 0 }
        return hasRoom(sessionIndex: scan.query.sessionIndex, sessionKey: scan.query.sessionKey)
    }

    private func hasRoom(sessionIndex: UInt32, sessionKey: UInt64) -> Bool {
        sessions.find(index: sessionIndex, key: sessionKey).map { hasRoom($0) } ?? true
    }

    private func hasRoom(_ session: Session) -> Bool {
        guard session.queue.waiting < scanQueueMax(of: session) else { return false }
        guard let connection = session.connection else { return true }
        return connection.with { $0.output.pendingBytes < Limits.outputBytesForQueueMax * 4 }
    }

    /// Hands out what a scan has found.
    private func deliverRetained(_ message: Message, ofScan position: Int, _ place: Int) {
        let query = scans[place].scans[position].query
        guard query.shard != index else { return deliverRetained(message, query) }
        guard checkRetained(message) else { return }
        let request = scans[place].scans[position].send(byteCount: message.byteCount)
        send(message, to: query, request: request, scan: scans[place].scans[position].number)
    }

    private func send(_ message: Message, to query: RetainedQuery, request: UInt32, scan: UInt64) {
        let detail = ShardMessageDetail(
            sessionKey: query.sessionKey, sessionIndex: query.sessionIndex, terms: query.terms.bits, request: request,
            stamp: query.stamp, shards: scan)
        append(Publication(message), as: .retained, detail, to: query.shard)
    }
}

extension RetainedScans: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.scans.isEmpty || shard.scans.hasReadyScan || shard.scans.hasEnded }

    static func step(_ shard: BrokerShard) {
        if !shard.scans.isEmpty || shard.scans.hasReadyScan { shard.stepScans() }
        if shard.scans.hasEnded { shard.settleEndedScans() }
    }

    /// Scans whose receivers have no room wait until they do.
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.scans.hasReadyScan ? shard.now : nil }
}

/// Whether a scan has room behind the flush that it had not before it, so that the next turn must come at once.
enum ReadyScans: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.scans.isEmpty && !shard.scans.hasReadyScan }
    static func step(_ shard: BrokerShard) { shard.markReadyScans() }
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension Limits {
    /// Messages that one scan of another shard may be ahead of the session that asked; beyond it, the scan waits until
    /// some were taken.
    static let scanCreditMax = 2048

    /// Messages that all queries of a shard to others may bring ahead together; beyond it, each gets less.
    static let scanCreditSum = 16_384
}
