internal import BrokerModel
internal import HTTP
internal import JSON

/// The alarms: what is wrong with the broker, and has been.
extension Administration {
    // MARK: Looking

    /// Looks once a second at what may be wrong, and tells of what is raised and cleared.
    func watchAlarms(_ statistics: ShardStatistics, since before: ShardStatistics?, _ now: Moment) {
        let changes = alarms.observe(alarmConditions(statistics, since: before, now), at: now)
        guard !changes.isEmpty || !hasToldAlarms else { return }
        hasToldAlarms = true
        broker.tell(changes, counts: AlarmKind.allCases.map { ($0, alarms.count(of: $0)) })
        guard events.count > 0 else { return }
        for change in changes {
            var object = JSONObject()
            object.set("alarm", change.kind.rawValue)
            object.set("change", change.isRaised ? "raised" : "cleared")
            object.set("message", change.text)
            object.set("at", Timestamp.text(now.wallMilliseconds))
            events.tell(.alarm, object, now)
        }
    }

    private func alarmConditions(_ statistics: ShardStatistics, since before: ShardStatistics?, _ now: Moment) -> [AlarmCondition] {
        let condition = broker.condition
        return storeConditions(condition) + memoryConditions(condition, statistics) + clientConditions(statistics, since: before)
            + bridgeConditions() + certificateConditions(now) + (condition.cluster.map { Self.conditions(of: $0) } ?? [])
    }

