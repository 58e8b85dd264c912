import BrokerModel
import MQTTCodec

/// What share groups dispatch of the cluster's log. Who is chosen stands in the log with the message, so that a node's
/// part is known to all when it is gone: another one dispatches it again, from the first message on that was not done
/// with.
///
///     publisher's shard: choose ──► LoggedShare in the log ──► the node that it names ──► a member, with a DispatchToken
///                                         │                          └── no member any more ──► into the log again, for another node
///                                         └──► the node that dispatches for one that is gone ──► into the log again, for itself or another node
///                                                    nobody is there ──► UnclaimedParts ──► who comes first
struct ClusterDispatching {
    let shard: BrokerShard

    /// Dispatches from now on what the log has for a node that is gone. Groups that had their only members there count
    /// as this node's: so nodes that have started since know of them. The store knows of it, for this node may be
    /// killed before all is dispatched.
    ///
    /// - Parameters:
    ///   - node: that node's number.
    ///   - done: by partition, up to where it was done.
    func dispatchesFor(_ node: UInt64, after done: [UInt64]) {
        guard let port = shard.cluster else { return }
        port.dispatchedFor.insert(node)
        port.inherited[node] = done
        if let log = port.log { writeDispatch(port, log) }
        sendGroups(goneWith: node)
    }

    /// A node that was gone is there again, or another one dispatches for it.
    func dispatchesNoMoreFor(_ node: UInt64) {
        shard.cluster?.dispatchedFor.remove(node)
        shard.cluster?.inherited[node] = nil
        shard.cluster?.unclaimed.forget(node)
        sendGroups(goneWith: node)
    }

    /// Dispatches what a record has for this node, or for one that is gone.
    func dispatchLogged(_ publication: inout Publication, _ dispatch: GroupDispatch, at place: OpenDispatches.Place) {
        guard let port = shard.cluster, isDispatcher(of: publication.publisher) else { return }
        for (number, share) in dispatch.logged.enumerated() {
            publication.name = publication.name.dispatched(by: number)
            // What names an earlier incarnation of this node belongs to what they left: see `EarlierDispatches`.
            if share.node == port.node {
                dispatchShare(&publication, share, hops: dispatch.hops, at: place)
            } else if port.dispatchedFor.contains(share.node) {
                dispatchShare(&publication, share, hops: dispatch.hops)
            }
        }
    }

    /// On each node one shard dispatches all that a publisher sends.
    func isDispatcher(of publisher: UInt64) -> Bool { (publisher >> 1) % UInt64(shard.shardCount) == UInt64(shard.index) }

    /// Dispatches what stands in the log for one of a message's groups.
    ///
    /// - Parameter place: where; nil for what was dispatched to another node, or an earlier incarnation of this one.
    ///   This node's members get that out of the log as well, where it names this node then: so it is dispatched again
    ///   if this one is lost.
    func dispatchShare(_ publication: inout Publication, _ share: LoggedShare, hops: UInt8, at place: OpenDispatches.Place? = nil) {
        guard let dispatched = shard.clusterLog?.dispatched else { return }
        guard let group = shard.groups.find(clusterHash: share.group) else {
            if place == nil { hold(&publication, share, hops: hops) }
            return
        }
        if let place { publication.mark = DispatchToken(place, dispatched) }
        publication.hops = hops
        defer { publication.mark = nil }
        let chosen = share.member == 0 || share.node != shard.cluster?.node ? nil : shard.groups[group]?.member(share.member)
        let topic = publication.topic
        if let member = chosen.flatMap({ $0.mayReceive(topic) ? $0 : nil })
            ?? shard.shareGroups.chooseMember(of: group, for: publication, isHere: true)
        {
            guard place == nil, let node = shard.cluster?.node else { return shard.shareGroups.sendToMember(&publication, member) }
            relog(&publication, for: LoggedShare(node: node, group: share.group), hops: hops)
        } else if let member = shard.groups[group]?.choose(for: topic, isThere: place == nil) {
            guard hops < Limits.clusterHopsMax else {
                // Nodes that wait for sessions of others that are gone may have given it to each other.
                if shard.groups[group]?.gone != nil { return hold(&publication, share, hops: hops) }
                return shard.drops.drop(.refused, DroppedMessage(publication))
            }
            relog(&publication, for: LoggedShare(node: member.node, group: member.groupHash), hops: hops + 1)
        } else if place == nil {
            hold(&publication, share, hops: hops)
        }
    }

    // MARK: What nobody is there for

    /// The one member that a group had was on the node that is gone: it may come to another one.
    private func hold(_ publication: inout Publication, _ share: LoggedShare, hops: UInt8) {
        guard let port = shard.cluster else { return }
        let part = UnclaimedParts.Part(
            message: publication.makeMessage(shard.ledger), node: share.node, name: publication.name, hops: hops, heldAt: shard.now)
        if !port.unclaimed.hold(part, of: share.group) { shard.drops.drop(.noRoom, DroppedMessage(publication)) }
    }

