import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// Sessions that come to this node.
extension SessionCoordinator {
    /// Goes on when all earlier owners of the session have stopped or are gone: fetches it from the one that has it.
    func settled(_ session: [UInt8]) {
        guard var visit = visits[session], let epoch = visit.record?.epoch else { return }
        let missing = missing(visit)
        if let missing, isAwaited(missing) {
            // A sink does not call its owner.
            visits[session]?.awaits = missing
            ticksAt = now
            return
        }
        guard hasSeenToWills(session, visit) else { return }
        if visit.claim.cleanStart, !hasForgotten(session, visit, .nowhere) { return }
        if let saved = saved(visit), let last = gone(visit) ?? (visit.claim.cleanStart ? nil : forsaken(visit, saved)) {
            return restore(session, saved, from: last, epoch: epoch)
        }
        if !visit.claim.cleanStart, let source = visit.source {
            visit.stage = .fetching(SessionVisit.Fetch(source: source.node, offer: source.offer, asksAt: now))
            visits[session] = visit
            log(
                .information,
                "the session of client \(Self.name(session)), by claim \(epoch), comes from node \(context.shownName(of: source.node)), which kept it by \(source.offer.epoch)."
            )
            post(.sessionClaimed(session, .arriving, epoch: epoch), to: visit.shard)
            return fetch(session)
        }
        let origin = origin(visit)
        guard hasForgotten(session, visit, origin) else { return }
        log(.information, "the session of client \(Self.name(session)) is this node's by claim \(epoch): \(origin).")
        visits[session] = nil
        if departures.removeValue(forKey: session) != nil { post(.sessionStays(session), to: visit.shard) }
        drop(session, visit)
        if let missing, !visit.claim.hasSession {
            counters.lost += 1
            log(
                .warning,
                "client \(Self.name(session)) begins a new session: the node that kept its session, \(context.shownName(of: missing)), is gone."
            )
        }
        post(.sessionClaimed(session, origin, epoch: epoch), to: visit.shard)
    }

    /// The cluster's copy of a session, if it is newer than what any node that is there has. Of a session that ends,
    /// the copy is used if share groups may have dispatched messages to it: those go to others when it ends here.
    private func saved(_ visit: SessionVisit) -> SessionRecord.Saved? {
        guard let saved = visit.record?.saved ?? visit.ended, !visit.claim.cleanStart || SavedSession.isMember(state: saved.state)
        else { return nil }
        let own = visit.claim.hasSession ? visit.claim.epoch : 0
        return saved.epoch > max(own, visit.source?.offer.epoch ?? 0) ? saved : nil
    }

    /// The node that had a session last, if no node has it any more: others have claimed it since it was saved, and
    /// have not fetched it. nil if somebody may have it, or if who has saved it says now that it has ended.
    private func forsaken(_ visit: SessionVisit, _ saved: SessionRecord.Saved) -> NodeID? {
        guard let found = visit.found, found.epoch > saved.epoch, !visit.claim.hasSession, visit.source == nil else { return nil }
        return found.owners.last?.node
    }

    /// Whether nothing in the record is of a session that ends with this CONNECT; if not, that is begun. A new session
    /// that ends with its connection is not stored itself.
    private func hasForgotten(_ session: [UInt8], _ visit: SessionVisit, _ origin: SessionOrigin) -> Bool {
        let beginsAnew = visit.claim.cleanStart || origin == .nowhere || !visit.claim.hasSession
        guard visit.claim.expiryInterval == 0, beginsAnew, let record = visit.record,
            record.expiryInterval > 0 || record.saved != nil
        else { return true }
        visits[session]?.ended = record.saved
        // A sink does not call its owner.
        visits[session]?.wills = .forgetting
        ticksAt = now
        return false
    }

    /// Restores a session from the cluster's copy, and has the log read for it from there on.
    func restore(_ session: [UInt8], _ saved: SessionRecord.Saved, from missing: NodeID, epoch: UInt64) {
        guard let visit = visits[session] else { return }
        let offer = SessionAnswer.Offer(number: 0, epoch: saved.epoch)
        visits[session]?.stage = .fetching(SessionVisit.Fetch(source: missing, offer: offer, isLast: true, isRestored: true))
        counters.restored += 1
        departures[session] = nil
        let fate = visit.offers[missing.store] == nil ? "is gone" : "has nothing of it"
        log(
            .notice,
            "the session of client \(Self.name(session)) is restored by claim \(epoch) from what the cluster has stored by claim "
                + "\(saved.epoch): the node that kept it, \(context.shownName(of: missing)), \(fate).")
        post(.sessionClaimed(session, .arriving, epoch: epoch), to: visit.shard)
        // What is no chunk is told as illegible.
        let piece = SavedSession.piece(state: saved.state, places: saved.places, isOver: visit.hasExpired)
        post(.sessionArrives(session, piece ?? SessionChunk(number: 0, isLast: true, bytes: [0])), to: visit.shard)
    }

