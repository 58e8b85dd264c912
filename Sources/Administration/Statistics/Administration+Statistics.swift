internal import BrokerModel
internal import JSON

/// What was counted, now and over time.
extension Administration {
    /// To be called once a second: remembers what was counted, ends what is over, and keeps streams alive.
    public func tick(_ clock: @escaping () -> Moment) {
        let now = clock()
        endUnentitledStreams(now)
        sessions.end(idleAt: now)
        auditSums(now: now.milliseconds)
        events.tick(now)
        tickTraces(now)
        broker.statistics { [self] shards in
            guard !shards.isEmpty else { return }
            let now = clock()
            remember(ShardStatistics.sum(of: shards), now)
        }
    }

    private func remember(_ statistics: ShardStatistics, _ now: Moment) {
        let condition = broker.condition
        let sample = Sample(
            statistics: statistics, residentBytes: condition.residentBytes, processorSeconds: condition.processorSeconds,
            milliseconds: now.milliseconds)
        history.add(sample.values(since: lastSample), second: now.wallMilliseconds / 1000)
        watchAlarms(statistics, since: lastSample?.statistics, now)
        lastSample = sample
        systemMaxima.note(statistics)
        sendStatistics(now)
    }

    /// The newest value of each series, for `stats` events.
    private func sendStatistics(_ now: Moment) {
        guard events.hasReaders(of: .stats) else { return }
        events.tell(.stats, newestValues(), now)
    }

    private func newestValues() -> JSONObject {
        let ring = history.ring(step: 1)
        var object = JSONObject()
        for (place, series) in Series.allCases.enumerated() { object.set(series.name, orNull: ring.newest(of: place)) }
        return object
    }

    func getStatistics(_ call: Call) throws(APIError) {
        withStatistics(call) { [self] shards in
            let sum = ShardStatistics.sum(of: shards)
            var totals = JSONObject()
            totals.set("received_messages", sum.publishReceived)
            totals.set("sent_messages", sum.publishSent)
            totals.set("received_bytes", sum.bytesReceived)
            totals.set("sent_bytes", sum.bytesSent)
            totals.set("received_packets", sum.messagesReceived)
            totals.set("sent_packets", sum.messagesSent)
            totals.set("accepted", sum.connectionsAccepted)
            totals.set("refused", sum.connectionsRefused)
            totals.set("expired_sessions", sum.clientsExpired)
            totals.set("dropped", sum.drops.total)
            var object = JSONObject()
            object.set("at", Timestamp.text(call.startedAt.wallMilliseconds))
            object.set("totals", totals)
            object.set("dropped", Self.dropped(sum.drops))
            object.set("now", newestValues())
            call.answer(object)
        }
    }

    func getHistory(_ call: Call) throws(APIError) {
        let step = call.integer("step") ?? 1
        let wanted = call.list("series").map { Set($0) }
        let ring = history.ring(step: step)
        var series = JSONObject()
        for (place, one) in Series.allCases.enumerated() where wanted?.contains(one.name) ?? true {
            series.set(one.name, orNulls: ring.values(of: place))
        }
        var object = JSONObject()
        object.set("step", step)
        object.set("from", orNull: ring.firstSecond.map { Timestamp.text($0 * 1000) })
        object.set("series", series)
        call.answer(object)
    }
}
