/// Share groups on the bus lane.
extension BusLane {
    /// A part of this node has so many members of a share group.
    ///
    /// - Returns: the ticket that `BusSink.confirm` names when every node knows that the group has members here, and connected ones, if it has; nil if
    ///   all do. How many there are nobody has to wait for.
    public mutating func members(
        of name: ShareGroupName, part: Int, _ size: GroupSize, now: UInt64, _ sink: some BusSink
    ) -> UInt64? {
        let isNew = !groups.knows(name)
        let before = groups.size(of: name)
        if groups.set(name, part: part, size) {
            // Until all know that the last member has gone, messages for it come, which are to go on to others.
            if isNew, carryOut(interest.insert(name.filter), sink) { interestTicket = fences.need() }
            if state != .detached || !worksDetached {
                let ticket = fences.need()
                let after = groups.size(of: name)
                if before.isEmpty || before.connected == 0 && after.connected > 0 { groupTickets[name] = ticket }
            }
            if state != .detached { settle(now: now, sink) }
        }
        guard let ticket = groupTickets[name] else { return nil }
        if ticket > fences.complete { return ticket }
        groupTickets[name] = nil
        return nil
    }

    /// Behind all that was wanted, and all that was told of share groups. `isInForce` says when every node knows it.
    public var lastTicket: UInt64 { fences.last }

    public func isInForce(_ ticket: UInt64) -> Bool { ticket <= fences.complete }

    /// The whole node knows what `BusSink.learn` has brought with this receipt.
    public mutating func learned(_ receipt: GroupReceipt, _ sink: some BusSink) {
        memories[receipt.node]?.learned(receipt)
        if state != .detached, !receipt.reply.isEmpty { answer(receipt.node, receipt.reply, sink) }
    }

    /// With the answer comes what the other node has to know before it opens its lane.
    mutating func answer(_ peer: NodeID, _ reply: [UInt8], _ sink: some BusSink) {
        sendNodeMessage(reply, reply: [], nodeMessage(to: peer).encoded, sink)
    }

    mutating func nodeMessage(to peer: NodeID) -> GroupUpdate {
        var nodeMessage = groups.nodeMessage(for: peer)
        nodeMessage.readsLog = readsLog
        nodeMessage.known = memories[peer]?.learned ?? GroupWord()
        return nodeMessage
    }

    /// Whether a node lacks something of the share groups here, or has not told of its own.
    func isStrange(_ peer: NodeID) -> Bool { groups.isBehind(peer) || memories[peer] == nil }

    mutating func keepGroups(_ sink: some BusSink) {
        let peers = peers
        for name in groups.keep(peers) { carryOut(interest.remove(name.filter), sink) }
        for node in memories.keys.filter({ !peers.contains($0) }).sorted() {
            if memories.removeValue(forKey: node)?.hasGroups ?? false { sink.forget(node) }
        }
    }

    /// Takes what a node tells of its share groups and knows of those here. Who has asked is answered when the whole node knows as much.
    ///
    /// - Parameters:
    ///   - message: nil from a node that knows nothing of share groups.
    ///   - reply: where to answer; empty for nowhere.
    mutating func hear(_ nodeMessage: GroupUpdate?, of peer: NodeID, reply: [UInt8], _ sink: some BusSink) {
        if memories[peer] == nil { lastMemory += 1 }
        // Taken out, so that nothing is copied.
        var memory = memories.removeValue(forKey: peer) ?? GroupMemory(number: lastMemory)
        var news: [GroupNews] = []
        if let nodeMessage {
            groups.heard(nodeMessage.known, of: peer)
            news = memory.take(nodeMessage)
            for index in news.indices { news[index].readsLog = nodeMessage.readsLog }
        } else {
            groups.heardNothing(of: peer)
        }
        memories[peer] = memory
        guard memory.told != memory.learned else {
            if !reply.isEmpty { answer(peer, reply, sink) }
            return
        }
        sink.learn(news, of: peer, GroupReceipt(node: peer, memory: memory.number, word: memory.told, reply: reply))
    }

    /// How many filters the engine is asked for.
    public var askedCount: Int { interest.askedCount }
    /// Whether more comes than is wanted, because there are too many filters.
    public var isInterestCut: Bool { interest.isCut }
    /// The nodes that have not answered the fence under way, sorted.
    public var waitingFor: [NodeID] { fences.waitingFor }
}
