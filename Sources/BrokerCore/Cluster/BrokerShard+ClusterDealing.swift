import BrokerModel
import MQTTCodec

/// What share groups deal of the cluster's log. Who is chosen stands in the log with the message, so that a node's part is known to all when it is
/// gone: another one deals it again, from the first message on that was not done with.
///
///     publisher's shard: choose ──► LoggedShare in the log ──► the node that it names ──► a member, with a DealtMark
///                                         │                          └── no member any more ──► into the log again, for another node
///                                         └──► the node that deals for one that is gone ──► into the log again, for itself or another node
///                                                    nobody is there ──► UnclaimedParts ──► who comes first
extension BrokerShard {
    /// Deals from now on what the log has for a node that is gone. Groups that had their only members there count as this node's: so nodes that have
    /// started since know of them. The store knows of it, for this node may be killed before all is dealt.
    ///
    /// - Parameters:
    ///   - node: that node's number.
    ///   - done: by partition, up to where it was done.
    func dealsFor(_ node: UInt64, after done: [UInt64]) {
        guard let port = cluster else { return }
        port.dealtFor.insert(node)
        port.inherited[node] = done
        if let log = port.log { writeDealing(port, log) }
        sendGroups(goneWith: node)
    }

    /// All that was dealt to a node that is gone stands in the log once more.
    func hasDealt(for node: UInt64) { cluster?.inherited[node] = nil }

    /// A node that was gone is there again, or another one deals for it.
    func dealsNoMoreFor(_ node: UInt64) {
        cluster?.dealtFor.remove(node)
        cluster?.inherited[node] = nil
        cluster?.unclaimed.forget(node)
        sendGroups(goneWith: node)
    }

    /// How far what the shard has dealt of a partition is done with: by members who have acknowledged it, or by the store where it waits for one
    /// that is away.
    ///
    /// - Returns: the last record up to which all is, and the last one of which anything was dealt.
    public func dealt(_ partition: Int) -> (through: UInt64, last: UInt64) {
        guard let log = clusterLog, log.places.places.indices.contains(partition) else { return (0, 0) }
        let read = log.places.places[partition]?.sequence ?? 0
        let through = min(log.dealt.firstOpen(partition).map { $0 - 1 } ?? read, log.dealt.bound(partition) ?? read, read)
        return (through, log.dealt.last(partition))
    }

    /// A message of a record that was read for a node that is gone, from before `dealsFor`, behind `learnDealt` for all steps since.
    ///
    /// - Returns: false if it is no message.
    public func dealAgain(_ message: ClusterMessage, partition: Int, sequence: UInt64, for node: UInt64) -> Bool {
        guard let dealing = message.dealing, isDealer(of: message.publisher) else { return true }
        let name = MessageName(partition: partition, sequence: sequence, index: message.index)
        let learned = cluster?.learned[node] ?? []
        let open = dealing.logged.enumerated().filter { $1.node == node && !learned.contains(name.dealt(by: $0)) }
        guard !open.isEmpty else { return true }
        guard var publication = publication(message) else { return false }
        beginPacket()
        (publication.lane, publication.mustArrive) = (.passing, true)
        for (number, share) in open {
            publication.name = name.dealt(by: number)
            dealAgain(&publication, by: share, hops: dealing.hops)
        }
        finish(&publication)
        return true
    }

    /// Deals what a record has for this node, or for one that is gone.
    func dealLogged(_ publication: inout Publication, _ dealing: GroupDealing, at place: DealtPlaces.Place) {
        guard let port = cluster, isDealer(of: publication.publisher) else { return }
        for (number, share) in dealing.logged.enumerated() {
            publication.name = publication.name.dealt(by: number)
            // What names an earlier incarnation of this node belongs to its past: see `DealingPast`.
            if share.node == port.node {
                dealShare(&publication, share, hops: dealing.hops, at: place)
            } else if port.dealtFor.contains(share.node) {
                dealShare(&publication, share, hops: dealing.hops, at: nil)
            }
        }
    }

    /// On each node one shard deals all that a publisher sends.
    func isDealer(of publisher: UInt64) -> Bool { (publisher >> 1) % UInt64(shardCount) == UInt64(index) }

    /// Deals what another node, or an earlier incarnation of this one, was dealt. This node's members get it out of the
    /// log as well, where it names this node then: so it is dealt again if this one is lost.
    func dealAgain(_ publication: inout Publication, by share: LoggedShare, hops: UInt8) {
        dealShare(&publication, share, hops: hops, at: nil)
    }

    private func dealShare(_ publication: inout Publication, _ share: LoggedShare, hops: UInt8, at place: DealtPlaces.Place?) {
        guard let dealt = clusterLog?.dealt else { return }
        guard let group = groups.find(clusterHash: share.group) else {
            if place == nil { hold(&publication, share, hops: hops) }
            return
        }
        if let place { publication.mark = DealtMark(place, dealt) }
        publication.hops = hops
        defer { publication.mark = nil }
        let chosen = share.member == 0 || share.node != cluster?.node ? nil : groups[group]?.member(share.member)
        let topic = publication.topic
        if let member = chosen.flatMap({ $0.mayReceive(topic) ? $0 : nil })
            ?? chooseMember(of: group, for: publication, isHere: true)
        {
            guard place == nil, let node = cluster?.node else { return sendToMember(&publication, member) }
            relog(&publication, for: LoggedShare(node: node, group: share.group), hops: hops)
        } else if let member = groups[group]?.choose(for: topic, isThere: place == nil) {
            guard hops < Limits.clusterHopsMax else {
                // Nodes that wait for sessions of others that are gone may have given it to each other.
                if groups[group]?.gone != nil { return hold(&publication, share, hops: hops) }
                return drop(.refused, DroppedMessage(publication))
            }
            relog(&publication, for: LoggedShare(node: member.node, group: member.groupHash), hops: hops + 1)
        } else if place == nil {
            hold(&publication, share, hops: hops)
        }
    }

