/// The sessions that divide the messages of a filter among them, on whichever shard they live.
///
/// Every shard has a copy; changes come through the mail. Belongs to its shard.
struct ShareGroup {
    let name: GroupName
    /// Tells this group from an earlier one with the same index.
    let serial: UInt32
    private(set) var members: [GroupMember] = []
    private var next = 0

    init(name: GroupName, serial: UInt32) {
        self.name = name
        self.serial = serial
    }

    /// Adds a member or replaces its terms.
    mutating func join(_ member: GroupMember) {
        if let position = members.firstIndex(where: { $0.sessionKey == member.sessionKey }) {
            members[position] = member
        } else {
            members.append(member)
        }
    }

    mutating func leave(sessionKey: UInt64) {
        members.removeAll { $0.sessionKey == sessionKey }
    }

    mutating func setPresence(sessionKey: UInt64, isConnected: Bool) {
        guard let position = members.firstIndex(where: { $0.sessionKey == sessionKey }) else { return }
        members[position].isConnected = isConnected
    }

    mutating func setFullness(sessionKey: UInt64, isFull: Bool) {
        guard let position = members.firstIndex(where: { $0.sessionKey == sessionKey }) else { return }
        members[position].isFull = isFull
    }

    /// Whether no member has room.
    var isFull: Bool { !members.isEmpty && members.allSatisfy(\.isFull) }

    /// The member with this session, or nil.
    func member(_ sessionKey: UInt64) -> GroupMember? { members.first { $0.sessionKey == sessionKey } }

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
