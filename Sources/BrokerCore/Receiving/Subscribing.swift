import BrokerModel
import MQTTCodec

/// SUBSCRIBE and UNSUBSCRIBE.
struct Subscribing {
    let shard: BrokerShard

    func handleSubscribe(_ packet: SubscribePacket, _ connection: Connection) {
        guard connection.session != nil else { return }
        shard.log(.debug) { "Received SUBSCRIBE from \(connection.name)" }
        let identifier = packet.properties.subscriptionIdentifiers.first ?? 0
        if identifier != 0, connection.advertisedLimits?.subscriptionIdentifiersAvailable == false {
            shard.disconnecting.refuse(
                connection, .subscriptionIdentifiersNotSupported, because: "Subscription Identifiers are switched off.")
            return
        }
        var open = OpenSubscribe(packet)
        if !goOn(with: &open, connection) { shard.receiving.keepOpen(.subscribe(open), of: connection) }
    }

    /// Works off the filters of a SUBSCRIBE that are not done with yet, as far as the turn's steps go.
    ///
    /// - Returns: false if it has to go on in another turn.
    func goOn(with open: inout OpenSubscribe, _ connection: Connection) -> Bool {
        guard let session = connection.session else { return true }
        defer { session.save?.subscriptions.followProgress = false }
        let identifier = open.packet.properties.subscriptionIdentifiers.first ?? 0
        // mosquitto's bridges of 3.1 and 3.1.1, which have no options to ask with.
        let isPlainBridge = connection.client.isBridge && connection.version != .v5
        // One after the other, as if each had come alone. [MQTT-3.8.4-5 v5] [MQTT-3.8.4-4 v3.1.1]
        while open.position < open.packet.subscriptions.count {
            let asked = open.packet.subscriptions[open.position]
            guard shard.connections.openPackets.take(asked.filter) else {
                shard.memoryBound.recount(session)
                return false
            }
            open.position += 1
            if let mark = EndOfRetained(asked.filter, connection: connection.id, identifier: identifier) {
                let isTaken = shard.scanning.takes(mark, connection)
                if isTaken { open.marks.append(mark) }
                let refusal: ReasonCode = connection.version == .v5 ? .quotaExceeded : .unspecifiedError
                open.answer.reasonCodes.append(isTaken ? .success : refusal)
                continue
            }
            guard let subscription = mounted(asked, connection) else {
                open.answer.reasonCodes.append(connection.version == .v5 ? .topicFilterInvalid : .unspecifiedError)
                continue
            }
            if let reason = subscriptionObjection(subscription, session) {
                if reason == .notAuthorized,
                    shard.accessChecks.mustAsk(.subscribe, subscription.filter.matchingBytes, session, connection)
                {
                    open.position -= 1
                    shard.memoryBound.recount(session)
                    return false
                }
                if reason == .notAuthorized {
                    shard.accessChecks.logDenied(subscription: subscription.filter, of: session, connection)
                }
                if reason == .malformedPacket, !connection.client.isLocal {
                    shard.memoryBound.recount(session)
                    shard.disconnecting.refuse(
                        connection, reason, because: "a Topic Filter has more than \(shard.settings.topicLevelsMax) levels.")
                    return true
                }
                let told = reason == .malformedPacket ? .topicFilterInvalid : reason
                open.answer.reasonCodes.append(connection.version == .v5 ? told : .unspecifiedError)
                continue
            }
            let granted = min(subscription.options.maximumQoS, shard.settings.policy(of: connection.info.listener).maximumQoS)
            let terms = SubscriptionTerms(
                maximumQoS: granted, noLocal: subscription.options.noLocal || isPlainBridge,
                retainAsPublished: subscription.options.retainAsPublished || isPlainBridge, identifier: identifier)
            open.answer.reasonCodes.append(ReasonCode(rawValue: granted.rawValue))
            shard.log(.debug) { "\t\(subscription.filter) (QoS \(granted.rawValue))" }
            shard.log(.subscribe) { "\(session.clientIdentifier) \(granted.rawValue) \(subscription.filter)" }
            let (isNew, wantsRetained) = subscribe(session, subscription, terms, &open.mustWait)
            shard.saves.recordSubscribed(session, subscription.filter, terms, wantsRetained: wantsRetained)
            if shard.presence.reportsPresence {
                shard.presence.reportSubscription(of: session, subscription.filter, subscription.options, isNew: isNew)
            }
            if wantsRetained {
                open.wanted.append(
                    RetainedQuery(
                        filter: Array(subscription.filter.matchingBytes), shard: shard.index, sessionIndex: session.index,
                        sessionKey: session.key, terms: terms,
                        stamp: shard.shardCount > 1 ? shard.scans.arrivals.stamp(now: shard.now) : 0))
            }
        }
        shard.memoryBound.recount(session)
        for mark in open.marks { open.wanted.append(RetainedQuery(mark: mark, shard: shard.index, session)) }
        if open.mustWait || shard.shardMessages.isBarred {
            shard.messaging.hold(.suback(open.answer, open.wanted), connection.id)
        } else {
            shard.storing.sendWhenDurable(.suback(open.answer, open.wanted), to: connection)
        }
        return true
    }

