import BrokerModel
import MQTTCodec

/// A session as a sorted list knows it.
struct ListedClient {
    let position: ClientPosition
    let index: UInt32
    let key: UInt64
}

/// The best sessions of a selection when all were looked at, kept for the pages that come next: a page far down a long
/// list need not look at all of them again.
struct ClientList {
    /// Its `after` is where the list begins.
    let selection: ClientSelection
    /// The best first.
    private let clients: [ListedClient]
    /// Whether there are others behind them.
    private let hasMore: Bool
    /// How many sessions are meant in all.
    let count: Int
    /// In milliseconds on the shard's clock.
    let madeAt: UInt64

    init(_ best: BestClients, count: Int, at now: UInt64) {
        (selection, clients, hasMore) = (best.selection, best.sorted(), best.hasMore)
        (self.count, madeAt) = (count, now)
    }

    /// The rows behind a position: of the sessions that are there and meant still.
    ///
    /// - Parameter after: nil for where the list begins.
    /// - Returns: fewer than there are if the list ends before the page does.
    func page(
        after: ClientPosition?, rowsMax: Int, of sessions: borrowing SessionTable, at now: UInt64
    ) -> (rows: [ClientRow], hasMore: Bool) {
        var rows: [ClientRow] = []
        for place in (after.map(firstIndex(behind:)) ?? 0)..<clients.count {
            guard rows.count < rowsMax else { return (rows, true) }
            let client = clients[place]
            guard let session = sessions.find(index: client.index, key: client.key), selection.takes(session, now: now) else {
                continue
            }
            rows.append(ClientRow(session, at: now, client.position))
        }
        return (rows, hasMore)
    }

    /// Whether it has what another selection asks for, from where that one goes on.
    func isOf(_ other: ClientSelection) -> Bool {
        guard let place = other.after else { return false }
        var same = other
        same.after = selection.after
        guard same == selection else { return false }
        return selection.after.map { $0 == place || $0.precedes(place, isDescending: other.isDescending) } ?? true
    }

    private func firstIndex(behind position: ClientPosition) -> Int {
        var (low, high) = (0, clients.count)
        while low < high {
            let middle = (low + high) / 2
            if position.precedes(clients[middle].position, isDescending: selection.isDescending) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low
    }
}

/// The lists that were made last, for who pages on through one of them. A first page is always looked for anew.
///
/// Invariant: at most `Limits.clientListsMax`, oldest first. They are let go when somebody asks after their time.
struct ClientLists {
    private var lists: [ClientList] = []

    mutating func add(_ list: ClientList) {
        if lists.count == Limits.clientListsMax { lists.removeFirst() }
        lists.append(list)
    }

    /// The page that a selection asks for, out of a list that is young enough.
    mutating func page(
        _ selection: ClientSelection, rowsMax: Int, of sessions: borrowing SessionTable, at now: UInt64
    ) -> (rows: [ClientRow], hasMore: Bool, count: Int)? {
        lists.removeAll { now &- $0.madeAt > Limits.clientListMilliseconds }
        for list in lists.reversed() where list.isOf(selection) {
            let page = list.page(after: selection.after, rowsMax: rowsMax, of: sessions, at: now)
            if page.rows.count == rowsMax || !page.hasMore { return (page.rows, page.hasMore, list.count) }
        }
        return nil
    }
}

/// The first sessions in an order behind some position, of those that were looked at so far.
///
/// A heap whose top is the worst of them: a session that is no better costs one comparison, and none is copied before
/// the end.
struct BestClients {
    let selection: ClientSelection
    private let max: Int
    private var heap: [ListedClient] = []
    /// Whether there are others behind `after` than those that are kept.
    private(set) var hasMore = false

    /// - Parameter max: how many are kept.
    init(_ selection: ClientSelection, max: Int) {
        (self.selection, self.max) = (selection, max)
    }

    /// Takes a session in that is meant, if it is one of the best. O(log max).
    ///
    /// - Returns: whether it is.
    mutating func add(_ session: Session, now: UInt64) -> Bool {
        let position = selection.position(of: session, now: now)
        if let after = selection.after, !precedes(after, position) { return false }
        let client = ListedClient(position: position, index: session.index, key: session.key)
        if heap.count < max {
            heap.append(client)
            rise(heap.count - 1)
        } else {
            hasMore = true
            guard precedes(position, heap[0].position) else { return false }
            heap[0] = client
            sink(0)
        }
        return true
    }

    /// The best first.
    func sorted() -> [ListedClient] { heap.sorted { precedes($0.position, $1.position) } }

    private func precedes(_ left: ClientPosition, _ right: ClientPosition) -> Bool {
        left.precedes(right, isDescending: selection.isDescending)
    }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0, precedes(heap[(place - 1) / 2].position, heap[place].position) {
            heap.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var worst = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count {
                if precedes(heap[worst].position, heap[child].position) { worst = child }
            }
            guard worst != place else { return }
            heap.swapAt(place, worst)
            place = worst
        }
    }
}

/// Looking through sessions, queues and trees for those who ask, a part of them in each turn.
extension Queries {
    func lookAtClients(_ selection: ClientSelection, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int) -> Bool {
        if query.best != nil { return lookForBestClients(selection, &query, &steps) }
        return visit(shard.sessions.indexEnd, &query, &steps) { place, query, steps in
            steps -= Limits.stepsPerSession - 1
            guard let session = shard.sessions.session(at: place), selection.takes(session, now: shard.now) else { return true }
            query.rows.clients.append(ClientRow(session, at: shard.now))
            return true
        }
    }