    /// Whether this node's own copy of a session counts, because no other node has a newer one.
    private func origin(_ visit: SessionVisit) -> SessionOrigin {
        guard let previous = visit.previous else {
            // The record of what this node has was removed, unless the servers have lost them all: the session has
            // ended elsewhere.
            let hasEnded =
                visit.claim.hasSession && visit.claim.epoch > 0 && records.createdAt.map { $0 < visit.claim.epoch } == true
            return hasEnded ? .nowhere : .here
        }
        if visit.hasExpired { return .nowhere }
        guard previous.owners[0].node.store != node.store else { return .here }
        guard visit.claim.hasSession, !visit.claim.cleanStart else { return .nowhere }
        // Whoever has claimed it since has never got what this node has, or has found this node gone and began without
        // it.
        return previous.owners.contains { $0.node.store == node.store } ? .here : .nowhere
    }

    func fetch(_ session: [UInt8]) {
        guard let visit = visits[session], case .fetching(var fetch) = visit.stage, fetch.isLast == nil,
            let epoch = visit.record?.epoch
        else { return }
        fetch.asksAt = nil
        visits[session]?.stage = .fetching(fetch)
        let nodeMessage = SessionMessage(
            .fetch(offer: fetch.offer.number, number: fetch.number), node: node, epoch: epoch, identifier: session)
        // A node that was started again with that store answers for the one that was asked.
        let incarnations = incarnations(of: fetch.source.store)
        for incarnation in incarnations.isEmpty ? [fetch.source] : incarnations { send(nodeMessage, to: incarnation) }
    }

    /// The incarnations of a node that may be there: the last one counts as alive until its lease has ended, also if
    /// the next one is.
    private func incarnations(of store: UInt32) -> [NodeID] { live.filter { $0.store == store }.sorted() }

    /// Takes a chunk of a session from another node.
    func took(_ session: [UInt8], _ nodeMessage: SessionMessage, _ answer: SessionAnswer?, from other: NodeID) {
        guard let visit = visits[session], case .fetching(var fetch) = visit.stage, visit.record?.epoch == nodeMessage.epoch,
            nodeMessage.kind == .fetch(offer: fetch.offer.number, number: fetch.number), fetch.isLast == nil
        else { return }
        switch answer {
        case .piece(let number, let isLast, let bytes) where number == fetch.number:
            fetch.isLast = isLast
            visits[session]?.stage = .fetching(fetch)
            visits[session]?.progressAt = now
            post(.sessionArrives(session, SessionChunk(number: number, isLast: isLast, bytes: bytes)), to: visit.shard)
        case .unknown:
            // It was started again, or has waited for too long: from the beginning.
            visits[session]?.offers[other.store] = nil
            visits[session]?.stage = .fetching(fetch)
            askToStop(session, from: other, epoch: nodeMessage.epoch)
        case .piece, .stopped, .dropped, nil:
            fetch.asksAt = now + Limits.sessionTickMilliseconds
            visits[session]?.stage = .fetching(fetch)
        }
    }

    /// Takes note that another node has stopped, and of what it offers of the session.
    func stopped(_ session: [UInt8], offer: SessionAnswer.Offer?, hasSettledWills: Bool, epoch: UInt64, by other: NodeID) {
        guard let visit = visits[session] else {
            guard left.isHandling(session) else {
                guard unsettled[session]?.epoch == epoch else { return }
                // Its client is in already, and needs nothing of it.
                owner?.hasStopped(other, session, epoch: epoch, self)
                if offer != nil { send(SessionMessage(.drop, node: node, epoch: epoch, identifier: session), to: other) }
                return
            }
            // Nobody has come for it here: what the other has stays there, and counts if it is newer.
            if let offer {
                send(SessionMessage(.stay, node: node, epoch: epoch, identifier: session), to: other)
                if offer.epoch > adoptions[session] ?? .max { adoptions[session] = .max }
            }
            owner?.hasStopped(other, session, epoch: epoch, self)
            return
        }
        if hasSettledWills, other == visit.found?.owners[0].node { visits[session]?.hasSettledWills = true }
        visits[session]?.offers[other.store] = (other, offer)
        visits[session]?.progressAt = now
        if case .fetching(let fetch) = visit.stage {
            guard fetch.source.store == other.store, fetch.offer != offer, !fetch.isRestored else { return }
            return settled(session)
        }
        owner?.hasStopped(other, session, epoch: epoch, self)
    }

    /// Goes on when a chunk is durable here.
    func arrived(_ session: [UInt8], _ number: Int) {
        guard let visit = visits[session], case .fetching(var fetch) = visit.stage, fetch.number == number,
            let isLast = fetch.isLast
        else { return }
        visits[session]?.progressAt = now
        guard isLast else {
            fetch.number += 1
            (fetch.isLast, fetch.asksAt) = (nil, now)
            visits[session]?.stage = .fetching(fetch)
            return self.fetch(session)
        }
        counters.taken += 1
        visits[session]?.stage = .replaying
        departures[session] = nil
        drop(session, visit)
    }

