import BrokerModel
import MQTTCodec

/// Shared subscriptions of a cluster: each shard of each node knows how many members the groups have on other nodes,
/// and the publisher's shard chooses among all.
///
///     publisher's shard: choose ──► a member of this node
///                            └────► another node: GroupDispatch goes with the message ──► that node chooses among its own members
///                                                     another node, once more ◄── if it has none any more
extension ClusterDispatching {
    /// Another node has so many members of a group.
    func heard(of news: ClusterGroup) {
        guard let shareName = EncodedString(news.shareName) else { return }
        let name = GroupName(shareName: shareName, filter: news.filter)
        guard name.topicFilter != nil else { return }
        let isEmpty = news.connected == 0 && news.away == 0
        guard !isEmpty || shard.groups.find(name) != nil else { return }
        let group = shard.shareGroups.knownGroup(name)
        changeMembers(of: group) {
            shard.groups[group]?.setMembers(
                of: news.node, number: news.number, connected: news.connected, away: news.away, readsLog: news.readsLog)
        }
        shard.room.hasNew = true
        if !isEmpty { shard.shareGroups.markUnclaimed(group) }
        shard.shareGroups.removeIfEmpty(group)
    }

    /// Another node is gone: nothing is dispatched there, unless a group has no other member; then it waits for who
    /// comes with that node's sessions.
    func clusterNodeIsGone(_ node: UInt64) {
        for group in shard.groups.indices {
            // One that had gone before is not waited for by itself any more.
            changeMembers(of: group) {
                if shard.groups[group]?.nodeIsGone(node) == true { shard.cluster?.goneSince[node] = shard.now }
            }
            shard.shareGroups.removeIfEmpty(group)
        }
        sendGroups(goneWith: node)
        shard.room.hasNew = true
    }

    /// Whether a group had members on a node that is gone, for which this one dispatches, so that a session of that
    /// node is waited for here. One shard of the node says so.
    private func standsForGone(_ group: UInt32) -> Bool {
        guard shard.index == 0, let gone = shard.groups[group]?.gone else { return false }
        return shard.cluster?.dispatchedFor.contains(gone) ?? false
    }

    /// Changes what is known of a group's members on other nodes, and tells the cluster if this node does not stand for
    /// gone ones any more.
    private func changeMembers(of group: UInt32, _ change: () -> Void) {
        let stoodForGone = standsForGone(group)
        change()
        if stoodForGone, !standsForGone(group), let name = shard.groups[group]?.name { sendGroup(name) }
    }

    /// Tells the cluster anew of the groups that had members on a node that is gone.
    func sendGroups(goneWith node: UInt64) {
        guard shard.index == 0, shard.cluster?.goneSince[node] != nil else { return }
        for group in shard.groups.indices where shard.groups[group]?.gone == node {
            if let name = shard.groups[group]?.name { sendGroup(name) }
        }
    }

    /// To be called about each second: what nobody has come for waits no more.
    func forgetGoneMembers(_ port: ClusterPort) {
        for (node, since) in port.goneSince where shard.now >= since + Limits.unclaimedMilliseconds {
            port.goneSince[node] = nil
            for group in shard.groups.indices {
                changeMembers(of: group) { shard.groups[group]?.forgetGone(node) }
                shard.shareGroups.removeIfEmpty(group)
            }
        }
    }

    /// Tells the cluster how many members of a group this shard has.
    ///
    /// - Parameter isSubscribed: whether a member has subscribed, and its SUBACK waits for that.
    func sendGroup(_ name: GroupName, isSubscribed: Bool = false) {
        guard shard.cluster != nil else { return }
        let group = shard.groups.find(name)
        var size = group.flatMap { shard.groups[$0]?.size(on: shard.index) } ?? (connected: 0, away: 0)
        if let group, standsForGone(group) { size.away += 1 }
        shard.effects.append(
            .cluster(
                .group(
                    shareName: name.shareName.bytes, filter: name.filter, connected: size.connected, away: size.away,
                    isSubscribed: isSubscribed)))
    }

    /// Sends the message to one member of each group, or leaves it to the member's node.
    @inline(never)
    func dispatchInCluster(_ publication: inout Publication, _ matching: [UInt32], _ reach: Dispatcher.Reach, _ port: ClusterPort) {
        switch reach {
        case .shard, .nodeWithoutGroups: return
        case .node: dispatchHere(&publication, matching)
        case .cluster where port.isStrange, .clusterByBus where port.isStrange: dispatchHere(&publication, matching)
        case .cluster, .clusterByBus:
            var dispatch = publication.dispatch ?? GroupDispatch()
            let isLogged = publication.path == .passing && port.node != 0 && reach == .cluster
            for group in matching {
                let near = port.isAway ? shard.shareGroups.chooseMember(of: group, for: publication, isHere: true) : nil
                guard let member = near ?? shard.shareGroups.chooseMember(of: group, for: publication) else { continue }
                if isLogged, !member.isElsewhere || member.readsLog, let hash = shard.groups[group]?.clusterHash {
                    dispatch.logged.append(
                        member.isElsewhere
                            ? LoggedShare(node: member.node, group: hash)
                            : LoggedShare(node: port.node, group: hash, member: member.sessionKey))
                } else if member.isElsewhere {
                    dispatch.shares.append(GroupShare(node: member.node, number: member.serial))
                } else {
                    shard.shareGroups.dispatchToMember(&publication, member, of: group)
                }
            }
            publication.dispatch = dispatch
        }
    }

