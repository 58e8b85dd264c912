public import BrokerCore
public import BrokerModel

/// Questions and commands to the shards.
extension SimulatedBroker {
    /// Asks one shard, and settles.
    ///
    /// - Returns: the page, or nil if the question was not taken.
    public func ask(_ query: ShardQuery, of shard: Int = 0) -> ShardReply? {
        guard shards[shard].core.ask(query) else { return nil }
        settle()
        return takeReplies(of: shard).last
    }

    /// Asks all shards page by page.
    ///
    /// - `between`: called between two pages.
    public func pages(_ subject: ShardQuery.Subject, rowsMax: Int = 100, between: (Int) -> Void = { _ in }) -> [ShardReply.Rows] {
        var pages: [ShardReply.Rows] = []
        for shard in 0..<shardCount {
            var cursor: ShardCursor?
            repeat {
                guard let reply = ask(ShardQuery(subject, cursor: cursor, rowsMax: rowsMax), of: shard) else { break }
                pages.append(reply.rows)
                cursor = reply.next
                between(pages.count)
            } while cursor != nil
        }
        return pages
    }

    /// The answers of a shard that were not taken yet.
    public func takeReplies(of shard: Int) -> [ShardReply] {
        defer { shards[shard].replies = [] }
        return shards[shard].replies
    }

    /// Gives one shard a command, and settles.
    ///
    /// - Returns: what became of it, or nil if it was not taken.
    public func perform(_ action: ShardCommand.Action, of shard: Int = 0) -> ShardCommandOutcome.Result? {
        guard shards[shard].core.perform(ShardCommand(action)) else { return nil }
        settle()
        return takeOutcomes(of: shard).last?.result
    }

    /// What clients of a shard have asked the broker for that was not taken yet.
    public func takeRequests(of shard: Int = 0) -> [ControlMessage] {
        defer { shards[shard].requests = [] }
        return shards[shard].requests
    }

    /// What has become of a shard's commands that was not taken yet.
    public func takeOutcomes(of shard: Int) -> [ShardCommandOutcome] {
        defer { shards[shard].outcomes = [] }
        return shards[shard].outcomes
    }
}