    /// All of a page in an order at the end: out of a list that was made for the page before, or of all sessions.
    private func lookForBestClients(
        _ selection: ClientSelection, _ query: inout QueryScheduler.OpenQuery, _ steps: inout Int
    ) -> Bool {
        let rowsMax = query.query.rowsMax
        if query.cursor.index == 0,
            let page = shard.inspection.queries.clientLists.page(selection, rowsMax: rowsMax, of: shard.sessions, at: shard.now)
        {
            query.rows.clients = page.rows
            (query.count, query.hasMore) = (page.count, page.hasMore)
            steps = max(0, steps - page.rows.count * Limits.stepsPerSession)
            return true
        }
        let isAtEnd = visit(shard.sessions.indexEnd, &query, &steps) { place, query, steps in
            // Judging a session is more than looking at a slot, and finding its position in a heap is more than that.
            steps -= Limits.stepsPerSession - 1
            guard let session = shard.sessions.session(at: place), selection.takes(session, now: shard.now) else { return true }
            query.count = (query.count ?? 0) + 1
            if query.best?.add(session, now: shard.now) ?? false { steps -= Limits.stepsPerListedSession }
            return true
        }
        guard isAtEnd, let best = query.best else { return false }
        let list = ClientList(best, count: query.count ?? 0, at: shard.now)
        shard.inspection.queries.clientLists.add(list)
        query.count = list.count
        (query.rows.clients, query.hasMore) = list.page(after: selection.after, rowsMax: rowsMax, of: shard.sessions, at: shard.now)
        return true
    }

    func lookAtQueue(
        of client: EncodedString, isInFlightOnly: Bool, withPayload: Bool, _ query: inout QueryScheduler.OpenQuery,
        _ steps: inout Int
    ) -> Bool {
        guard let session = shard.sessions.find(client) else { return true }
        query.count = isInFlightOnly ? session.queue.inFlight : session.queue.inFlight + session.queue.waiting
        let end = isInFlightOnly ? session.queue.sentEnd : session.queue.count
        return visit(UInt32(clamping: end), &query, &steps) { place, query, steps in
            let entry = session.queue[Int(place)]
            guard entry.state != .vacant else { return true }
            let row = QueueRow(entry, at: Int(place), now: shard.ledger.clockMicroseconds, withPayload: withPayload)
            let bytes = row.payload?.count ?? 0
            query.rows.queue.append(row)
            query.rows.payloadBytes += bytes
            query.rows.textBytes += row.topic?.count ?? 0
            steps -= bytes / Limits.payloadBytesPerStep
            return true
        }
    }

    /// First the slots of subscriptions, then those of retained messages.
    func lookAtTopics(_ query: inout QueryScheduler.OpenQuery, _ steps: inout Int) -> Bool {
        guard let prefix = query.levels?.prefix else { return true }
        let border = shard.tree.recordLimit
        let isAtEnd = visit(border + UInt32(shard.retained.nodes.end), &query, &steps) { place, query, steps in
            guard place < border else {
                guard let message = shard.retained.message(of: place - border), !message.hasExpired(at: shard.now) else {
                    return true
                }
                shard.retained.withLevel(below: prefix, of: place - border) { level, isBelow in
                    query.levels?.add(level, subscriptions: 0, retained: 1, isBelow: isBelow)
                }
                return true
            }
            guard let (subscriber, _) = shard.tree.holder(at: place) else { return true }
            let count = subscriptionCount(of: subscriber, &steps)
            guard count > 0 else { return true }
            shard.tree.withLevel(below: prefix, of: place) { level, isBelow in
                query.levels?.add(level, subscriptions: count, retained: 0, isBelow: isBelow)
            }
            return true
        }
        if isAtEnd { query.count = query.levels?.count }
        return isAtEnd
    }

    /// How many of the shard's sessions stand behind a record. All members of a group are steps of one turn.
    private func subscriptionCount(of subscriber: Subscriber, _ steps: inout Int) -> Int {
        if subscriber.isSession { return shard.sessions.subscriber(subscriber.index) == nil ? 0 : 1 }
        guard subscriber.isGroup, let group = shard.groups[subscriber.index] else { return 0 }
        steps = max(0, steps - group.members.count)
        return group.members.count { $0.shard == shard.index }
    }

    func retainedContent(of topic: TopicName) -> RetainedContent? {
        let message = topic.bytes.withUnsafeBytes { shard.retained.find($0) }
        guard let message, !message.hasExpired(at: shard.now), let packet = shard.retainedMessage(of: topic) else { return nil }
        return RetainedContent(row: RetainedRow(message), packet: packet)
    }
}

extension QueueRow {
    /// - Parameter now: in microseconds on the shard's clock.
    init(_ entry: QueueEntry, at position: Int, now: UInt64, withPayload: Bool) {
        let message = entry.message?.object
        let state: State =
            switch entry.state {
            case .waiting, .vacant: message == nil ? .stored : .waiting
            case .sent: .sent
            case .released: .released
            }
        self.init(
            position: position, state: state, topic: message.map { Array($0.topic) }, qos: entry.qos, retain: entry.retain,
            byteCount: Int(entry.byteCount), packetIdentifier: entry.packetIdentifier,
            ageMilliseconds: message.map { (now &- min(now, $0.madeAt)) / 1000 },
            expiresAt: message.flatMap { $0.expiresAt == Message.neverExpires ? nil : $0.expiresAt },
            payload: withPayload ? message.map { Array($0.payload.prefix(Limits.queryPayloadBytesMax)) } : nil)
    }
}

extension Limits {
    /// How long one is kept, in milliseconds: so much older than its answer a page may be.
    static let clientListMilliseconds: UInt64 = 2000

    /// Bytes of content that are copied for one of them.
    static let payloadBytesPerStep = 256
}
