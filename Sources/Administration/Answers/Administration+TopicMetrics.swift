internal import BrokerModel
internal import HTTP
internal import JSON
internal import MQTTCodec

/// Topic filters whose messages are counted because somebody asked for it, until somebody takes it back or the broker
/// ends.
extension Administration {
    func listTopicMetrics(_ call: Call) throws(APIError) {
        askTopicMeters(call) { [self] rows in
            let sorted = rows.sorted { "\($0.filter)" < "\($1.filter)" }
            var objects: [JSONObject] = []
            for row in sorted {
                guard var metric = topicMetrics[row.filter] else { continue }
                objects.append(Self.topicMetricResource.json(metric.measured(row, at: call.startedAt)))
                topicMetrics[row.filter] = metric
            }
            answer(call, page: objects, cursor: nil, count: objects.count)
        }
    }

    /// Goes on with what all shards together have counted of each filter.
    private func askTopicMeters(_ call: Call, _ next: @escaping ([TopicMeterRow]) -> Void) {
        askAll(call, .topicMeters, rowsMax: 1) { (replies) throws(APIError) in
            var sums: [TopicFilter: TopicMeterRow] = [:]
            for reply in replies {
                guard case .topicMeters(let rows) = reply.rows else { continue }
                for row in rows { sums[row.filter, default: TopicMeterRow(row.filter)].add(row) }
            }
            next(Array(sums.values))
        }
    }

    func addTopicMetric(_ call: Call) throws(APIError) {
        let text = try call.body().required("filter")
        guard let filter = TopicFilter(text), !filter.isShared else { throw .badRequest("filter is not a topic filter.") }
        call.target = text
        guard topicMetrics[filter] == nil else { throw APIError(.conflict, "This filter is counted already.") }
        var metric = TopicMetric(TopicMeterRow(filter), since: call.startedAt)
        topicMetrics[filter] = metric
        performAtAll(.meterTopic(filter)) { [self] outcomes in
            guard outcomes.allSatisfy({ $0 == .done }) else {
                topicMetrics[filter] = nil
                performAtAll(.unmeterTopic(filter)) { _ in }
                let isFull = outcomes.contains(.tooMany)
                return call.fail(
                    isFull ? APIError(.conflict, "The maximum number of counted filters is reached: remove one.") : .unavailable)
            }
            call.answer(
                Self.topicMetricResource.json(metric.measured(TopicMeterRow(filter), at: call.startedAt)), status: .created)
        }
    }

    func removeTopicMetric(_ call: Call) throws(APIError) {
        guard let filter = try call.filter() else { throw .badRequest("filter is missing.") }
        call.target = "\(filter)"
        guard topicMetrics.removeValue(forKey: filter) != nil else { throw .notFound("counted filter") }
        performAtAll(.unmeterTopic(filter)) { outcomes in
            if outcomes.contains(nil) { call.fail(.unavailable) } else { call.answer(HTTPResponse(.noContent)) }
        }
    }

    /// Gives all shards the same order, and goes on with what has become of it at each: nil at one that does not take
    /// it.
    func performAtAll(_ action: ShardCommand.Action, _ next: @escaping ([ShardCommandOutcome.Result?]) -> Void) {
        var outcomes = [ShardCommandOutcome.Result?](repeating: nil, count: broker.shardCount)
        var missing = broker.shardCount
        for shard in 0..<broker.shardCount {
            broker.perform(ShardCommand(action), to: shard) { outcome in
                outcomes[shard] = outcome?.result
                missing -= 1
                if missing == 0 { next(outcomes) }
            }
        }
    }

    // MARK: Metrics

    /// Goes on with the lines of `/metrics` about the filters: their names are the operator's own, and bounded in
    /// number.
    func withTopicMetrics(_ call: Call, _ next: @escaping ([TopicMeterRow]) -> Void) {
        guard !topicMetrics.isEmpty else { return next([]) }
        askTopicMeters(call) { next($0.sorted { "\($0.filter)" < "\($1.filter)" }) }
    }
}