    func illegible(_ session: [UInt8]) {
        guard let visit = visits[session] else { return }
        if case .fetching(let fetch) = visit.stage, fetch.isRestored, let epoch = visit.record?.epoch {
            counters.lost += 1
            log(.error, "client \(Self.name(session)) begins a new session: what the cluster has stored of it cannot be read.")
            visits[session] = nil
            drop(session, visit)
            return post(.sessionClaimed(session, .nowhere, epoch: epoch), to: visit.shard)
        }
        giveUp(session, visit, "what another node has sent of the session cannot be read")
    }

    /// Gives a claim up: tells the client why, and the nodes that have stopped that they may go on.
    func giveUp(_ session: [UInt8], _ visit: SessionVisit, _ words: String) {
        visits[session] = nil
        owner?.release(session)
        replay.forget(session)
        fail(session, visit, words)
        // What is due of it while its client does not come again, this node sees to.
        if let record = visit.record { left.record(session, dutyAt: record.dutyAt) }
        guard let epoch = visit.record?.epoch else { return }
        for (_, found) in visit.offers.sorted(by: { $0.key < $1.key }) where found.offer != nil {
            send(SessionMessage(.stay, node: node, epoch: epoch, identifier: session), to: found.node)
        }
    }

    func fail(_ session: [UInt8], _ visit: SessionVisit, _ words: String) {
        // Many wait for one node.
        let isTold = !visit.isForNobody && visit.awaits.map { awaited.refuses(for: $0, now: now) } ?? true
        if !visit.isForNobody {
            counters.refused += 1
            if isTold { log(.warning, "client \(Self.name(session)) is refused: \(words).") }
        }
        post(.claimFailed(session, "\(words).", isTold: isTold), to: visit.shard)
    }

    func tickVisits() {
        for session in visits.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            guard let visit = visits[session] else { continue }
            if let missing = visit.awaits {
                giveUp(
                    session, visit,
                    "the node that has its session, \(context.shownName(of: missing)), is not there; it is waited for")
                continue
            }
            switch (visit.stage, visit.wills) {
            case (_, .owed): publishOwedWills(of: session, visit)
            case (_, .forgetting): forgetSession(of: session)
            // It is stored, and the owner is done.
            case (.claiming, .cleared):
                settled(session)
                continue
            default: break
            }
            switch visit.stage {
            case .replaying: continue
            case .fetching(let fetch):
                if let asksAt = fetch.asksAt, asksAt <= now { self.fetch(session) }
            case .waiting, .claiming: break
            }
            guard now >= visit.progressAt + Limits.sessionClaimMillisecondsMax else { continue }
            giveUp(session, visit, trouble(visit))
        }
    }

    private func trouble(_ visit: SessionVisit) -> String {
        switch visit.stage {
        case .waiting: "this node has no lease, so it cannot claim the session"
        case .claiming:
            if let last = visit.previous?.owners[0].node, last.store != node.store, visit.offers[last.store] == nil {
                "the node that keeps its session (\(last)) does not answer, and has not ended"
            } else {
                "the servers do not answer who has its session"
            }
        case .fetching(let fetch): "the node that has kept its session (\(fetch.source)) does not give it"
        case .replaying: "the log does not answer"
        }
    }

    // MARK: What others are to forget

    /// Tells the nodes that have something of a session that is here now, and those that may come back with it, to drop
    /// it.
    private func drop(_ session: [UInt8], _ visit: SessionVisit) {
        guard let epoch = visit.record?.epoch else { return }
        let ticket = context.lastTicket
        let before = drops.count
        for (store, found) in visit.offers.sorted(by: { $0.key < $1.key }) where found.offer != nil {
            drops.append(SessionDrop(session: session, epoch: epoch, store: store, ticket: ticket))
        }
        for owner in visit.previous?.owners ?? []
        where owner.node.store != node.store && visit.offers[owner.node.store] == nil {
            drops.append(SessionDrop(session: session, epoch: epoch, store: owner.node.store, ticket: ticket))
        }
        let added = drops.count - before
        if drops.count > Limits.sessionDropsMax { drops.removeFirst(drops.count - Limits.sessionDropsMax) }
        var bytes = drops.reduce(0) { $0 + $1.session.count }
        while bytes > Limits.sessionNameBytesMax { bytes -= drops.removeFirst().session.count }
        sendDrops(from: max(0, drops.count - added))
    }

    /// - Parameter first: those before it were looked at.
    func sendDrops(from first: Int = 0) {
        guard connection.isReady, first < drops.count else { return }
        let incarnations = Dictionary(grouping: live.sorted(), by: \.store)
        for index in first..<drops.count where drops[index].asksAt <= now {
            guard let incarnations = incarnations[drops[index].store], context.isInForce(drops[index].ticket) else { continue }
            drops[index].asksAt = now + Limits.sessionMessageMillisecondsMax
            let drop = drops[index]
            for incarnation in incarnations {
                send(SessionMessage(.drop, node: node, epoch: drop.epoch, identifier: drop.session), to: incarnation)
            }
        }
    }
}

/// What a node is to forget.
struct SessionDrop {
    let session: [UInt8]
    let epoch: UInt64
    let store: UInt32
    /// When all nodes know that, they know of the session's share groups here: up to then the other one stays a member
    /// in its place.
    let ticket: UInt64
    var asksAt: UInt64 = 0
}
