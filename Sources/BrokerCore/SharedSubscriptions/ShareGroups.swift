import BrokerModel
import MQTTCodec

/// Shared subscriptions.
///
/// Every shard knows every group and all its members; the publisher's shard chooses, so that the choice needs no
/// question. Changes go to the other shards among the shard messages, and SUBACK waits for them as for any
/// subscription.
struct ShareGroups {
    let shard: BrokerShard

    /// Adds the session to a group, or changes its terms there; true if it is new in it.
    func join(_ session: Session, _ name: GroupName, _ terms: SubscriptionTerms) -> Bool {
        let isNew = !session.groups.contains(name)
        let group = knownGroup(name)
        let member = GroupMember(
            shard: shard.index, sessionIndex: session.index, sessionKey: session.key, serial: shard.groups[group]?.serial ?? 0,
            terms: terms,
            isConnected: session.connection != nil, access: session.owner.access, isFull: session.bounds.isFull,
            packetBytesMax: packetBytesMax(of: session), isLasting: session.keepsMessages)
        if shard.groups[group]?.hasFullMember ?? false { shard.room.hasNew = true }
        join(member, group)
        markUnclaimed(group)
        if isNew {
            session.groups.append(GroupMembership(name: name, group: group))
            shard.statistics.sharedSubscriptions += 1
            shard.clusterMessaging.sendToCluster(name.filter, isWanted: true)
        }
        shard.messaging.sendToOthers(.group(name, .joined(member)))
        shard.clusterDispatching.sendGroup(name, isSubscribed: true)
        keepMembership(of: session, name, terms)
        return isNew
    }

    /// Takes the session out of a group; false if it was not in it.
    func leave(_ session: Session, _ name: GroupName) -> Bool {
        guard let membership = session.groups.remove(name) else { return false }
        shard.statistics.sharedSubscriptions -= 1
        removeMember(session.key, from: membership.group)
        shard.lifecycle.sendLeft(membership, by: session.key)
        return true
    }

    /// The session ends: it leaves its groups, and others get what it had not acknowledged.
    ///
    /// - Returns: those that nobody was told of yet, because they are too many for a turn.
    func leaveGroups(_ session: Session) -> [GroupMembership] {
        guard !session.groups.isEmpty else { return [] }
        let pending = session.queue.takeShared()
        let memberships = session.groups
        session.groups.removeAll()
        shard.statistics.sharedSubscriptions -= memberships.count
        var told = 0
        for membership in memberships {
            shard.groups[membership.group]?.leave(sessionKey: session.key)
            guard shard.sessions.ended.stepsLeft > 0 else { continue }
            shard.lifecycle.sendLeft(membership, by: session.key)
            shard.sessions.ended.count(OpenPackets.steps(of: membership.name.filter))
            told += 1
        }
        // With a broker that stops it stays on the disk, as in a crash, and goes to a member that lasts at the next
        // start: other shards may not be there any more to take it.
        for entry in pending where !shard.policy.isStopping || entry.storeNumber == 0 {
            redistribute(entry, from: session.key, connectedOnly: false)
        }
        for membership in memberships.prefix(told) { removeIfEmpty(membership.group) }
        return Array(memberships.dropFirst(told))
    }

    /// The session leaves its groups, and keeps what they have given it: they need not choose anybody in its place.
    func forgetGroups(of session: Session) {
        guard !session.groups.isEmpty else { return }
        let memberships = session.groups
        session.groups.removeAll()
        shard.statistics.sharedSubscriptions -= memberships.count
        for membership in memberships {
            removeMember(session.key, from: membership.group)
            shard.lifecycle.sendLeft(membership, by: session.key)
        }
    }

    /// The session's client has come or gone; when it has gone and others of the group are there, they get what it had
    /// not taken.
    func setPresence(of session: Session, isConnected: Bool) {
        guard !session.groups.isEmpty else { return }
        for membership in session.groups {
            let bytesMax = isConnected ? packetBytesMax(of: session) : .max
            shard.groups[membership.group]?.setPresence(sessionKey: session.key, isConnected: isConnected, packetBytesMax: bytesMax)
            shard.messaging.sendToOthers(
                .group(
                    membership.name, .presence(sessionKey: session.key, isConnected: isConnected, packetBytesMax: bytesMax)))
            // The connection that comes may end the session when it goes.
            if isConnected { sendLasting(of: session, membership) }
            shard.clusterDispatching.sendGroup(membership.name)
        }
        guard !isConnected, session.expiryIntervalSeconds > 0 else { return }
        passOn(session)
        shard.clusterDispatching.recordDispatched(to: session)
    }

