import MQTTCodec

/// Carrying out what an administrator wants.
extension BrokerShard {
    /// Gives an order; `Effect.outcome` follows. From the thread of the shard's loop.
    ///
    /// - Returns: false if too many orders wait already.
    public func order(_ order: ShardOrder) -> Bool { orders.add(order) }

    /// Gives an order of the loop's own, which is taken however many others wait.
    public func orderOwn(_ action: ShardOrder.Action) { orders.addOwn(action) }

    /// Goes on with the orders, in a bounded number of steps for all of them together.
    func stepOrders() {
        var steps = Limits.orderStepsPerTurn
        while steps > 0, !orders.isEmpty {
            var order = orders.takeFirst()
            let before = steps
            let result = carryOut(&order, &steps)
            orders.stepCount += before - steps
            guard let result else { return orders.putBack(order) }
            effects.append(.outcome(ShardOrderOutcome(token: order.order.token, result: result)))
        }
    }

    /// - Returns: nil if it needs another turn.
    private func carryOut(_ order: inout OrderDesk.OpenOrder, _ steps: inout Int) -> ShardOrderOutcome.Result? {
        steps -= 1
        switch order.order.action {
        case .kick(let client, let publishesWill):
            return kick(client, publishesWill: publishesWill) ? .done : .notFound
        case .endSession(let client, let publishesWill):
            return endSession(client, publishesWill: publishesWill) ? .done : .notFound
        case .purgeQueue(let client, let filter): return purge(client, filter, &order, &steps)
        case .deleteRetained(let filter, let isRehearsal): return deleteRetained(filter, isRehearsal, &order, &steps)
        case .publish(let packet): return publish(packet)
        case .meterTopic(let filter): return changeObserved { $0.addMeter(filter) } ? .done : .tooMany
        case .unmeterTopic(let filter): return changeObserved { $0.removeMeter(filter) } ? .done : .notFound
        case .beginTrace(let wish):
            if order.count == 0 { beginTrace(wish) }
            order.count = 1
            guard case .address = wish.subject else { return .done }
            return markConnections(from: &order.place, &steps) ? .done : nil
        case .endTrace(let number): return endTrace(number) ? .done : .notFound
        }
    }

    private func kick(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = sessions.find(client), let connection = session.connection?.object else { return false }
        if !publishesWill { session.will = nil }
        refuse(connection, .administrativeAction, because: "the operator has ended the connection.")
        return true
    }

    private func endSession(_ client: EncodedString, publishesWill: Bool) -> Bool {
        guard let session = sessions.find(client) else { return false }
        if session.connection == nil {
            endSession(session, publishesWill: publishesWill)
            return true
        }
        // It ends with its connection.
        session.expiryIntervalSeconds = 0
        return kick(client, publishesWill: publishesWill)
    }

    /// Looks at some of the messages that wait, the last ones first: those that move up have been looked at.
    private func purge(
        _ client: EncodedString, _ filter: TopicFilter?, _ order: inout OrderDesk.OpenOrder, _ steps: inout Int
    ) -> ShardOrderOutcome.Result? {
        guard let session = sessions.find(client) else { return order.count == 0 ? .notFound : .removed(order.count) }
        let waiting = session.outbox.waiting
        // What has come since the order was given is behind the places that it is about.
        var left = order.place == 0 ? waiting : min(order.place - 1, waiting)
        let near = session.outbox.waitingNear
        if left > near {
            let removed = purgeFar(session, filter, max: min(left - near, steps))
            order.count += removed
            if removed > 0 { queueBecameShorter(session, by: removed) }
            steps = max(0, steps - removed)
            left = filter == nil ? left - removed : near
            order.place = left + 1
            guard left <= near, steps > 0 else { return left == 0 ? .removed(order.count) : nil }
        }
        let part = min(left, steps)
        steps -= part
        session.outbox.removeWaiting(from: session.outbox.sentEnd + left - part, count: part, journal) { entry in
            guard entry.state == .waiting, entry.packetIdentifier == 0 else { return false }
            guard let filter else { return true }
            return entry.message?.with { filter.matches($0.topic) } ?? false
        }
        let removed = near - session.outbox.waitingNear
        order.count += removed
        order.place = left - part + 1
        if removed > 0 { queueBecameShorter(session, by: removed) }
        return left > part ? nil : .removed(order.count)
    }