    /// Sends SUBACK, then what is retained.
    func acknowledge(_ answer: SubackPacket, _ connection: Connection, _ wanted: [RetainedQuery]) {
        shard.log(.debug) { "Sending SUBACK to \(connection.name)" }
        guard shard.receiving.send(answer, to: connection) else {
            shard.disconnecting.refuse(
                connection, .packetTooLarge, because: "SUBACK is larger than the client's Maximum Packet Size.")
            return
        }
        shard.scanning.beginScans(wanted)
    }

    func handleUnsubscribe(_ packet: UnsubscribePacket, _ connection: Connection) {
        guard connection.session != nil else { return }
        shard.log(.debug) { "Received UNSUBSCRIBE from \(connection.name)" }
        var open = OpenUnsubscribe(packet)
        if !goOn(with: &open, connection) { shard.receiving.keepOpen(.unsubscribe(open), of: connection) }
    }

    /// Works off the filters of an UNSUBSCRIBE that are not done with yet, as far as the turn's steps go.
    ///
    /// - Returns: false if it has to go on in another turn.
    func goOn(with open: inout OpenUnsubscribe, _ connection: Connection) -> Bool {
        guard let session = connection.session else { return true }
        defer { session.save?.subscriptions.followProgress = false }
        while open.position < open.packet.filters.count {
            let asked = open.packet.filters[open.position]
            guard shard.connections.openPackets.take(asked) else {
                shard.memoryBound.recount(session)
                return false
            }
            open.position += 1
            guard let filter = mounted(asked, connection) else {
                open.answer.reasonCodes.append(.noSubscriptionExisted)
                continue
            }
            guard session.owner.access?.mayUnsubscribe(filter) ?? true else {
                open.answer.reasonCodes.append(.notAuthorized)
                continue
            }
            shard.log(.debug) { "\t\(filter)" }
            shard.log(.unsubscribe) { "\(session.clientIdentifier) \(filter)" }
            let isGone = unsubscribe(session, filter)
            if isGone { shard.saves.recordUnsubscribed(session, filter) }
            open.answer.reasonCodes.append(isGone ? .success : .noSubscriptionExisted)
            if isGone, shard.presence.reportsPresence { shard.presence.reportSubscription(of: session, filter, nil, isNew: false) }
        }
        shard.memoryBound.recount(session)
        // Also when nothing was removed. [MQTT-3.10.4-5 v5] [MQTT-3.10.4-5 v3.1.1]
        shard.storing.sendWhenDurable(.unsuback(open.answer), to: connection)
        return true
    }

    /// Sends UNSUBACK.
    func acknowledge(_ answer: UnsubackPacket, _ connection: Connection) {
        guard shard.receiving.send(answer, to: connection) else {
            shard.disconnecting.refuse(
                connection, .packetTooLarge, because: "UNSUBACK is larger than the client's Maximum Packet Size.")
            return
        }
        shard.log(.debug) { "Sending UNSUBACK to \(connection.name)" }
    }

    /// The filter as it is called inside the broker; nil if that is too long.
    private func mounted(_ filter: TopicFilter, _ connection: Connection) -> TopicFilter? {
        guard let mountPoint = connection.extras?.mountPoint, !mountPoint.isEmpty else { return filter }
        return TopicFilter(filter.bytes.dropLast(filter.matchingBytes.count) + mountPoint + filter.matchingBytes)
    }