    /// Dispatches a message, of which its node did not know who else has members, to this node's members of those
    /// groups of which this one is the first other node.
    func dispatchAsFirst(_ publication: inout Publication, _ here: UInt64, besides publisher: UInt64) {
        let matching = shard.dispatcher.matches(of: publication.topic).with(\.groups)
        dispatchHere(&publication, matching.filter { shard.groups[$0]?.isFirst(here, besides: publisher) ?? false })
    }

    private func dispatchHere(_ publication: inout Publication, _ matching: [UInt32]) {
        for group in matching {
            guard let member = shard.shareGroups.chooseMember(of: group, for: publication, isHere: true) else { continue }
            shard.shareGroups.dispatchToMember(&publication, member, of: group)
        }
    }

    /// Dispatches a message of another node to members of this one. What nobody takes here goes on to another node that
    /// has members.
    func dispatchNamed(_ publication: inout Publication, _ dispatched: DispatchedGroups) {
        publication.hops = dispatched.hops
        for (shareName, filter) in dispatched.names {
            guard let shareName = EncodedString(shareName),
                let group = shard.groups.find(GroupName(shareName: shareName, filter: filter))
            else { continue }
            if let member = shard.shareGroups.chooseMember(of: group, for: publication, isHere: true) {
                shard.shareGroups.dispatchToMember(&publication, member, of: group)
            } else if let member = shard.shareGroups.chooseMember(of: group, for: publication) {
                giveOn(publication, to: member)
            }
        }
    }

    /// Gives a message to another node for a group's members there, and to nobody else. What was passed on too often
    /// ends here: nodes could give it to each other for ever.
    func passOn(_ publication: inout Publication, to member: GroupMember) {
        if publication.qos > .atMostOnce, goesByLog(to: member) {
            guard publication.hops < Limits.clusterHopsMax else { return shard.drops.drop(.refused, DroppedMessage(publication)) }
            relog(&publication, for: LoggedShare(node: member.node, group: member.groupHash), hops: publication.hops + 1)
        } else {
            giveOn(publication, to: member)
        }
    }

    /// Whether what is left to a member of another node goes there by way of the log.
    func goesByLog(to member: GroupMember) -> Bool {
        member.readsLog && shard.clusterLog != nil && shard.cluster?.node != 0
    }

    /// Gives a message to a member of another node by way of the bus.
    private func giveOn(_ publication: borrowing Publication, to member: GroupMember) {
        guard let cluster = shard.cluster else { return }
        guard publication.hops < Limits.clusterHopsMax else { return shard.drops.drop(.refused, DroppedMessage(publication)) }
        let share = GroupShare(node: member.node, number: member.serial)
        cluster.pass(publication, GroupDispatch(shares: [share], hops: publication.hops + 1))
    }
}

/// Members of a share group that another node has. All of them: what was told before counts no more.
public struct ClusterGroup: Sendable {
    public var node: UInt64
    /// By which that node is told that it is the group's turn there.
    public var number: UInt32
    public var shareName: [UInt8]
    /// Without `$share/NAME/`.
    public var filter: [UInt8]
    /// Members whose clients are connected, and others.
    public var connected: Int
    public var away: Int
    /// Whether the node reads the log, so that it can be given what stands there.
    public var readsLog = false

    public init(node: UInt64, number: UInt32, shareName: [UInt8], filter: [UInt8], connected: Int, away: Int) {
        (self.node, self.number, self.shareName, self.filter) = (node, number, shareName, filter)
        (self.connected, self.away) = (connected, away)
    }
}

/// Messages that are left to members by way of the log, and are not in it yet, in the order of the serials of their
/// batches.
struct RelogQueue {
    struct Entry {
        var serial: UInt64 = 0
        /// That it went into, a bit each.
        var partitions: UInt64 = 0
        let message: Message
        /// What it was in the log before.
        let name: MessageName
        let share: LoggedShare
        let hops: UInt8
        let mark: DispatchToken?
    }

    private var entries: [Entry] = []
    /// The messages that wait until the log has room.
    private var held: [Entry] = []
    /// Topics, properties and payloads together.
    private(set) var byteCount = 0

    var isEmpty: Bool { entries.isEmpty }

    mutating func hold(_ entry: Entry) {
        held.append(entry)
        byteCount += entry.message.byteCount
    }

    mutating func takeHeld() -> [Entry] {
        defer { held = [] }
        byteCount -= held.reduce(0) { $0 + $1.message.byteCount }
        return held
    }

    mutating func append(_ entry: Entry) {
        entries.append(entry)
        byteCount += entry.message.byteCount
    }

    /// Takes those up to a serial.
    mutating func take(through serial: UInt64) -> [Entry] {
        let taken = Array(entries.prefix { $0.serial <= serial })
        entries.removeFirst(taken.count)
        byteCount -= taken.reduce(0) { $0 + $1.message.byteCount }
        return taken
    }

    mutating func takeAll() -> [Entry] { take(through: .max) + takeHeld() }
}