    /// The rights of the session have changed: whoever chooses among the members of its groups must know.
    func sendAccess(of session: Session) {
        if session.bounds.isFull { shard.queueRoom.sendFullQueue(of: session) }
        for membership in session.groups {
            guard var member = shard.groups[membership.group]?.member(session.key) else { continue }
            member.access = session.owner.access
            join(member, membership.group)
            shard.messaging.sendToOthers(.group(membership.name, .joined(member)))
            shard.clusterDispatching.sendGroup(membership.name)
        }
    }

    /// Sends the message to one member of each group that has one who may read it.
    func routeToGroups(_ publication: inout Publication, _ matching: [UInt32], _ reach: Dispatcher.Reach) {
        if let cluster = shard.cluster { return shard.clusterDispatching.dispatchInCluster(&publication, matching, reach, cluster) }
        for group in matching {
            guard let member = chooseMember(of: group, for: publication) else { continue }
            dispatchToMember(&publication, member, of: group)
        }
    }

    /// Delivers to a member of this node that a group chose; what must be taken once on another shard waits for its
    /// receipt.
    func dispatchToMember(_ publication: inout Publication, _ member: GroupMember, of group: UInt32) {
        if member.shard != shard.index, publication.receipt != 0, let hash = shard.groups[group]?.hash {
            publication.choose(GroupChoice(group: hash, session: member.sessionKey))
        } else {
            sendToMember(&publication, member)
        }
    }

    /// Gives a QoS 2 message to the members that share groups have chosen for it; each takes it once.
    ///
    /// - Parameter receipt: names the message; 0 when its sender has released it.
    func sendToChosen(_ publication: inout Publication, _ choices: [GroupChoice], receipt: UInt64) {
        for choice in choices {
            guard let group = shard.groups.find(hash: choice.group),
                // Who has left meanwhile gets nothing; another takes its place.
                let member = shard.groups[group]?.member(choice.session) ?? chooseMember(of: group, for: publication, isHere: true)
            else { continue }
            if member.shard == shard.index {
                shard.storing.take(receipt, .routed, group: choice.group, of: &publication) { sendToMember(&$0, member) }
            } else {
                publication.receipt = receipt
                shard.messaging.forward(publication, to: member, group: choice.group)
                publication.receipt = 0
            }
        }
    }

    /// Delivers to the member that a group chose, here, on its shard, or by way of its node.
    ///
    /// - Parameter stamp: names the group if the message has a receipt.
    func sendToMember(_ publication: inout Publication, _ member: GroupMember, stamp: UInt64 = 0) {
        guard !member.isElsewhere else { return shard.clusterDispatching.passOn(&publication, to: member) }
        guard member.shard == shard.index else {
            shard.messaging.forward(publication, to: member, group: stamp)
            return
        }
        guard let session = shard.sessions.find(index: member.sessionIndex, key: member.sessionKey) else { return }
        sendShared(&publication, to: session, member.terms, group: member.serial)
    }

    private func sendShared(_ publication: inout Publication, to session: Session, _ terms: SubscriptionTerms, group: UInt32) {
        guard shard.accessChecks.mayReceive(session, publication.topic) else { return }
        // [MQTT-4.8.2-3 v5]
        shard.dispatcher.sendOrQueue(
            &publication, to: session, qos: shard.dispatcher.deliveryQoS(of: publication, terms.maximumQoS),
            retain: publication.retain && terms.retainAsPublished,
            identifiers: terms.identifier == 0 ? nil : SubscriptionIdentifiers([terms.identifier]), group: group)
    }

