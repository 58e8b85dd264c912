extension BanList {
    /// What holds on a node of a cluster that has just read all that the nodes share.
    ///
    /// - Parameters:
    ///   - shared: the cluster's bans.
    ///   - kept: whose bans were made here while the cluster was out of reach.
    ///   - hasJoined: whether this node has brought its own once: then what the cluster does not have was lifted.
    /// - Returns: the list, and what of it the cluster has yet to be told.
    public func merged(with shared: [Ban], keeping kept: Set<BanTarget>, hasJoined: Bool) -> (list: BanList, offered: [Ban]) {
        var list = BanList()
        // The cluster's first: of too many, what is left out is left out on all nodes.
        for ban in shared where !kept.contains(ban.target) || self[ban.target] == nil { _ = list.add(ban) }
        var offered: [Ban] = []
        for ban in all where kept.contains(ban.target) || (!hasJoined && list[ban.target] == nil) {
            if list.add(ban) { offered.append(ban) }
        }
        return (list, offered)
    }
}
