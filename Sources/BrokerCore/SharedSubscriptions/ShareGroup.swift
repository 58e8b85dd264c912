import BrokerModel
import MQTTCodec

/// The sessions that divide the messages of a filter among them, on whichever shard they live.
///
/// Every shard has a copy; changes come as shard messages. Belongs to its shard.
struct ShareGroup {
    let name: GroupName
    /// Tells this group from an earlier one with the same index.
    let serial: UInt32
    /// Stands for the name wherever a number must do: in the store and among the shard messages.
    let hash: UInt64
    /// The hash of the group's name, which is the same on all nodes of a cluster.
    let clusterHash: UInt64
    /// By standing: the members of one stand behind those of the better ones.
    private(set) var members: [GroupMember] = []
    /// Where the members of each standing end.
    private var ends: [Int] = Array(repeating: 0, count: Standing.allCases.count)
    /// The member whose turn it is, among those of each standing.
    private var turns: [Int] = Array(repeating: 0, count: Standing.allCases.count)
    /// Where each session stands among the members.
    private var positions: [UInt64: Int] = [:]
    /// How many members of each shard are connected.
    private var connectedCounts: [Int] = []
    /// How many members of each shard may read something, connected and away.
    private var sizes: [(connected: Int, away: Int)] = []
    /// How many members' clients do not take packets of any size.
    private var boundedCount = 0
    /// How many members that may read something outlive a crash.
    private var lastingCount = 0
    /// How many members are counted of each other node.
    private var elsewhere: [UInt64: Int] = [:]
    /// A node that is gone, one of whose members stands for those who may come again.
    private(set) var gone: UInt64?

    /// What a member can do for a message, the best first.
    private enum Standing: Int, CaseIterable {
        case connectedWithRoom, awayWithRoom, connectedFull, awayFull
        /// Its node is gone.
        case gone
        /// Its client may read no topic that the group's filter matches.
        case withoutRight

        init(_ member: GroupMember) {
            switch (member.hasRight, member.isConnected, member.isFull) {
            case _ where member.isGone: self = .gone
            case (false, _, _): self = .withoutRight
            case (_, true, false): self = .connectedWithRoom
            case (_, false, false): self = .awayWithRoom
            case (_, true, true): self = .connectedFull
            case (_, false, true): self = .awayFull
            }
        }

        var isConnected: Bool { self == .connectedWithRoom || self == .connectedFull }
    }

    init(name: GroupName, serial: UInt32, hash: UInt64 = 0, clusterHash: UInt64 = 0) {
        self.name = name
        self.serial = serial
        self.hash = hash
        self.clusterHash = clusterHash
    }

    /// Adds a member or replaces its terms. O(1), besides the rules of its access.
    mutating func join(_ member: GroupMember) {
        var member = member
        member.hasRight = name.filter.withUnsafeBytes { member.access?.maySubscribe(filter: $0) ?? true }
        if let position = positions[member.sessionKey] {
            replace(position, by: member)
            return
        }
        positions[member.sessionKey] = members.count
        members.append(member)
        ends[Standing.withoutRight.rawValue] += 1
        move(members.count - 1, from: .withoutRight, to: Standing(member))
        count(member, by: 1)
    }

    /// Takes a member out. O(1).
    mutating func leave(sessionKey: UInt64) {
        guard let position = positions[sessionKey] else { return }
        count(members[position], by: -1)
        swap(move(position, from: Standing(members[position]), to: .withoutRight), members.count - 1)
        members.removeLast()
        positions[sessionKey] = nil
        ends[Standing.withoutRight.rawValue] -= 1
    }

    mutating func setPresence(sessionKey: UInt64, isConnected: Bool, packetBytesMax: UInt32 = .max) {
        guard let position = position(of: sessionKey) else { return }
        var member = members[position]
        (member.isConnected, member.packetBytesMax) = (isConnected, packetBytesMax)
        replace(position, by: member)
    }

    mutating func setFullness(sessionKey: UInt64, isFull: Bool) {
        guard let position = position(of: sessionKey) else { return }
        var member = members[position]
        member.isFull = isFull
        replace(position, by: member)
    }

    private mutating func replace(_ position: Int, by member: GroupMember) {
        let before = members[position]
        count(before, by: -1)
        members[position] = member
        move(position, from: Standing(before), to: Standing(member))
        count(member, by: 1)
    }

