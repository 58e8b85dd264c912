/// The sessions that divide the messages of a filter among them, on whichever shard they live.
///
/// Every shard has a copy; changes come through the mail. Belongs to its shard.
struct ShareGroup {
    let name: GroupName
    /// Tells this group from an earlier one with the same index.
    let serial: UInt32
    /// Stands for the name wherever a number must do: in the store and in the mail.
    let hash: UInt64
    private(set) var members: [GroupMember] = []
    /// Where each session stands among the members.
    private var positions: [UInt64: Int] = [:]
    /// How many members of each shard are connected.
    private var connectedCounts: [Int] = []
    /// How many members have full queues.
    private var fullCount = 0
    private var next = 0

    init(name: GroupName, serial: UInt32, hash: UInt64 = 0) {
        self.name = name
        self.serial = serial
        self.hash = hash
    }

    /// Adds a member or replaces its terms.
    mutating func join(_ member: GroupMember) {
        if let position = positions[member.sessionKey] {
            count(members[position], by: -1)
            members[position] = member
        } else {
            positions[member.sessionKey] = members.count
            members.append(member)
        }
        count(member, by: 1)
    }

    /// Takes a member out; the last one takes its place. O(1).
    mutating func leave(sessionKey: UInt64) {
        guard let position = positions.removeValue(forKey: sessionKey) else { return }
        count(members[position], by: -1)
        let last = members.removeLast()
        guard position < members.count else { return }
        members[position] = last
        positions[last.sessionKey] = position
    }

    mutating func setPresence(sessionKey: UInt64, isConnected: Bool) {
        guard let position = position(of: sessionKey) else { return }
        count(members[position], by: -1)
        members[position].isConnected = isConnected
        count(members[position], by: 1)
    }

    mutating func setFullness(sessionKey: UInt64, isFull: Bool) {
        guard let position = position(of: sessionKey) else { return }
        count(members[position], by: -1)
        members[position].isFull = isFull
        count(members[position], by: 1)
    }

    /// Whether no member that may read the topic has room. O(members) if any has none.
    func isFull(for topic: UnsafeRawBufferPointer) -> Bool {
        guard hasFullMember else { return false }
        var isThereReader = false
        for member in members where member.mayReceive(topic) {
            guard member.isFull else { return false }
            isThereReader = true
        }
        return isThereReader
    }

    var hasFullMember: Bool { fullCount > 0 }

    /// Where the member with this session stands, or nil. O(1).
    func position(of sessionKey: UInt64) -> Int? { positions[sessionKey] }

    /// The member with this session, or nil. O(1).
    func member(_ sessionKey: UInt64) -> GroupMember? { positions[sessionKey].map { members[$0] } }

    /// Whether a member is connected, on `shard` if one is named. O(shards).
    func hasConnected(on shard: Int? = nil) -> Bool {
        guard let shard else { return connectedCounts.contains { $0 > 0 } }
        return shard < connectedCounts.count && connectedCounts[shard] > 0
    }

    private mutating func count(_ member: GroupMember, by change: Int) {
        if member.isFull { fullCount += change }
        guard member.isConnected else { return }
        while connectedCounts.count <= member.shard { connectedCounts.append(0) }
        connectedCounts[member.shard] += change
    }

    /// The member whose turn it is: connected ones with room in rotation; when there is none, the others likewise, those with room first.
    /// O(members).
    ///
    /// - Parameters:
    ///   - topic: what it must be allowed to read; nil for anything.
    ///   - shard: where it must live; nil for anywhere.
    mutating func choose(
        for topic: UnsafeRawBufferPointer? = nil, except excluded: UInt64 = 0, connectedOnly: Bool = false, on shard: Int? = nil
    ) -> GroupMember? {
        guard !members.isEmpty else { return nil }
        var fallback: Int?
        for step in 0..<members.count {
            let position = (next + step) % members.count
            let member = members[position]
            guard member.sessionKey != excluded, shard == nil || member.shard == shard else { continue }
            let isReady = member.isConnected && !member.isFull
            let isBetter = fallback.map { members[$0].isFull && !member.isFull } ?? true
            guard isReady || (isBetter && (member.isConnected || !connectedOnly)), member.mayReceive(topic) else { continue }
            if isReady {
                next = (position + 1) % members.count
                return member
            }
            fallback = position
        }
        guard let fallback else { return nil }
        next = (fallback + 1) % members.count
        return members[fallback]
    }
}