    private func storeConditions(_ condition: BrokerCondition) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        switch condition.store {
        case .failed:
            found.append(
                AlarmCondition(.storeFailed, "The store cannot be written to; nothing is kept until a restart. See the log."))
        case .full:
            found.append(AlarmCondition(.storeFull, "The store has no room: messages that would have to be kept are refused."))
        case .good, nil: break
        }
        let place = Series.allCases.firstIndex(of: .storeCommit99) ?? 0
        if let milliseconds = history.ring(step: 1).newest(of: place), milliseconds >= Limits.slowCommitMilliseconds / 2 {
            found.append(
                AlarmCondition(
                    .storeSlow, "Writing to the disk takes \(Int(milliseconds)) ms; publishers wait for it.",
                    isHolding: milliseconds < Limits.slowCommitMilliseconds))
        }
        if let disk = condition.storeDisk, let isHolding = Self.isNearlyFull(disk) {
            let percent = disk.totalBytes == 0 ? 0 : Int(Double(disk.freeBytes) * 100 / Double(disk.totalBytes))
            found.append(
                AlarmCondition(
                    .diskNearlyFull, "\(disk.freeBytes >> 20) MiB are free where the store is, \(percent) % of the disk.",
                    isHolding: isHolding))
        }
        return found
    }

    /// nil for a disk with room, true for one that has hardly enough.
    private static func isNearlyFull(_ disk: BrokerCondition.Disk) -> Bool? {
        if disk.freeBytes < min(disk.totalBytes / 10, Limits.scarceDiskBytes) { return false }
        return disk.freeBytes < min(disk.totalBytes / 10 * 3 / 2, Limits.scarceDiskBytes * 2) ? true : nil
    }

    private func memoryConditions(_ condition: BrokerCondition, _ statistics: ShardStatistics) -> [AlarmCondition] {
        guard let most = condition.heapBytesMax, most > 0 else { return [] }
        var found: [AlarmCondition] = []
        if condition.isMemoryFull {
            found.append(
                AlarmCondition(
                    .memoryFull, "All of memory_limit, \(most >> 20) MiB, is in use: messages and new clients are refused."))
        }
        let percent = UInt64(max(0, statistics.heapBytes)) * 100 / most
        if percent >= Limits.clearMemoryPercent {
            found.append(
                AlarmCondition(
                    .memoryHigh, "\(percent) % of memory_limit, \(most >> 20) MiB, is in use.",
                    isHolding: percent < Limits.highMemoryPercent))
        }
        return found
    }

    private func clientConditions(_ statistics: ShardStatistics, since before: ShardStatistics?) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        func dropped(_ statistics: ShardStatistics) -> UInt64 { statistics.drops[.queueFull] &+ statistics.drops[.outputFull] }
        // Before the first look there was nothing.
        let droppedBefore = before.map(dropped) ?? 0
        if dropped(statistics) > droppedBefore {
            found.append(
                AlarmCondition(
                    .queuesFull,
                    "Messages are dropped because the queues of clients are full: \(dropped(statistics) - droppedBefore) in the last second. "
                        + "martlet ctl clients --sort=-dropped says whose."))
        }
        if statistics.slowClients > 0 {
            found.append(
                AlarmCondition(
                    .slowClients,
                    "\(statistics.slowClients) clients do not take what they are sent (martlet_slow_client). "
                        + "martlet ctl clients --sort=-lag_ms says who."))
        }
        return found
    }

    private func bridgeConditions() -> [AlarmCondition] {
        broker.bridges.compactMap { bridge in
            switch bridge.state {
            case .connected, .lazy, .paused, .ended: return nil
            case .connecting, .waiting, .failed:
                // Many errors begin with the address.
                let address = bridge.address.flatMap { bridge.lastError?.hasPrefix($0) ?? false ? nil : $0 }
                let place = address.map { " to \($0)" } ?? ""
                return AlarmCondition(
                    .bridgeDown, of: bridge.name, "The bridge is not connected\(place): \(bridge.lastError ?? "no answer").")
            }
        }
    }

    private func certificateConditions(_ now: Moment) -> [AlarmCondition] {
        broker.listeners.compactMap { listener in
            guard let certificate = listener.certificate, let end = certificate.notAfter else { return nil }
            if end <= now.wallMilliseconds {
                return AlarmCondition(
                    .certificateEnded, of: listener.name,
                    "The certificate \(certificate.name) ended on \(Timestamp.text(end)): clients do not connect.")
            }
            guard end - now.wallMilliseconds <= Limits.certificateMilliseconds else { return nil }
            return AlarmCondition(
                .certificateEnds, of: listener.name,
                "The certificate \(certificate.name) ends on \(Timestamp.text(end)), in \((end - now.wallMilliseconds) / 86_400_000) days."
            )
        }
    }

    private static func conditions(of cluster: AdministeredCluster) -> [AlarmCondition] {
        var found: [AlarmCondition] = []
        if let trouble = cluster.trouble {
            found.append(AlarmCondition(.clusterDown, "Messages are not carried to other nodes: \(trouble)."))
        }
        if cluster.refusingStreams > 0 {
            found.append(
                AlarmCondition(
                    .clusterFull, "The servers of the cluster have no room for \(cluster.refusingStreams) of its streams."))
        }
        for node in cluster.nodes {
            switch node.state {
            case .silent: found.append(AlarmCondition(.nodeDown, of: node.shownName, "The node has not been heard of for a while."))
            case .gone: found.append(AlarmCondition(.nodeDown, of: node.shownName, "The node is gone, and has not said goodbye."))
            case .up, .left: break
            }
            if let trouble = node.clockTrouble { found.append(AlarmCondition(.clockDiffers, of: node.shownName, "\(trouble).")) }
        }
        return found
    }

    // MARK: Answers

    func listAlarms(_ call: Call) throws(APIError) {
        let raised = alarms.raised
        let rows =
            switch call.text("state") ?? "active" {
            case "active": raised
            case "cleared": Array(alarms.history.reversed())
            default: raised + alarms.history.reversed()
            }
        let limit = call.integer("limit") ?? Limits.alarmRows
        answer(call, page: rows.prefix(limit).map { Self.alarm($0) }, cursor: nil, count: rows.count) { object in
            object.set("active", raised.count)
        }
    }

    func acknowledgeAlarm(_ call: Call) throws(APIError) {
        call.target = call.path["number"]
        guard let number = call.path["number"].flatMap({ Int($0) }),
            let alarm = alarms.acknowledge(number, by: call.who.name ?? call.who.means.rawValue, at: call.startedAt)
        else { throw .notFound("alarm") }
        call.answer(Self.alarm(alarm))
    }

    private static func alarm(_ alarm: Alarm) -> JSONObject {
        var object = JSONObject()
        object.set("number", alarm.number)
        object.set("name", alarm.subject.kind.rawValue)
        object.set("of", orNull: alarm.subject.name.isEmpty ? nil : alarm.subject.name)
        object.set("severity", alarm.subject.kind.isCritical ? "critical" : "warning")
        object.set("message", alarm.message)
        object.set("raised_at", Timestamp.text(alarm.raisedAt))
        object.set("cleared_at", orNull: alarm.clearedAt.map { Timestamp.text($0) })
        object.set("acknowledged_at", orNull: alarm.acknowledgement.map { Timestamp.text($0.at) })
        object.set("acknowledged_by", orNull: alarm.acknowledgement?.who)
        return object
    }

    func writeAlarms(to text: inout MetricText) {
        text.gauge(
            "martlet_alarms", "Alarms that are raised, by what they are about.",
            AlarmKind.allCases.map {
                ([("name", $0.rawValue), ("severity", $0.isCritical ? "critical" : "warning")], Double(alarms.count(of: $0)))
            })
    }
}
