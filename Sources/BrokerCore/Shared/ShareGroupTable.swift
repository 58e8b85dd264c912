/// The share groups that a shard knows, by name and by index.
struct ShareGroupTable {
    private var groups: [ShareGroup?] = []
    private var byName: [GroupName: UInt32] = [:]
    private var bySerial: [UInt32: UInt32] = [:]
    private var byHash: [UInt64: UInt32] = [:]
    private var byClusterHash: [UInt64: UInt32] = [:]
    private var free: [UInt32] = []
    private var serial: UInt32 = 0

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