    /// A message that another shard's group chose a session of this shard for. If it has gone meanwhile, or has lost
    /// the right to read the message, the group chooses again.
    func receivedShared(_ publication: inout Publication, _ detail: ShardMessageDetail) {
        let terms = SubscriptionTerms(bits: detail.terms)
        publication.hops = detail.hops
        let session = shard.sessions.find(index: detail.sessionIndex, key: detail.sessionKey)
        let larger = otherMember(thanChosen: session, publication, terms, of: detail.group)
        if larger == nil, let session, shard.accessChecks.mayReceive(session, publication.topic) {
            return sendShared(&publication, to: session, terms, group: detail.group)
        }
        guard let member = larger ?? replacementMember(of: detail, for: publication) else { return }
        // The shard that has the member in the end is the one that remembers a QoS 2 message.
        publication.receipt = member.isElsewhere ? 0 : detail.receipt
        defer { publication.receipt = 0 }
        sendToMember(&publication, member, stamp: detail.stamp)
    }

    /// The member that the group chooses in place of one that has gone or may not read the message: one of this shard
    /// if there is one.
    private func replacementMember(of detail: ShardMessageDetail, for publication: borrowing Publication) -> GroupMember? {
        guard let group = shard.groups.find(serial: detail.group) else { return nil }
        return chooseMember(of: group, for: publication, except: detail.sessionKey, isHere: true)
            ?? chooseMember(of: group, for: publication, except: detail.sessionKey)
    }

    /// What the other shards tell of their members.
    func receivedGroupChange(_ name: GroupName, _ change: GroupChange) {
        let group = knownGroup(name)
        switch change {
        case .joined(let member):
            if shard.groups[group]?.hasFullMember ?? false { shard.room.hasNew = true }
            join(member, group)
            markUnclaimed(group)
        case .left(let key): removeMember(key, from: group)
        case .presence(let key, let isConnected, let bytesMax):
            shard.groups[group]?.setPresence(sessionKey: key, isConnected: isConnected, packetBytesMax: bytesMax)
        case .fullness(let key, let isFull):
            shard.groups[group]?.setFullness(sessionKey: key, isFull: isFull)
            if !isFull { shard.room.hasNew = true }
        }
    }

    /// Gives what a disconnected member had not taken to members that are there. A QoS 2 message that was sent stays
    /// with it, and one that is stored leaves it only for a member of this shard: on the way to another one, a crash
    /// could double it. [MQTT-4.8.2-4 v5] [MQTT-4.8.2-5 v5]
    private func passOn(_ session: Session) {
        var (anywhere, here): (Set<UInt32>, Set<UInt32>) = ([], [])
        for membership in session.groups {
            // The session itself does not count as connected any more.
            guard let group = shard.groups[membership.group], group.hasConnected() else { continue }
            anywhere.insert(group.serial)
            if group.hasConnected(on: shard.index) { here.insert(group.serial) }
        }
        guard !anywhere.isEmpty else { return }
        let taken = session.queue.takeShared {
            let isWanted = $0.staysOnShard ? here.contains($0.group) : anywhere.contains($0.group)
            return isWanted && hasReader($0, besides: session.key)
        }
        if session.bounds.isFull { shard.queueRoom.updateFullness(of: session) }
        for entry in taken { redistribute(entry, from: session.key, connectedOnly: true) }
        if !taken.isEmpty { recordPassing(of: session) }
    }

    /// Whether a member of the entry's group that is there may read its message: else it stays where it is.
    private func hasReader(_ entry: SharedEntry, besides sessionKey: UInt64) -> Bool {
        guard let group = shard.groups.find(serial: entry.group).flatMap({ shard.groups[$0] }) else { return false }
        return group.hasConnectedReader(
            of: entry.message.topic, besides: sessionKey, on: entry.staysOnShard ? shard.index : nil)
    }

    /// A session has passed messages on, or was passed some, and stays until that is durable.
    func recordPassing(of session: Session) {
        if session.cluster.epoch > 0, shard.cluster?.moves != nil { session.passedOnUntil = shard.durability?.moment }
    }