    /// The same behind what memory has: the oldest ones first. What only the store has matches no filter.
    private func purgeFar(_ session: Session, _ filter: TopicFilter?, max: Int) -> Int {
        let before = session.outbox.farCount
        if let filter {
            session.outbox.removeResidentFar(journal) { $0.message?.with { filter.matches($0.topic) } ?? false }
        } else {
            while before - session.outbox.farCount < max, session.outbox.dropFirstFar(journal) {}
        }
        return before - session.outbox.farCount
    }

    private func queueBecameShorter(_ session: Session, by count: Int) {
        noteQueue(of: session)
        if session.isFull { noteFullness(of: session) }
        guard let connection = session.connection?.object, connection.hasQueuedEndMarks else { return }
        queueMoved(by: count, left: session.outbox.waiting, connection)
    }

    private func deleteRetained(
        _ filter: TopicFilter, _ isRehearsal: Bool, _ order: inout OrderDesk.OpenOrder, _ steps: inout Int
    ) -> ShardOrderOutcome.Result? {
        guard let pattern = retained.pattern(of: filter.matchingBytes) else { return .removed(order.count) }
        let end = retained.nodes.end
        while order.place < end, steps > 0 {
            steps -= 1
            let place = UInt32(order.place)
            order.place += 1
            guard let message = retained.message(of: place), !message.hasExpired(at: now), retained.matches(place, pattern) else {
                continue
            }
            order.count += 1
            guard !isRehearsal else { continue }
            forgetRetained(retained.storeNumber(message.topic))
            _ = retained.remove(message.topic)
            if let cluster { noteDeletion(of: message, cluster) }
        }
        return order.place < end ? nil : .removed(order.count)
    }

    private func publish(_ packet: PublishPacket) -> ShardOrderOutcome.Result {
        let properties = ForwardedProperties.encode(packet.properties)
        return packet.topic.bytes.withUnsafeBytes { topic in
            guard !topic.isEmpty, TopicName(packet.topic.bytes) != nil, !isTooLong(topic), !isTooDeep(topic) else {
                return .published(.topicNameInvalid, receivers: nil)
            }
            guard !packet.retain || settings.retainAvailable else { return .published(.retainNotSupported, receivers: nil) }
            guard settings.payloadBytesMax == 0 || packet.payload.count <= settings.payloadBytesMax,
                topic.count + properties.count + packet.payload.count <= settings.packetBytesMax - Limits.packetHeadBytesMax
            else { return .published(.packetTooLarge, receivers: nil) }
            guard !isMemoryFull else { return .published(.quotaExceeded, receivers: nil) }
            let expiresAt = packet.properties.messageExpiryInterval.map { now + UInt64($0) * 1000 } ?? Message.neverExpires
            let (receivers, isHereOnly) = audience(of: topic).with { audience in
                (audience.routeCount + audience.groups.count, audience.shards & ~(1 << UInt64(index)) == 0)
            }
            properties.withUnsafeBytes { properties in
                packet.payload.withUnsafeBytes { payload in
                    var publication = Publication(
                        topic: topic, properties: properties, payload: payload, qos: packet.qos, retain: packet.retain,
                        expiresAt: expiresAt, publisher: 0)
                    publish(&publication)
                }
            }
            let hasReceivers = receivers > 0 || !isHereOnly
            return .published(hasReceivers ? .success : .noMatchingSubscribers, receivers: isHereOnly ? receivers : nil)
        }
    }
}

extension TopicFilter {
    /// Whether a topic matches, level by level and in place. [MQTT-4.7.2-1 v5]
    fileprivate func matches(_ topic: UnsafeRawBufferPointer) -> Bool {
        matchingBytes.withUnsafeBytes { filter in
            var (wanted, levels) = (LevelSequence(filter), LevelSequence(topic))
            var isFirst = true
            while let level = wanted.next() {
                let isSingle = LevelSequence.isSingleLevelWildcard(level)
                let isMulti = LevelSequence.isMultiLevelWildcard(level)
                if isFirst, isSingle || isMulti, topic.first == UInt8(ascii: "$") { return false }
                if isMulti { return true }
                isFirst = false
                guard let text = levels.next(), isSingle || text.elementsEqual(level) else { return false }
            }
            return levels.next() == nil
        }
    }
}