    private func mounted(_ subscription: Subscription, _ connection: Connection) -> Subscription? {
        mounted(subscription.filter, connection).map { Subscription(filter: $0, options: subscription.options) }
    }

    private func subscriptionObjection(_ subscription: Subscription, _ session: Session) -> ReasonCode? {
        let filter = subscription.filter
        if shard.publishing.isTooDeep(filter.matchingBytes) { return .malformedPacket }
        if shard.publishing.isTooLong(filter.matchingBytes) { return .topicFilterInvalid }
        if let access = session.owner.access, let listener = session.owner.listener,
            !access.maySubscribe(
                filter, qos: subscription.options.maximumQoS, asksLists: shard.settings.policy(of: listener).checksAccessOnSubscribe
            ),
            shard.accessChecks.decision(.subscribe, filter.matchingBytes, session) != true
        {
            return .notAuthorized
        }
        if filter.shareName != nil, !shard.settings.sharedSubscriptionAvailable { return .sharedSubscriptionsNotSupported }
        if !shard.settings.wildcardSubscriptionAvailable,
            filter.matchingBytes.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") })
        {
            return .wildcardSubscriptionsNotSupported
        }
        if let journal = shard.journal, journal.health != .good, session.keepsMessages { return .quotaExceeded }
        let maximum = shard.settings.subscriptionsPerClientMax
        let isFull = maximum > 0 && Int(session.subscriptionCount) + session.groups.count >= maximum
        if isFull || shard.memoryBound.isMemoryFull, !subscribes(session, to: filter) { return .quotaExceeded }
        if shard.settings.userBounds.subscriptionsMax != nil, !subscribes(session, to: filter),
            !shard.userBounds.takeSubscription(session)
        {
            return .quotaExceeded
        }
        return nil
    }

    /// Whether the session has a subscription of just this filter, which another one replaces. [MQTT-3.8.4-3 v5]
    private func subscribes(_ session: Session, to filter: TopicFilter) -> Bool {
        if let shareName = filter.shareName {
            return session.groups.contains(GroupName(shareName: shareName, filter: Array(filter.matchingBytes)))
        }
        let record = filter.bytes.withUnsafeBytes { shard.tree.find($0, subscriber: .session(session.index)) }
        return record != SubscriptionRecord.none
    }

    /// Retained messages go out at subscription, never for shared ones. [MQTT-3.3.1-9 v5] [MQTT-3.3.1-10 v5]
    /// [MQTT-3.3.1-11 v5]
    private func wantsRetained(_ subscription: Subscription, isNew: Bool) -> Bool {
        guard subscription.filter.shareName == nil, shard.settings.retainAvailable else { return false }
        switch subscription.options.retainHandling {
        case .sendAtSubscribe: return true
        case .sendIfNewSubscription: return isNew
        case .doNotSend: return false
        }
    }

    /// Adds or replaces a subscription; `mustWait` is set when other shards must hear of it first.
    ///
    /// - Returns: whether there was none, and whether it asks for retained messages.
    private func subscribe(
        _ session: Session, _ subscription: Subscription, _ terms: SubscriptionTerms, _ mustWait: inout Bool
    ) -> (isNew: Bool, wantsRetained: Bool) {
        let filter = subscription.filter
        if let shareName = filter.shareName {
            if reportsInterest { mustWait = true }
            return (
                shard.shareGroups.join(session, GroupName(shareName: shareName, filter: Array(filter.matchingBytes)), terms), false
            )
        }
        return filter.bytes.withUnsafeBytes { bytes in
            let isFirst = reportsInterest && !shard.tree.hasSession(bytes)
            let (record, isNew) = shard.tree.insert(bytes, subscriber: .session(session.index), terms: terms)
            if isNew { link(record, to: session) }
            if session.bounds.isFull { shard.queueRoom.sendFullQueue(of: session, record, isThere: shard.queueRoom.waits(record)) }
            let wantsRetained = wantsRetained(subscription, isNew: isNew)
            if wantsRetained { shard.retainedMessages.owe(filter.bytes, to: session) }
            let number = shard.sessionRows.keepSubscription(
                filter, terms, of: session, number: shard.tree.records[record].storeNumber)
            shard.tree.setStoreNumber(number, of: record)
            if isFirst {
                mustWait = true
                sendInterest(filter.bytes, isWanted: true)
            }
            return (isNew, wantsRetained)
        }
    }

