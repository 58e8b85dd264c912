import BrokerModel
import MQTTCodec

/// What shards send each other.
struct ShardMessaging {
    let shard: BrokerShard

    fileprivate func receivedShardMessage(_ shardMessage: ShardMessage, from target: Int) {
        switch shardMessage {
        case .interest(let filter, let isWanted):
            receivedInterest(filter, isWanted, target)
        case .group(let name, let change):
            shard.shareGroups.receivedGroupChange(name, change)
        case .dispatch: return
        case .dispatched(let places): for place in places { shard.clusterLog?.dispatched.end(place) }
        case .stepIsKnown(let number): shard.clusterLog?.recordStep(number)
        case .fullQueue(let queue): shard.queueRoom.receivedFullQueue(queue)
        case .fullQueueFilter(let key, let filter, let isThere): shard.queueRoom.receivedFullQueueFilter(key, filter, isThere)
        case .queueHasRoom(let key): shard.queueRoom.receivedRoom(key)
        case .retainedReading: shard.clusterMessaging.readRetained()
        case .retainedSweep(let place, let offers, let round):
            shard.clusterMessaging.sweepRetained(from: place, offers: offers, round: round)
        case .barrier(let token):
            send(.barrierPassed(token: token), target)
        case .barrierPassed(let token):
            barrierPassed(token)
        case .retainedSource(let source):
            shard.scans.announce(source)
        case .retainedQuery(let query):
            shard.scanning.receivedQuery(query)
        case .retainedMore(let scan, let sessionKey, let count):
            shard.scans.grant(scan, of: sessionKey, count)
        case .retainedFinished(let query, let scan):
            shard.scanning.receivedFinish(of: query, scan: scan, by: target)
        case .retainedCancelled(let sessionKey):
            shard.scans.remove(sessionKey, in: &shard.retained)
        case .durable(let serial):
            shard.durability?.confirmed(serial, by: target)
        case .released(let receipt, let groups):
            shard.storing.receivedRelease(receipt, groups)
        case .statisticsRequest:
            send(.statistics(shard.currentStatistics()), target)
        case .statistics(let statistics):
            shard.figures.receivedStatistics(statistics)
        }
    }

    /// One of those that an answer waits for has seen what was told before it.
    func barrierPassed(_ token: UInt64) {
        // Nothing goes out behind DISCONNECT. [MQTT-3.14.4-1 v5]
        guard let waiting = shard.shardMessages.passed(token) else { return }
        if case .export(let key) = waiting.answer { return shard.departures.exportHasPassedBarrier(key) }
        guard let connection = shard.connections.find(waiting.connection), connection.state == .connected else { return }
        if case .endOfRetained(let mark) = waiting.answer {
            shard.scanning.queue(mark, connection)
        } else {
            shard.storing.sendWhenDurable(waiting.answer, to: connection)
        }
    }

    /// Keeps an answer until all that are told of interests have heard of those before it: the other shards, and the
    /// cluster.
    func hold(_ answer: HeldAnswer, _ connection: ConnectionID) {
        let token = shard.shardMessages.hold(answer, connection, forCluster: shard.cluster != nil)
        if shard.cluster != nil { shard.effects.append(.cluster(.fence(token: token))) }
    }

    func receivedInterest(_ filter: [UInt8], _ isWanted: Bool, _ target: Int) {
        filter.withUnsafeBytes { bytes in
            if isWanted {
                _ = shard.tree.insert(bytes, subscriber: .shard(target), terms: SubscriptionTerms(maximumQoS: .exactlyOnce))
            } else {
                let record = shard.tree.find(bytes, subscriber: .shard(target))
                if record != SubscriptionRecord.none { shard.tree.remove(record) }
            }
        }
    }

    func send(_ shardMessage: ShardMessage, _ target: Int) { shard.shardMessages.append(shardMessage, to: target) }

    func sendToOthers(_ shardMessage: ShardMessage) { shard.shardMessages.appendToOthers(shardMessage) }