    /// Moves a member among those of its new standing, and one of each standing in between; returns its new position.
    @discardableResult
    private mutating func move(_ position: Int, from: Standing, to: Standing) -> Int {
        var (position, standing) = (position, from.rawValue)
        while standing < to.rawValue {
            ends[standing] -= 1
            swap(position, ends[standing])
            position = ends[standing]
            standing += 1
        }
        while standing > to.rawValue {
            standing -= 1
            swap(position, ends[standing])
            position = ends[standing]
            ends[standing] += 1
        }
        return position
    }

    private mutating func swap(_ one: Int, _ other: Int) {
        guard one != other else { return }
        members.swapAt(one, other)
        positions[members[one].sessionKey] = one
        positions[members[other].sessionKey] = other
    }

    private func range(of standing: Standing) -> Range<Int> {
        (standing.rawValue == 0 ? 0 : ends[standing.rawValue - 1])..<ends[standing.rawValue]
    }

    /// Whether no member that may read the topic has room. Looks at members without a right to the topic one by one.
    func isFull(for topic: UnsafeRawBufferPointer) -> Bool {
        guard hasFullMember else { return false }
        func hasReader(_ standings: [Standing]) -> Bool {
            standings.contains { members[range(of: $0)].contains { $0.mayReceive(topic) } }
        }
        return !hasReader([.connectedWithRoom, .awayWithRoom]) && hasReader([.connectedFull, .awayFull])
    }

    var hasFullMember: Bool { ends[Standing.awayFull.rawValue] > ends[Standing.awayWithRoom.rawValue] }

    /// Whether a connected member of this node may read the topic, on `shard` if one is named. Looks at members on
    /// other shards, and at those without a right to the topic, one by one.
    func hasConnectedReader(of topic: UnsafeRawBufferPointer, besides sessionKey: UInt64, on shard: Int?) -> Bool {
        Standing.allCases.contains { standing in
            standing.isConnected
                && members[range(of: standing)].contains {
                    $0.sessionKey != sessionKey && !$0.isElsewhere && (shard == nil || $0.shard == shard) && $0.mayReceive(topic)
                }
        }
    }

    /// Where the member with this session stands, or nil. O(1).
    func position(of sessionKey: UInt64) -> Int? { positions[sessionKey] }

    /// The member with this session, or nil. O(1).
    func member(_ sessionKey: UInt64) -> GroupMember? { positions[sessionKey].map { members[$0] } }

    /// Whether a member of this node is connected, on `shard` if one is named. O(shards).
    func hasConnected(on shard: Int? = nil) -> Bool {
        guard let shard else { return connectedCounts.contains { $0 > 0 } }
        return shard < connectedCounts.count && connectedCounts[shard] > 0
    }

    /// Whether the size of a message matters. O(1).
    var hasBoundedMember: Bool { boundedCount > 0 }

    private mutating func count(_ member: GroupMember, by change: Int) {
        if member.isBounded { boundedCount += change }
        guard !member.isElsewhere else { return }
        while sizes.count <= member.shard { sizes.append((0, 0)) }
        if member.hasRight {
            if member.isLasting { lastingCount += change }
            if member.isConnected { sizes[member.shard].connected += change } else { sizes[member.shard].away += change }
        }
        guard member.isConnected else { return }
        while connectedCounts.count <= member.shard { connectedCounts.append(0) }
        connectedCounts[member.shard] += change
    }

    /// The member whose turn it is: connected ones with room in rotation; when there is none, the others likewise,
    /// those with room first. Looks at members on other shards, if `shard` is named, and at those without a right to
    /// the topic, one by one.
    ///
    /// - Parameters:
    ///   - topic: what it must be allowed to read; nil for anything.
    ///   - shard: where it must live; nil for anywhere.
    ///   - isHere: whether it must be this node's.
    ///   - isThere: whether its node must be there.
    ///   - size: of a message that its client must take; nil for any.
    mutating func choose(
        for topic: UnsafeRawBufferPointer? = nil, except excluded: UInt64 = 0, connectedOnly: Bool = false, on shard: Int? = nil,
        isHere: Bool = false, isThere: Bool = false, size: SharedPacketSize? = nil
    ) -> GroupMember? {
        for standing in Standing.allCases
        where standing != .withoutRight && (standing != .gone || !isThere) && (standing.isConnected || !connectedOnly) {
            let range = range(of: standing)
            for step in 0..<range.count {
                let place = (turns[standing.rawValue] + step) % range.count
                let member = members[range.lowerBound + place]
                guard member.sessionKey != excluded, shard == nil || member.shard == shard,
                    !isHere || !member.isElsewhere, member.mayReceive(topic), size.map({ member.takes($0) }) ?? true
                else {
                    continue
                }
                turns[standing.rawValue] = (place + 1) % range.count
                return member
            }
        }
        return nil
    }

