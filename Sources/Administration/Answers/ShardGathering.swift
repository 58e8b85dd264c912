internal import BrokerModel
internal import JSON
internal import MQTTCodec

/// Asking several shards for one answer.
extension Administration {
    /// Goes on with what every shard has counted; answers itself if that cannot be had.
    func withStatistics(_ call: Call, _ next: @escaping ([ShardStatistics]) -> Void) {
        broker.statistics { shards in
            if shards.isEmpty { call.fail(.unavailable) } else { next(shards) }
        }
    }

    /// What answers call a listener, by its place in the configuration; nil of one that there is not.
    func listenerName(_ index: Int) -> String? {
        let listeners = broker.listeners
        return listeners.indices.contains(index) ? listeners[index].name : nil
    }

    /// Asks all shards the same, and goes on with the answers in the order of the shards; answers itself if one of them
    /// cannot be had.
    func askAll(
        _ call: Call, _ subject: ShardQuery.Subject, rowsMax: Int,
        _ next: @escaping ([ShardReply]) throws(APIError) -> Void
    ) {
        var replies = [ShardReply?](repeating: nil, count: broker.shardCount)
        var (missing, hasFailed) = (broker.shardCount, false)
        for shard in 0..<broker.shardCount {
            broker.ask(ShardQuery(subject, rowsMax: rowsMax), of: shard) { reply in
                replies[shard] = reply
                hasFailed = hasFailed || reply == nil
                missing -= 1
                guard missing == 0 else { return }
                let whole = replies.compactMap { $0 }
                call.complete { () throws(APIError) in
                    guard !hasFailed else { throw .unavailable }
                    try next(whole)
                }
            }
        }
    }

    /// Asks one shard, and goes on with the answer; answers itself if it cannot be had.
    func ask(
        _ call: Call, _ subject: ShardQuery.Subject, of shard: Int, from cursor: ShardCursor? = nil,
        rowsMax: Int = 100,
        _ next: @escaping (ShardReply) throws(APIError) -> Void
    ) {
        broker.ask(ShardQuery(subject, cursor: cursor, rowsMax: rowsMax), of: shard) { reply in
            call.complete { () throws(APIError) in
                guard let reply else { throw .unavailable }
                try next(reply)
            }
        }
    }

    /// Asks shard after shard for pages by cursor until a page of rows is full, by their number or by their bytes.
    ///
    /// - Parameters:
    ///   - shards: those to ask.
    ///   - isRare: whether `makeRows` leaves most rows out: then shards are asked for many at once.
    ///   - makeRows: the rows of a reply that are meant.
    ///   - next: goes on with the rows and where the next page begins.
    func collect(
        _ call: Call, _ subject: ShardQuery.Subject, shards: Range<Int>, isRare: Bool,
        _ makeRows: @escaping (ShardReply) -> [JSONRow],
        _ next: @escaping ([JSONRow], String?) -> Void
    ) throws(APIError) {
        var place = ListCursor(shard: shards.lowerBound, cursor: nil)
        if let text = call.cursor {
            guard let given = ListCursor(text), shards.contains(given.shard) else {
                throw .badRequest("cursor does not belong to this list.")
            }
            place = given
        }
        step(
            Collection(
                subject: subject, shards: shards, rowsMax: call.limit,
                bytesMax: call.isForNode ? Limits.nodePageBytesMax : Limits.pageBytesMax,
                stride: isRare ? Limits.strideRows : call.limit, makeRows: makeRows),
            place, call, next)
    }

    private func step(
        _ collection: Collection, _ place: ListCursor, _ call: Call,
        _ next: @escaping ([JSONRow], String?) -> Void
    ) {
        var collection = collection
        guard collection.rows.count < collection.rowsMax, collection.byteCount < collection.bytesMax,
            collection.questions < Limits.questionsPerPageMax
        else {
            return next(collection.rows, place.text)
        }
        collection.questions += 1
        let room = collection.rowsMax - collection.rows.count
        ask(
            call, collection.subject, of: place.shard, from: place.cursor,
            rowsMax: max(collection.stride, 1)
        ) { [self] reply in
            let rows = collection.makeRows(reply)
            guard rows.count <= room else {
                // No cursor points into a page: the same again, with no more than there is room for.
                collection.stride = room
                return step(collection, place, call, next)
            }
            collection.rows += rows
            collection.byteCount += rows.reduce(0) { $0 + $1.byteCount + 1 }
            collection.stride = min(collection.stride, max(1, collection.rowsMax - collection.rows.count))
            if let cursor = reply.next {
                return step(collection, ListCursor(shard: place.shard, cursor: cursor), call, next)
            }
            guard place.shard + 1 < collection.shards.upperBound else {
                return next(collection.rows, nil)
            }
            step(collection, ListCursor(shard: place.shard + 1, cursor: nil), call, next)
        }
    }

    private struct Collection {
        let subject: ShardQuery.Subject
        let shards: Range<Int>
        let rowsMax: Int
        /// A reply of a shard is bounded too: the page has no more than this and one reply.
        let bytesMax: Int
        var stride: Int
        let makeRows: (ShardReply) -> [JSONRow]
        var rows: [JSONRow] = []
        var byteCount = 0
        var questions = 0
    }

    /// Gives a shard a command, and goes on with what has become of it.
    func perform(
        _ call: Call, _ action: ShardCommand.Action, to shard: Int,
        _ next: @escaping (ShardCommandOutcome.Result) throws(APIError) -> Void
    ) {
        broker.perform(ShardCommand(action), to: shard) { outcome in
            call.complete { () throws(APIError) in
                guard let outcome else { throw .unavailable }
                try next(outcome.result)
            }
        }
    }
}

/// Where a list over all shards goes on.
struct ListCursor {
    let shard: Int
    /// Nil for the shard's beginning.
    let cursor: ShardCursor?

    init(shard: Int, cursor: ShardCursor?) { (self.shard, self.cursor) = (shard, cursor) }

    init?(_ text: String) {
        guard let bytes = Base64URL.decode(text) else { return nil }
        let parts = String(decoding: bytes, as: UTF8.self).split(
            separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, let shard = Int(parts[0]) else { return nil }
        self.shard = shard
        guard !parts[1].isEmpty else {
            cursor = nil
            return
        }
        guard let cursor = ShardCursor(String(parts[1])) else { return nil }
        self.cursor = cursor
    }

    var text: String { Base64URL.encode(Array("\(shard) \(cursor.map { "\($0)" } ?? "")".utf8)) }
}

extension Limits {
    /// Questions that a shard is asked for one page of an answer that leaves most rows out: then the page ends early.
    static let questionsPerPageMax = 200

    /// Subscriptions that a shard is asked for at once while most are left out.
    static let strideRows = 1000
}