    /// Puts a subscription of a session that has moved in the tree.
    ///
    /// - Parameter number: that of its row, 0 if it has none yet.
    func resubscribe(_ session: Session, _ filter: TopicFilter, _ terms: SubscriptionTerms, number: UInt64) {
        if let shareName = filter.shareName {
            shard.sessionRows.forgetSubscription(number)
            _ = shard.shareGroups.join(session, GroupName(shareName: shareName, filter: Array(filter.matchingBytes)), terms)
            return
        }
        filter.bytes.withUnsafeBytes { bytes in
            let isFirst = reportsInterest && !shard.tree.hasSession(bytes)
            let (record, isNew) = shard.tree.insert(bytes, subscriber: .session(session.index), terms: terms)
            if isNew { link(record, to: session) }
            let known = number != 0 ? number : shard.tree.records[record].storeNumber
            shard.tree.setStoreNumber(
                known != 0 ? known : shard.sessionRows.keepSubscription(filter, terms, of: session, number: 0), of: record)
            if isFirst { sendInterest(filter.bytes, isWanted: true) }
        }
    }

    /// Ends a subscription, if there is one.
    func unsubscribe(_ session: Session, _ filter: TopicFilter) -> Bool {
        defer { shard.userBounds.release(session) }
        if let shareName = filter.shareName {
            return shard.shareGroups.leave(session, GroupName(shareName: shareName, filter: Array(filter.matchingBytes)))
        }
        let record = filter.bytes.withUnsafeBytes { shard.tree.find($0, subscriber: .session(session.index)) }
        guard record != SubscriptionRecord.none else { return false }
        removeSubscription(record, of: session)
        session.owed?.forget(filter.bytes)
        shard.scanning.forgetQuery(filter.bytes, of: session)
        return true
    }

    /// Puts a record at the head of the session's chain.
    func link(_ record: UInt32, to session: Session) {
        shard.tree.records[record].nextOfSession = session.firstSubscription
        if session.firstSubscription != SubscriptionRecord.none {
            shard.tree.records[session.firstSubscription].previousOfSession = record
        }
        session.firstSubscription = record
        session.subscriptionCount += 1
        shard.statistics.subscriptions += 1
    }

    /// Ends the subscription of a record.
    ///
    /// - Returns: how many steps that took, of which there is one for each level.
    @discardableResult
    func removeSubscription(_ record: UInt32, of session: Session) -> Int {
        if session.bounds.isFull { shard.queueRoom.sendFullQueue(of: session, record, isThere: false) }
        session.subscriptionCount -= 1
        shard.statistics.subscriptions -= 1
        return takeOut(record, of: session)
    }

    /// Takes a record out of the session's chain and out of the tree.
    ///
    /// - Returns: the same.
    func takeOut(_ record: UInt32, of session: Session) -> Int {
        let removed = shard.tree.records[record]
        if removed.previousOfSession == SubscriptionRecord.none {
            session.firstSubscription = removed.nextOfSession
        } else {
            shard.tree.records[removed.previousOfSession].nextOfSession = removed.nextOfSession
        }
        if removed.nextOfSession != SubscriptionRecord.none {
            shard.tree.records[removed.nextOfSession].previousOfSession = removed.previousOfSession
        }
        shard.sessionRows.forgetSubscription(removed.storeNumber)
        guard reportsInterest else { return 1 + shard.tree.remove(record) }
        let filter = shard.tree.filter(of: record)
        let levels = shard.tree.remove(record)
        if !filter.withUnsafeBytes({ shard.tree.hasSession($0) }) { sendInterest(filter, isWanted: false) }
        // Its text was put together, and looked up.
        return 1 + 3 * levels
    }

    /// Whether anybody else has to know what this shard's sessions subscribe to.
    private var reportsInterest: Bool { shard.shardCount > 1 || shard.cluster != nil }

    private func sendInterest(_ filter: [UInt8], isWanted: Bool) {
        shard.messaging.sendToOthers(.interest(filter: filter, isWanted: isWanted))
        shard.clusterMessaging.sendToCluster(filter, isWanted: isWanted)
    }
}
