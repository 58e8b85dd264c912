import BrokerModel
import MQTTCodec

/// What shards send each other.
extension BrokerShard {
    /// Works off a batch from another shard.
    public func receivedShardMessages(_ batch: ShardMessageBatch, from shard: Int) {
        beginPacket()
        var shardMessages = batch.shardMessages.makeIterator()
        batch.forEach { header, detail, bytes in
            if header.kind != .publish { endBatch() }
            guard header.kind != .shardMessage else {
                if let shardMessage = shardMessages.next() { receivedShardMessage(shardMessage, from: shard) }
                return
            }
            let topic = UnsafeRawBufferPointer(start: bytes, count: Int(header.topicLength))
            let properties = UnsafeRawBufferPointer(start: bytes + topic.count, count: Int(header.propertiesLength))
            let payload = UnsafeRawBufferPointer(
                start: bytes + topic.count + properties.count, count: Int(header.payloadLength))
            var publication = Publication(
                topic: topic, properties: properties, payload: payload, qos: QoS(rawValue: header.qos) ?? .atMostOnce,
                retain: header.retain, expiresAt: header.expiresAt, publisher: header.publisher)
            publication.readAt = batch.readAt
            publication.isOfRow = header.kind == .publish
            publication.mustArrive = header.mustArrive
            if header.isLogged { publication.path = .passing }
            switch header.kind {
            case .publish: take(detail.receipt, .routed, of: &publication) { route(&$0, .shard) }
            case .passing: routeByPath(&publication, .shard)
            case .detoured: receivedDetoured(&publication)
            case .shared:
                publication.name = detail.name
                if let (dispatcher, place) = detail.dispatched, let log = clusterLog {
                    publication.mark = DispatchToken(
                        place, dispatcher: dispatcher == index ? nil : dispatcher, isBegun: true, log.dispatched)
                }
                take(detail.receipt, .routed, group: detail.stamp, of: &publication) { receivedShared(&$0, detail) }
            case .retain:
                publication.source = scans.takeAnnounced()
                take(detail.receipt, .retained, of: &publication) {
                    receivedRetain(&$0, deliveredTo: detail.shards, RetainedChange(detail))
                }
            case .settled:
                publication.source = scans.takeAnnounced()
                settle(&publication, RetainedChange(detail))
            case .retained: receivedRetained(&publication, detail, from: shard)
            case .shardMessage: return
            }
            finish(&publication)
        }
        endBatch()
        if batch.serial != 0 { durability?.oweConfirmation(batch.serial, to: shard) }
    }

    private func receivedShardMessage(_ shardMessage: ShardMessage, from shard: Int) {
        switch shardMessage {
        case .interest(let filter, let isWanted):
            receivedInterest(filter, isWanted, shard)
        case .group(let name, let change):
            receivedGroupChange(name, change)
        case .dispatch, .step: return
        case .dispatched(let places): for place in places { clusterLog?.dispatched.end(place) }
        case .stepIsKnown(let number): clusterLog?.recordStep(number)
        case .fullQueue(let queue): receivedFullQueue(queue)
        case .fullQueueFilter(let key, let filter, let isThere): receivedFullQueueFilter(key, filter, isThere)
        case .queueHasRoom(let key): receivedRoom(key)
        case .retainedReading: readRetained()
        case .retainedSweep(let place, let offers, let round): sweepRetained(from: place, offers: offers, round: round)
        case .barrier(let token):
            send(.barrierPassed(token: token), shard)
        case .barrierPassed(let token):
            barrierPassed(token)
        case .retainedSource(let source):
            scans.announce(source)
        case .retainedQuery(let query):
            receivedQuery(query)
        case .retainedMore(let scan, let sessionKey, let count):
            scans.grant(scan, of: sessionKey, count)
        case .retainedFinished(let query, let scan):
            receivedFinish(of: query, scan: scan, by: shard)
        case .retainedCancelled(let sessionKey):
            scans.remove(sessionKey, in: &retained)
        case .durable(let serial):
            durability?.confirmed(serial, by: shard)
        case .released(let receipt, let groups):
            receivedRelease(receipt, groups)
        case .statisticsRequest:
            send(.statistics(currentStatistics()), shard)
        case .statistics(let statistics):
            receivedStatistics(statistics)
        }
    }

