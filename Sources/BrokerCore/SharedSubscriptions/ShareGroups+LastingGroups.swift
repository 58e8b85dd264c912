import MQTTCodec

/// What share groups with a member that outlives a crash have given to members that do not.
///
/// The publisher was told that the broker has the message, and a lasting member gets it when the other one goes without
/// having acknowledged it: so it is kept as the group's own, in a row of `StoreTable.entry` that names a session of
/// which there is no row. After a crash it goes to a member that is left; one of QoS 2 that was sent goes nowhere, as
/// when its client had gone. [MQTT-4.8.2-5 v5]
///
///     dispatched to a member whose session ends with its connection ─► a row ─► acknowledged, or given to another one: the row goes
///                                                                   └────► a crash ─► Recovery.passOnOrphans ─► a lasting member
extension ShareGroups {
    /// Whether a message that a group has given to a session that ends with its connection is to outlive a crash.
    ///
    /// - Parameters:
    ///   - group: its serial number.
    ///   - mark: of what a cluster's log has: after a crash it is dispatched again from there.
    func isKept(forGroup group: UInt32, _ qos: QoS, _ mark: DispatchToken?) -> Bool {
        guard qos > .atMostOnce, mark == nil, let index = shard.groups.find(serial: group) else { return false }
        return shard.groups[index]?.hasLasting ?? false
    }

    /// Adds a member to a group or replaces its terms. If it is the first one that lasts, what others have not
    /// acknowledged is kept when the turn ends, and what they are given from now on at once.
    func join(_ member: GroupMember, _ group: UInt32) {
        let hadLasting = shard.groups[group]?.hasLasting ?? false
        shard.groups[group]?.join(member)
        guard member.isLasting, !hadLasting, shard.journal != nil, let serial = shard.groups[group]?.serial else { return }
        shard.groups.newlyLasting.record(serial)
    }

    /// A session may last no longer than the connection that it has got.
    func sendLasting(of session: Session, _ membership: GroupMembership) {
        guard var member = shard.groups[membership.group]?.member(session.key), member.isLasting != session.keepsMessages else {
            return
        }
        member.isLasting = session.keepsMessages
        join(member, membership.group)
        shard.messaging.sendToOthers(.group(membership.name, .joined(member)))
    }

    /// Keeps what members of this shard have not acknowledged of the groups that have got their first lasting member:
    /// before the turn's batch is given to the store, so that no SUBACK leaves earlier. O(members of those groups +
    /// entries of those that pass), however many groups a session is in.
    func keepDispatched() {
        let serials = shard.groups.newlyLasting.take()
        guard let journal = shard.journal else { return }
        var (known, passing): (Set<UInt64>, [Session]) = ([], [])
        for serial in serials.sorted() {
            guard let group = shard.groups.find(serial: serial).flatMap({ shard.groups[$0] }), group.hasLasting else { continue }
            shard.groups.newlyLasting.visitCount += group.members.count
            for member in group.members where member.shard == shard.index && !member.isElsewhere && !member.isLasting {
                guard known.insert(member.sessionKey).inserted,
                    let session = shard.sessions.find(index: member.sessionIndex, key: member.sessionKey)
                else { continue }
                passing.append(session)
            }
        }
        for session in passing {
            shard.groups.newlyLasting.visitCount += session.queue.count
            for position in 0..<session.queue.count { keepDispatched(position, of: session, serials, journal) }
        }
    }

    private func keepDispatched(_ position: Int, of session: Session, _ groups: Set<UInt32>, _ journal: Journal) {
        let entry = session.queue[position]
        guard entry.storeNumber == 0, entry.qos > .atMostOnce, entry.mark == nil, groups.contains(entry.group),
            let held = entry.message
        else { return }
        // One of QoS 2 that was sent stays with its client, whatever becomes of that.
        guard entry.state == .waiting && !entry.wasSent || entry.qos == .atLeastOnce else { return }
        var publication = Publication(held.object)
        session.queue[position].storeNumber = shard.sessionRows.keep(entry, held.object, publication, of: session, journal)
        shard.dispatcher.finish(&publication)
    }
}

/// The share groups that have got their first lasting member in this turn: what their other members have is kept when
/// the turn ends, by one walk of each queue for all of them.
struct NewlyLastingGroups {
    private var serials: Set<UInt32> = []
    /// How many members and entries were looked at so far. For tests.
    var visitCount = 0

    var isEmpty: Bool { serials.isEmpty }

    /// A group has one from now on.
    mutating func record(_ serial: UInt32) { serials.insert(serial) }

    /// The serial numbers of the groups, which are forgotten.
    mutating func take() -> Set<UInt32> {
        defer { serials = [] }
        return serials
    }
}

/// A session's own notes of the share groups it is in: found by name in O(1), in an order that does not depend on any
/// hash.
struct GroupMemberships: RandomAccessCollection {
    private var memberships: [GroupMembership] = []
    private var positions: [GroupName: Int] = [:]

    var startIndex: Int { 0 }
    var endIndex: Int { memberships.count }
    subscript(position: Int) -> GroupMembership { memberships[position] }

    func contains(_ name: GroupName) -> Bool { positions[name] != nil }

    func find(_ name: GroupName) -> GroupMembership? { positions[name].map { memberships[$0] } }

    /// Adds one of a group that is not there yet.
    mutating func append(_ membership: GroupMembership) {
        positions[membership.name] = memberships.count
        memberships.append(membership)
    }

    /// Takes one out; the last one takes its place.
    mutating func remove(_ name: GroupName) -> GroupMembership? {
        guard let position = positions.removeValue(forKey: name) else { return nil }
        let removed = memberships[position]
        let last = memberships.removeLast()
        if position < memberships.count {
            memberships[position] = last
            positions[last.name] = position
        }
        return removed
    }

    /// The row that holds the subscription has this key.
    mutating func setStoreNumber(_ number: UInt64, of name: GroupName) {
        if let position = positions[name] { memberships[position].storeNumber = number }
    }

    mutating func removeAll() { (memberships, positions) = ([], [:]) }
}

/// A session's own note of a share group it is in.
struct GroupMembership {
    let name: GroupName
    /// The group's index on this shard.
    let group: UInt32
    /// The key of its row in the store, 0 for none.
    var storeNumber: UInt64 = 0
}

/// Names a share group: the ShareName and the filter behind it. [MQTT-4.8.2-2 v5]
struct GroupName: Hashable, Sendable {
    let shareName: EncodedString
    /// The filter without `$share/NAME/`.
    let filter: [UInt8]

    /// All bytes at once: an array hashes one by one.
    func hash(into hasher: inout Hasher) {
        hasher.combine(shareName)
        filter.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// The whole filter, as SUBSCRIBE has it.
    var topicFilter: TopicFilter? { TopicFilter(Array("$share/".utf8) + shareName.bytes + [UInt8(ascii: "/")] + filter) }
}

extension NewlyLastingGroups: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.groups.newlyLasting.isEmpty }
    static func step(_ shard: BrokerShard) { shard.shareGroups.keepDispatched() }
    /// It waits for the turn that something else causes.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}
