/// A session's own notes of the share groups it is in: found by name in O(1), in an order that does not depend on any hash.
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