    /// One of those that an answer waits for has seen what was told before it.
    func barrierPassed(_ token: UInt64) {
        // Nothing goes out behind DISCONNECT. [MQTT-3.14.4-1 v5]
        guard let waiting = shardMessages.passed(token) else { return }
        if case .export(let key) = waiting.answer { return exportHasPassedBarrier(key) }
        guard let connection = connections.find(waiting.connection), connection.state == .connected else { return }
        if case .endOfRetained(let mark) = waiting.answer {
            queue(mark, connection)
        } else {
            promise(waiting.answer, to: connection)
        }
    }

    /// Keeps an answer until all that are told of interests have heard of those before it: the other shards, and the
    /// cluster.
    func hold(_ answer: HeldAnswer, _ connection: ConnectionID) {
        let token = shardMessages.hold(answer, connection, forCluster: cluster != nil)
        if cluster != nil { effects.append(.cluster(.fence(token: token))) }
    }

    func receivedInterest(_ filter: [UInt8], _ isWanted: Bool, _ shard: Int) {
        filter.withUnsafeBytes { bytes in
            if isWanted {
                _ = tree.insert(bytes, subscriber: .shard(shard), terms: SubscriptionTerms(maximumQoS: .exactlyOnce))
            } else {
                let record = tree.find(bytes, subscriber: .shard(shard))
                if record != SubscriptionRecord.none { tree.remove(record) }
            }
        }
    }

    func send(_ shardMessage: ShardMessage, _ shard: Int) { shardMessages.append(shardMessage, to: shard) }

    func sendToOthers(_ shardMessage: ShardMessage) { shardMessages.appendToOthers(shardMessage) }

    /// Sends a message to the shards whose bits are set.
    func forward(_ publication: borrowing Publication, to shards: UInt64, as kind: ShardMessageHeader.Kind = .publish) {
        var left = shards
        while left != 0 {
            let shard = left.trailingZeroBitCount
            left &= left &- 1
            append(publication, as: kind, to: shard)
        }
    }

    func forward(_ publication: borrowing Publication, to member: GroupMember, group: UInt64 = 0) {
        var detail = ShardMessageDetail(
            sessionKey: member.sessionKey, sessionIndex: member.sessionIndex, terms: member.terms.bits, group: member.serial,
            stamp: group)
        (detail.hops, detail.name) = (publication.hops, publication.name)
        guard let mark = publication.mark else { return append(publication, as: .shared, detail, to: member.shard) }
        mark.handOver()
        detail.dispatched = (mark.dispatcher ?? index, mark.place)
        append(publication, as: .shared, detail, to: member.shard)
    }

    func append(
        _ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail? = nil, to shard: Int
    ) {
        var detail = detail
        if publication.receipt != 0 {
            detail = detail ?? ShardMessageDetail()
            detail?.receipt = publication.receipt
        }
        shardMessages.append(publication, as: kind, detail, to: shard)
        let isAwaited = kind != .retained && kind != .detoured && kind != .passing && kind != .settled
        if journal != nil, isAwaited, publication.qos > .atMostOnce { requireConfirmation(of: shard) }
    }

    /// The batch for a shard has something in it that must be durable there before what relies on it is promised.
    @inline(__always)
    func requireConfirmation(of shard: Int) {
        if let serial = durability?.requireConfirmation(of: shard) { shardMessages.stamp(serial, on: shard) }
    }

    func postShardMessages(_ post: (Int, ShardMessageBatch) -> Void) {
        let readAt = ledger.clockMicroseconds
        shardMessages.post { shard, batch in
            batch.readAt = readAt
            post(shard, batch)
        }
        durability?.shardMessagesPosted()
    }
}