    /// At the end of a turn: dispatches what waits for groups that have a member by now.
    func dispatchUnclaimed(_ port: ClusterPort) {
        guard port.unclaimed.look(now: shard.now) else { return }
        for part in port.unclaimed.takeOld(now: shard.now) { shard.drops.drop(.refused, DroppedMessage(part.message)) }
        for hash in port.unclaimed.groups {
            guard let group = shard.groups.find(clusterHash: hash), let first = port.unclaimed.first(of: hash) else { continue }
            // Nodes that wait for members that are gone count as members for each other: what they have given each
            // other too often waits for another one.
            let hasNews = port.unclaimed.hasNews(of: hash)
            let goesOn = hasNews || first.hops < Limits.clusterHopsMax
            guard shard.groups[group]?.choose(for: first.message.topic, isHere: !goesOn, isThere: true) != nil else { continue }
            for part in port.unclaimed.take(of: hash) {
                shard.storing.beginPacket()
                var publication = Publication(part.message)
                (publication.path, publication.mustArrive, publication.name) = (.passing, true, part.name)
                dispatchShare(&publication, LoggedShare(node: part.node, group: hash), hops: hasNews ? 0 : part.hops)
                shard.dispatcher.finish(&publication)
            }
        }
    }

    // MARK: Into the log again

    /// Leaves a message to a node's members by way of the log. It counts as dispatched here until it is there, and
    /// behind that as done: by its name.
    func relog(_ publication: inout Publication, for share: LoggedShare, hops: UInt8) {
        guard let port = shard.cluster, let log = port.log else { return }
        let message = publication.makeMessage(shard.ledger)
        relog(
            RelogQueue.Entry(message: message, name: publication.name, share: share, hops: hops, mark: publication.mark), port, log)
    }

    func relog(_ dispatched: RelogQueue.Entry, _ port: ClusterPort, _ log: ShardLog) {
        var publication = Publication(dispatched.message)
        publication.path = .passing
        let dispatch = GroupDispatch(
            hops: dispatched.hops, logged: [dispatched.share], before: dispatched.name.isDispatched ? dispatched.name : .none)
        let partitions = port.pass(byLog: publication, dispatch, now: shard.now)
        guard let serial = shard.durability?.requireLog(in: partitions) else { return }
        port.stamp(serial)
        var dispatched = dispatched
        (dispatched.serial, dispatched.partitions) = (serial, partitions)
        log.relogged.append(dispatched)
        shard.dispatcher.finish(&publication)
    }

    /// Settles the messages that were left to other nodes, up to a serial: they are in the log, or are given to it once
    /// more.
    ///
    /// - Parameters:
    ///   - serial: of the last batch that is settled.
    ///   - failed: what is not there, or not known to be; nil if all is. Without room it waits for some.
    func settleRelogged(_ serial: UInt64, _ failed: FailedBatches?) {
        guard let port = shard.cluster, let log = port.log, !log.relogged.isEmpty else { return }
        let settled = log.relogged.take(through: serial)
        guard let failed else { return }
        for dispatched in settled where failed.partitions & dispatched.partitions != 0 {
            if failed.isForRoom, log.lackingRoom != 0 {
                log.relogged.hold(dispatched)
            } else if failed.isRefused, !failed.isForRoom {
                shard.drops.drop(.noRoom, DroppedMessage(dispatched.message))
            } else {
                relog(dispatched, port, log)
            }
        }
    }

    /// Other shards learn that what they had dispatched to members here is done.
    func returnMarks() {
        guard let log = shard.clusterLog, !log.dispatched.returned.isEmpty else { return }
        for (target, places) in log.dispatched.takeReturned().sorted(by: { $0.key < $1.key }) {
            shard.messaging.send(.dispatched(places), target)
        }
    }

    /// The groups' name for all nodes.
    static func clusterHash(of name: GroupName) -> UInt64 {
        (name.shareName.bytes + [0] + name.filter).withUnsafeBytes(ClusterMessaging.clusterHashing.hash)
    }
}

/// What share groups had dispatched on nodes that are gone, and for which they have no member left: it waits a while
/// for one who comes, with a session that was restored or a new one.
struct UnclaimedParts {
    struct Part {
        let message: Message
        /// For which it was.
        let node: UInt64
        let name: MessageName
        let hops: UInt8
        let heldAt: UInt64
    }

    /// By the groups' names for all nodes, each in its order.
    private var parts: [UInt64: [Part]] = [:]
    private var byteCount = 0
    /// Whether a group that something waits for has come.
    private(set) var isDue = false
    /// The groups that have another member since what was dispatched to waits for them last.
    private var news: Set<UInt64> = []
    private var lookedAt: UInt64 = 0

    var isEmpty: Bool { parts.isEmpty }

    /// In a fixed order.
    var groups: [UInt64] { parts.keys.sorted() }

    func first(of group: UInt64) -> Part? { parts[group]?.first }

    /// Keeps one; false if there is no room.
    mutating func hold(_ part: Part, of group: UInt64) -> Bool {
        guard byteCount + Self.cost(part) <= Limits.unclaimedBytesMax else { return false }
        byteCount += Self.cost(part)
        parts[group, default: []].append(part)
        return true
    }