    /// Whether a member of this node outlives a crash: then what another one has not acknowledged does too. O(1).
    var hasLasting: Bool { lastingCount > 0 }

    /// How many members of a shard may read something that the group's filter matches. O(1).
    func size(on shard: Int) -> (connected: Int, away: Int) { shard < sizes.count ? sizes[shard] : (0, 0) }

    /// Another node has so many members. O(members of that node), of which no more are counted than there is a bound
    /// for.
    mutating func setMembers(of node: UInt64, number: UInt32, connected: Int, away: Int, readsLog: Bool = false) {
        let connected = min(connected, Limits.clusterMembersMax)
        let count = connected + min(away, Limits.clusterMembersMax - connected)
        if count > 0, let gone, gone >> 32 == node >> 32 { forgetGone(gone) }
        let before = elsewhere[node] ?? 0
        for ordinal in 0..<count {
            let key = Self.key(node, ordinal)
            if let known = member(key), known.isConnected == (ordinal < connected), known.serial == number { continue }
            join(
                GroupMember(
                    shard: -1, sessionIndex: 0, sessionKey: key, serial: number,
                    terms: SubscriptionTerms(maximumQoS: .exactlyOnce), isConnected: ordinal < connected, node: node,
                    groupHash: clusterHash, readsLog: readsLog))
        }
        if count < before { for ordinal in count..<before { leave(sessionKey: Self.key(node, ordinal)) } }
        elsewhere[node] = count == 0 ? nil : count
    }

    /// Another node is gone. What is published to the group while it has no other member waits for a session that comes
    /// again: one of the node's members stands for all, and for those of nodes that had gone before. O(members of that
    /// node).
    ///
    /// - Returns: whether one stays.
    mutating func nodeIsGone(_ node: UInt64) -> Bool {
        guard let count = elsewhere.removeValue(forKey: node), var member = member(Self.key(node, 0)) else {
            return gone == node
        }
        for ordinal in 1..<max(1, count) { leave(sessionKey: Self.key(node, ordinal)) }
        guard member.readsLog else {
            leave(sessionKey: member.sessionKey)
            return false
        }
        if let gone { forgetGone(gone) }
        (member.isGone, member.isConnected) = (true, false)
        join(member)
        gone = node
        return true
    }

    /// No session of a node that is gone has come.
    mutating func forgetGone(_ node: UInt64) {
        guard gone == node else { return }
        gone = nil
        leave(sessionKey: Self.key(node, 0))
    }

    /// Whether this node, which has this number, is the first by number that has members, apart from another one.
    func isFirst(_ node: UInt64, besides other: UInt64) -> Bool { elsewhere.keys.allSatisfy { $0 > node || $0 == other } }

    /// No session's: those are small numbers.
    private static func key(_ node: UInt64, _ ordinal: Int) -> UInt64 {
        (node ^ node >> 31 | 1) &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(ordinal) | 1 << 63
    }

    /// Whether the members stand as their standings say, each where it is looked for.
    func checkInvariants() {
        precondition(ends.last == members.count && positions.count == members.count)
        precondition(lastingCount == members.count { $0.isLasting && $0.hasRight && !$0.isElsewhere })
        for standing in Standing.allCases {
            for position in range(of: standing) {
                precondition(Standing(members[position]) == standing && positions[members[position].sessionKey] == position)
            }
        }
    }
}

/// A session in a share group, as every shard knows it; or one of another node of which nothing is known but that it is
/// there.
struct GroupMember: Sendable {
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64
    /// The group's serial number on the member's own shard.
    let serial: UInt32
    var terms: SubscriptionTerms
    var isConnected: Bool
    /// What its client may read, as its own shard last told; nil for everything.
    var access: AccessPolicy?
    /// Whether its queue takes no more just now: `Session.isFull`.
    var isFull = false
    /// The largest packet that its client takes, as its own shard last told: what is larger goes to another member.
    var packetBytesMax = UInt32.max
    /// Whether its session, of this node, outlives a crash with its messages.
    var isLasting = false
    /// Whether its client may read anything that the group's filter matches; the group finds out.
    var hasRight = true
    /// The node that has it, whose number of the group stands in place of the serial; 0 for this one.
    var node: UInt64 = 0
    /// Of another node: stands for the group's name there, and whether the node reads the cluster's log.
    var groupHash: UInt64 = 0
    var readsLog = false
    /// Whether that node is gone. Its session may come again, on any node: until then the message waits, if there is no
    /// other member.
    var isGone = false

