/// What the engine is asked for, and whether the other nodes have heard of it.
extension BusLane {
    @discardableResult
    mutating func ask(_ subject: [UInt8], _ sink: some BusSink) -> UInt64 {
        lastIdentifier += 1
        sink.subscribe(subject, identifier: lastIdentifier)
        return lastIdentifier
    }

    /// Returns whether the engine has been asked for something new.
    @discardableResult
    mutating func carryOut(_ changes: [InterestTable.Change], _ sink: some BusSink) -> Bool {
        guard state != .detached else { return false }
        var isAsked = false
        for change in changes {
            switch change {
            case .add(let filter):
                let subjects = space.subjects(of: filter)
                identifiers[filter] = subjects.map { ask($0, sink) }
                if !subjects.isEmpty { isAsked = true }
            case .drop(let filter):
                for identifier in identifiers.removeValue(forKey: filter) ?? [] { sink.unsubscribe(identifier) }
            }
        }
        return isAsked
    }

    // MARK: Fences

    var peers: Set<NodeID> { (listed ?? []).union(arrived) }

    /// Begins the fence that opens the lane; nothing happens until the list of nodes is known.
    mutating func join(now: UInt64, _ sink: some BusSink) {
        guard listed != nil else { return }
        begin(now: now, sink)
        settle(now: now, sink)
    }

    mutating func begin(now: UInt64, _ sink: some BusSink) {
        fenceVersion = groups.version
        fences.begin(peers, now: now)
        askAll(sink)
    }

    mutating func askAll(_ sink: some BusSink) {
        for peer in fences.waitingFor { ask(peer, sink) }
    }

    mutating func ask(_ peer: NodeID, _ sink: some BusSink) {
        guard let number = fences.currentNumber else { return }
        let question = state == .joining ? space.arrival(to: peer) : space.fence(to: peer)
        sendNodeMessage(question, reply: space.answer(to: node, from: peer, fence: number), nodeMessage(to: peer).encoded, sink)
    }

    mutating func take(
        _ nodeMessage: SubjectSpace.NodeMessage, reply: UnsafeRawBufferPointer, isNobodyThere: Bool,
        _ payload: UnsafeRawBufferPointer,
        now: UInt64, _ sink: some BusSink
    ) {
        let told = isNobodyThere ? nil : GroupUpdate(reading: payload)
        guard isNobodyThere || payload.isEmpty || told != nil else {
            counters.illegible += 1
            return
        }
        switch nodeMessage {
        case .fence, .arrival:
            guard case (let peer, .answer(let asked, _))? = space.nodeMessage(reply), asked == node else {
                counters.illegible += 1
                return
            }
            if listed?.contains(peer) != true { arrived.insert(peer) }
            fences.heard(peer)
            hear(told, of: peer, reply: Array(reply), sink)
            // What it was asked on an earlier connection may have been lost with that.
            if nodeMessage == .arrival, fences.waitingFor.contains(peer) { ask(peer, sink) }
            if nodeMessage == .arrival, groups.isBehind(peer) {
                _ = fences.need()
                settle(now: now, sink)
            }
        case .answer(let peer, let number):
            if isNobodyThere {
                if fences.absent(peer, number, now: now) { arrived.remove(peer) }
            } else {
                let before = groups.known(to: peer)
                hear(told, of: peer, reply: [], sink)
                let known = groups.known(to: peer)
                if groups.knowsAll(peer, through: fenceVersion) {
                    fences.answered(peer, number)
                } else if known != before, fences.waitingFor.contains(peer) {
                    ask(peer, sink)
                }
            }
            settle(now: now, sink)
        }
    }

    /// Opens the lane if it has joined, begins the next fence if one is wanted, and tells what is in force.
    mutating func settle(now: UInt64, _ sink: some BusSink) {
        guard state != .detached, listed != nil else { return tell(sink) }
        if state == .joining, fences.currentNumber == nil {
            state = .open
            for message in held { leave(message, sink) }
            (held, heldBytes) = ([], 0)
            sink.opened()
        }
        while fences.currentNumber == nil, fences.last > fences.complete { begin(now: now, sink) }
        keepGroups(sink)
        if fences.currentNumber != nil || !peers.contains(where: isStrange) {
            tellsAgainAt = nil
        } else if tellsAgainAt == nil {
            tellsAgainAt = now + Limits.fenceRepeatMilliseconds
        }
        tell(sink)
    }

    mutating func tell(_ sink: some BusSink) {
        guard fences.complete > told else { return }
        told = fences.complete
        let complete = fences.complete
        groupTickets = groupTickets.filter { $0.value > complete }
        sink.confirm(through: told)
    }
}