    /// A group has another member.
    mutating func record(_ group: UInt64) {
        guard parts[group] != nil else { return }
        isDue = true
        news.insert(group)
    }

    /// Whether what waits for a group may go from node to node once more, however often it has.
    func hasNews(of group: UInt64) -> Bool { news.contains(group) }

    /// Whether a group that something waits for has come since it was asked last, or a second is over.
    mutating func look(now: UInt64) -> Bool {
        guard !isEmpty, isDue || now >= lookedAt + Limits.unclaimedLookMilliseconds else { return false }
        (isDue, lookedAt) = (false, now)
        return true
    }

    mutating func take(of group: UInt64) -> [Part] {
        let taken = parts.removeValue(forKey: group) ?? []
        news.remove(group)
        byteCount -= taken.reduce(0) { $0 + Self.cost($1) }
        return taken
    }

    /// A node is there again, and dispatches its part itself.
    mutating func forget(_ node: UInt64) { _ = take { $0.node == node } }

    /// Takes what has waited too long. O(groups) if nothing has.
    mutating func takeOld(now: UInt64) -> [Part] {
        let limit = now > Limits.unclaimedMilliseconds ? now - Limits.unclaimedMilliseconds : 0
        guard parts.values.contains(where: { $0[0].heldAt < limit }) else { return [] }
        return take { $0.heldAt < limit }
    }

    private mutating func take(where isTaken: (Part) -> Bool) -> [Part] {
        var taken: [Part] = []
        for group in groups {
            let (hasNews, all) = (hasNews(of: group), take(of: group))
            taken += all.filter(isTaken)
            for part in all where !isTaken(part) { _ = hold(part, of: group) }
            if hasNews { record(group) }
        }
        return taken
    }

    /// Of the rest of it 100 bytes.
    private static func cost(_ part: Part) -> Int { part.message.byteCount + 100 }
}

extension UnclaimedParts: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.cluster != nil }
    static func step(_ shard: BrokerShard) { if let port = shard.cluster { shard.clusterDispatching.dispatchUnclaimed(port) } }
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.cluster?.unclaimed.isDue ?? false ? shard.now : nil }
}

extension Limits {
    /// Bytes of what waits for members of share groups whose node is gone, a shard; beyond them it is dropped.
    static let unclaimedBytesMax = 16 << 20

    /// How often it is looked at when nobody new has come, in milliseconds.
    static let unclaimedLookMilliseconds: UInt64 = 1000
}

extension BrokerShard {
    /// How far what the shard has dispatched of a partition is done with: by members who have acknowledged it, or by
    /// the store where it waits for one that is away.
    ///
    /// - Returns: the last record up to which all is, and the last one of which anything was dispatched.
    public func dispatched(_ partition: Int) -> (through: UInt64, last: UInt64) {
        guard let log = clusterLog, log.places.places.indices.contains(partition) else { return (0, 0) }
        let read = log.places.places[partition]?.sequence ?? 0
        let through = min(log.dispatched.firstOpen(partition).map { $0 - 1 } ?? read, log.dispatched.bound(partition) ?? read, read)
        return (through, log.dispatched.last(partition))
    }

    /// A message of a record that was read for a node that is gone, from before `dispatchesFor`, behind
    /// `learnDispatched` for all steps since.
    ///
    /// - Returns: false if it is no message.
    func dispatchAgain(_ message: ClusterMessage, partition: Int, sequence: UInt64, for node: UInt64) -> Bool {
        guard clusterDispatching.isDispatcher(of: message.publisher) else { return true }
        let learned = cluster?.learned[node] ?? []
        return forEachShare(of: message, partition: partition, sequence: sequence) {
            $1.node == node && !learned.contains($0)
        } take: {
            clusterDispatching.dispatchShare(&$0, $1, hops: $2)
        }
    }

    /// Calls `take` with a message of a record for each share group that it is to be dispatched to once more, and how
    /// often it was passed on.
    ///
    /// - Parameter isOpen: whether it is to be; gets the message's name in that group.
    /// - Returns: false if it is no message.
    func forEachShare(
        of message: ClusterMessage, partition: Int, sequence: UInt64, where isOpen: (MessageName, LoggedShare) -> Bool,
        take: (inout Publication, LoggedShare, UInt8) -> Void
    ) -> Bool {
        guard let dispatch = message.dispatch else { return true }
        let name = MessageName(partition: partition, sequence: sequence, index: message.index)
        let open = dispatch.logged.enumerated().filter { isOpen(name.dispatched(by: $0), $1) }
        guard !open.isEmpty else { return true }
        guard var publication = clusterMessaging.publication(message) else { return false }
        storing.beginPacket()
        (publication.path, publication.mustArrive) = (.passing, true)
        for (number, share) in open {
            publication.name = name.dispatched(by: number)
            take(&publication, share, dispatch.hops)
        }
        dispatcher.finish(&publication)
        return true
    }
}