    var isElsewhere: Bool { node != 0 }
    /// Whether there are messages that are too large for its client.
    var isBounded: Bool { packetBytesMax < BrokerSettings.packetBytesLargest }

    func takes(_ size: SharedPacketSize) -> Bool { !isBounded || size.byteCount(terms) <= packetBytesMax }

    /// Whether messages of a topic may reach it.
    @inline(__always)
    func mayReceive(_ topic: UnsafeRawBufferPointer?) -> Bool {
        guard let topic else { return true }
        if topic.first == UInt8(ascii: "$"), PresenceMessage.isTopic(topic) {
            return access?.mayReceivePresence(topic: topic) ?? false
        }
        return access?.mayReceive(topic: topic) ?? true
    }
}

/// What has happened to a member of a share group.
enum GroupChange: Sendable {
    case joined(GroupMember)
    case left(sessionKey: UInt64)
    /// Its client has come or gone.
    case presence(sessionKey: UInt64, isConnected: Bool, packetBytesMax: UInt32)
    /// Its queue has become full, or has room again.
    case fullness(sessionKey: UInt64, isFull: Bool)
}

/// The share groups that a shard knows, by name and by index.
struct ShareGroupTable {
    private var groups: [ShareGroup?] = []
    private var byName: [GroupName: UInt32] = [:]
    private var bySerial: [UInt32: UInt32] = [:]
    private var byHash: [UInt64: UInt32] = [:]
    private var byClusterHash: [UInt64: UInt32] = [:]
    private var free: [UInt32] = []
    private var serial: UInt32 = 0
    /// The groups of which something is to be kept when the turn ends.
    var newlyLasting = NewlyLastingGroups()

    var count: Int { byName.count }

    /// The indices of all groups, and of some that are gone.
    var indices: Range<UInt32> { 0..<UInt32(groups.count) }

    /// The index of the group of this name, or nil.
    func find(_ name: GroupName) -> UInt32? { byName[name] }

    /// The index of the group with this serial number, or nil once it is gone.
    func find(serial: UInt32) -> UInt32? { bySerial[serial] }

    /// The index of the group whose name this stands for, or nil.
    func find(hash: UInt64) -> UInt32? { byHash[hash] }

    /// The index of the group whose name this stands for on all nodes of a cluster, or nil.
    func find(clusterHash: UInt64) -> UInt32? { byClusterHash[clusterHash] }

    subscript(index: UInt32) -> ShareGroup? {
        // Else each message of a group allocates what a coroutine needs, twice.
        @inline(__always) _read { yield groups[Int(index)] }
        @inline(__always) _modify { yield &groups[Int(index)] }
    }

    /// - Parameters:
    ///   - hash: stands for the name.
    ///   - clusterHash: the same on all nodes of a cluster.
    mutating func make(_ name: GroupName, hash: UInt64 = 0, clusterHash: UInt64 = 0) -> UInt32 {
        serial &+= 1
        let index = free.popLast() ?? UInt32(groups.count)
        if index == groups.count { groups.append(nil) }
        groups[Int(index)] = ShareGroup(name: name, serial: serial, hash: hash, clusterHash: clusterHash)
        byName[name] = index
        bySerial[serial] = index
        byHash[hash] = index
        byClusterHash[clusterHash] = index
        return index
    }

    mutating func remove(_ index: UInt32) {
        guard let group = groups[Int(index)] else { return }
        byName[group.name] = nil
        bySerial[group.serial] = nil
        if byHash[group.hash] == index { byHash[group.hash] = nil }
        if byClusterHash[group.clusterHash] == index { byClusterHash[group.clusterHash] = nil }
        groups[Int(index)] = nil
        free.append(index)
    }
}

extension Limits {
    /// Members of a share group that are counted of another node: beyond them it gets no larger part.
    static let clusterMembersMax = 1000
}