    /// Gives a message that a member had to another one; false if there is none, and the message is gone.
    @discardableResult
    func redistribute(_ entry: SharedEntry, from sessionKey: UInt64, connectedOnly: Bool) -> Bool {
        let topic = entry.message.topic
        func choose(_ group: UInt32, _ size: SharedPacketSize?) -> GroupMember? {
            shard.groups[group]?.choose(
                for: topic, except: sessionKey, connectedOnly: connectedOnly,
                on: connectedOnly && entry.staysOnShard ? shard.index : nil, isHere: true, size: size)
                ?? (connectedOnly ? nil : shard.groups[group]?.choose(for: topic, except: sessionKey, size: size))
        }
        guard let group = shard.groups.find(serial: entry.group), let member = choose(group, size(of: entry)) ?? choose(group, nil)
        else {
            if entry.storeNumber != 0 { shard.journal?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow) }
            return false
        }
        let changesShard = member.shard != shard.index && !member.isElsewhere
        if changesShard, shard.settings.storesAtOnce, shard.durability?.mustStay(entry) ?? false {
            shard.durability?.keepUntilDurable(entry)
            return true
        }
        var publication = Publication(entry.message)
        publication.mustArrive = true
        (publication.mark, publication.name) = (entry.mark, entry.name)
        if changesShard { shard.clusterLogReading.sendSteps(to: member.shard) }
        // The other shard remembers that it has it, until the row here is gone for good.
        let stamp = changesShard && entry.storeNumber != 0 && entry.message.qos == .exactlyOnce ? shard.groups[group]?.hash ?? 0 : 0
        if stamp != 0 { publication.receipt = RelayedReceipt.receipt(ofEntry: entry.storeNumber) }
        sendToMember(&publication, member, stamp: stamp)
        shard.dispatcher.finish(&publication)
        if member.shard == shard.index, !member.isElsewhere,
            let receiver = shard.sessions.find(index: member.sessionIndex, key: member.sessionKey)
        {
            recordPassing(of: receiver)
        }
        guard entry.storeNumber != 0 else { return true }
        if member.isElsewhere, shard.clusterDispatching.goesByLog(to: member) {
            let receiver = shard.clusterLogReading.logReceiver
            shard.durability?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow, sentTo: receiver)
        } else if member.shard == shard.index || member.isElsewhere {
            // In the same batch as the other member's row: one of the two is there at any time.
            shard.journal?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow)
        } else {
            shard.durability?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow, sentTo: member.shard, of: stamp)
        }
        return true
    }

    /// Gives a session of this shard a message again that it had, behind all that it has.
    func redeliver(_ entry: SharedEntry, to session: Session) {
        if let member = shard.groups.find(serial: entry.group).flatMap({ shard.groups[$0]?.member(session.key) }) {
            var publication = Publication(entry.message)
            publication.mustArrive = true
            (publication.mark, publication.name) = (entry.mark, entry.name)
            sendToMember(&publication, member)
            shard.dispatcher.finish(&publication)
        }
        if entry.storeNumber != 0 { shard.journal?.endEntry(entry.storeNumber, hasFlow: entry.hasFlow) }
    }

    private func keepMembership(of session: Session, _ name: GroupName, _ terms: SubscriptionTerms) {
        guard shard.journal != nil, let known = session.groups.find(name), let filter = name.topicFilter else { return }
        session.groups.setStoreNumber(
            shard.sessionRows.keepSubscription(filter, terms, of: session, number: known.storeNumber), of: name)
    }

    /// A group has another member, which may take what waits for it.
    func markUnclaimed(_ group: UInt32) {
        guard let cluster = shard.cluster, !cluster.unclaimed.isEmpty, let hash = shard.groups[group]?.clusterHash else { return }
        cluster.unclaimed.record(hash)
    }

    /// The index of the group, which is made and put in the tree if it is new.
    func knownGroup(_ name: GroupName) -> UInt32 {
        if let known = shard.groups.find(name) { return known }
        let clusterHash = ClusterDispatching.clusterHash(of: name)
        let group = shard.groups.make(name, hash: shard.sessionRows.hash(of: name), clusterHash: clusterHash)
        name.filter.withUnsafeBytes { filter in
            _ = shard.tree.insert(filter, subscriber: .group(group), terms: SubscriptionTerms(maximumQoS: .exactlyOnce))
        }
        return group
    }

    private func removeMember(_ sessionKey: UInt64, from group: UInt32) {
        if shard.groups[group]?.hasFullMember ?? false { shard.room.hasNew = true }
        shard.groups[group]?.leave(sessionKey: sessionKey)
        removeIfEmpty(group)
    }

    func removeIfEmpty(_ group: UInt32) {
        guard let left = shard.groups[group], left.members.isEmpty else { return }
        let record = left.name.filter.withUnsafeBytes { shard.tree.find($0, subscriber: .group(group)) }
        if record != SubscriptionRecord.none { shard.tree.remove(record) }
        shard.groups.remove(group)
    }
}