    /// Sends a message to the shards whose bits are set.
    func forward(_ publication: borrowing Publication, to shards: UInt64, as kind: ShardMessageHeader.Kind = .publish) {
        var left = shards
        while left != 0 {
            let target = left.trailingZeroBitCount
            left &= left &- 1
            append(publication, as: kind, to: target)
        }
    }

    func forward(_ publication: borrowing Publication, to member: GroupMember, group: UInt64 = 0) {
        var detail = ShardMessageDetail(
            sessionKey: member.sessionKey, sessionIndex: member.sessionIndex, terms: member.terms.bits, group: member.serial,
            stamp: group)
        (detail.hops, detail.name) = (publication.hops, publication.name)
        guard let mark = publication.mark else { return append(publication, as: .shared, detail, to: member.shard) }
        mark.handOver()
        detail.dispatched = (mark.dispatcher ?? shard.index, mark.place)
        append(publication, as: .shared, detail, to: member.shard)
    }

    func append(
        _ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail? = nil, to target: Int
    ) {
        var detail = detail
        if publication.receipt != 0 {
            detail = detail ?? ShardMessageDetail()
            detail?.receipt = publication.receipt
        }
        shard.shardMessages.append(publication, as: kind, detail, to: target)
        let isAwaited = kind != .retained && kind != .detoured && kind != .passing && kind != .settled
        if shard.journal != nil, isAwaited, publication.qos > .atMostOnce { requireConfirmation(of: target) }
    }

    /// The batch for a shard has something in it that must be durable there before what relies on it is promised.
    @inline(__always)
    func requireConfirmation(of target: Int) {
        if let serial = shard.durability?.requireConfirmation(of: target) { shard.shardMessages.stamp(serial, on: target) }
    }

    func postShardMessages(_ post: (Int, ShardMessageBatch) -> Void) {
        let readAt = shard.ledger.clockMicroseconds
        shard.shardMessages.post { shard, batch in
            batch.readAt = readAt
            post(shard, batch)
        }
        shard.durability?.shardMessagesPosted()
    }
}

extension BrokerShard {
    /// Works off a batch from another shard.
    public func receivedShardMessages(_ batch: ShardMessageBatch, from shard: Int) {
        storing.beginPacket()
        var shardMessages = batch.shardMessages.makeIterator()
        batch.forEach { header, detail, bytes in
            if header.kind != .publish { dispatcher.endBatch() }
            guard header.kind != .shardMessage else {
                if let shardMessage = shardMessages.next() { messaging.receivedShardMessage(shardMessage, from: shard) }
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
            case .publish: storing.take(detail.receipt, .routed, of: &publication) { dispatcher.route(&$0, .shard) }
            case .passing: clusterLogReading.routeByPath(&publication, .shard)
            case .detoured: retainedMessages.receivedDetoured(&publication)
            case .shared:
                publication.name = detail.name
                if let (dispatcher, place) = detail.dispatched, let log = clusterLog {
                    publication.mark = DispatchToken(
                        place, dispatcher: dispatcher == index ? nil : dispatcher, isBegun: true, log.dispatched)
                }
                storing.take(detail.receipt, .routed, group: detail.stamp, of: &publication) {
                    shareGroups.receivedShared(&$0, detail)
                }
            case .retain:
                publication.source = scans.takeAnnounced()
                storing.take(detail.receipt, .retained, of: &publication) {
                    retainedMessages.receivedRetain(&$0, deliveredTo: detail.shards, RetainedChange(detail))
                }
            case .settled:
                publication.source = scans.takeAnnounced()
                clusterMessaging.settle(&publication, RetainedChange(detail))
            case .retained: retainedMessages.receivedRetained(&publication, detail, from: shard)
            case .shardMessage: return
            }
            dispatcher.finish(&publication)
        }
        dispatcher.endBatch()
        if batch.serial != 0 { durability?.oweConfirmation(batch.serial, to: shard) }
    }
}