    // MARK: What nobody is there for

    /// The one member that a group had was on the node that is gone: it may come to another one.
    private func hold(_ publication: inout Publication, _ share: LoggedShare, hops: UInt8) {
        guard let port = cluster else { return }
        let part = UnclaimedParts.Part(
            message: publication.makeMessage(ledger), node: share.node, name: publication.name, hops: hops, heldAt: now)
        if !port.unclaimed.hold(part, of: share.group) { drop(.noRoom, DroppedMessage(publication)) }
    }

    /// At the end of a turn: deals what waits for groups that have a member by now.
    func dealUnclaimed(_ port: ClusterPort) {
        guard port.unclaimed.look(now: now) else { return }
        for part in port.unclaimed.takeOld(now: now) { drop(.refused, DroppedMessage(part.message)) }
        for hash in port.unclaimed.groups {
            guard let group = groups.find(clusterHash: hash), let first = port.unclaimed.first(of: hash) else { continue }
            // Nodes that wait for members that are gone count as members for each other: what they have given each other too often waits for another one.
            let hasNews = port.unclaimed.hasNews(of: hash)
            let goesOn = hasNews || first.hops < Limits.clusterHopsMax
            guard groups[group]?.choose(for: first.message.topic, isHere: !goesOn, isThere: true) != nil else { continue }
            for part in port.unclaimed.take(of: hash) {
                beginPacket()
                var publication = Publication(part.message)
                (publication.lane, publication.mustArrive, publication.name) = (.passing, true, part.name)
                dealShare(&publication, LoggedShare(node: part.node, group: hash), hops: hasNews ? 0 : part.hops, at: nil)
                finish(&publication)
            }
        }
    }

    // MARK: Into the log again

    /// Leaves a message to a node's members by way of the log. It counts as dealt here until it is there, and behind that as done: by its name.
    func relog(_ publication: inout Publication, for share: LoggedShare, hops: UInt8) {
        guard let port = cluster, let log = port.log else { return }
        let message = publication.makeMessage(ledger)
        relog(
            RelogQueue.Entry(message: message, name: publication.name, share: share, hops: hops, mark: publication.mark), port, log)
    }

    func relog(_ dealt: RelogQueue.Entry, _ port: ClusterPort, _ log: ShardLog) {
        var publication = Publication(dealt.message)
        publication.lane = .passing
        var dealing = GroupDealing(shares: [], hops: dealt.hops, logged: [dealt.share])
        if dealt.name.isDealt { dealing.before = dealt.name }
        port.pass(publication, dealing, as: .passing)
        let receiver = logReceiver
        guard let serial = durability?.requireConfirmation(of: receiver) else { return }
        port.stamp(serial)
        var dealt = dealt
        dealt.serial = serial
        log.relogged.append(dealt)
        finish(&publication)
    }

    /// What was left to other nodes is in the log, up to a serial; or is not, and is given to it once more.
    ///
    /// - Parameters:
    ///   - serial: of the last batch that is settled.
    ///   - isLogged: whether it is there.
    ///   - isRefused: whether it is known not to be.
    ///   - isForRoom: whether that is because there was no room: then it waits for some.
    func settleRelogged(_ serial: UInt64, isLogged: Bool, isRefused: Bool = false, isForRoom: Bool = false) {
        guard let port = cluster, let log = port.log, !log.relogged.isEmpty else { return }
        let settled = log.relogged.take(through: serial)
        guard !isLogged else { return }
        for dealt in settled {
            if isForRoom, log.lackingRoom != 0 {
                log.relogged.hold(dealt)
            } else if isRefused, !isForRoom {
                drop(.noRoom, DroppedMessage(dealt.message))
            } else {
                relog(dealt, port, log)
            }
        }
    }

    /// Other shards learn that what they had dealt to members here is done.
    func returnMarks() {
        guard let log = clusterLog, !log.dealt.returned.isEmpty else { return }
        for (shard, places) in log.dealt.takeReturned().sorted(by: { $0.key < $1.key }) { tell(.dealt(places), shard) }
    }

    /// The groups' name for all nodes.
    static func clusterHash(of name: GroupName) -> UInt64 {
        (name.shareName.bytes + [0] + name.filter).withUnsafeBytes(clusterHashing.hash)
    }
}

/// What share groups had been dealt on nodes that are gone, and for which they have no member left: it waits a while for one who comes, with a session
/// that was taken up or a new one.
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
    /// The groups that have another member since what waits for them was dealt last.
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
    mutating func note(_ group: UInt64) {
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

    /// A node is there again, and deals its part itself.
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
            if hasNews { note(group) }
        }
        return taken
    }

    /// Of the rest of it 100 bytes.
    private static func cost(_ part: Part) -> Int { part.message.byteCount + 100 }
}

extension UnclaimedParts: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.cluster != nil }
    static func step(_ shard: BrokerShard) { if let port = shard.cluster { shard.dealUnclaimed(port) } }
    static func deadline(_ shard: BrokerShard) -> UInt64? { shard.cluster?.unclaimed.isDue ?? false ? shard.now : nil }
}
