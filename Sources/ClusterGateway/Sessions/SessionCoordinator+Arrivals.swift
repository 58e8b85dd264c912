import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// Sessions that come to this node.
extension SessionCoordinator {
    /// Goes on when all earlier owners of the session have stopped or are gone: fetches it from the one that has it.
    func settled(_ session: [UInt8]) {
        guard var visit = sessions[session].coming, let epoch = visit.record?.epoch else { return }
        let missing = missing(visit)
        if let missing, isAwaited(missing) {
            // A sink does not call its owner.
            sessions[session].coming?.awaits = missing
            ticksAt = now
            return
        }
        guard hasSeenToWills(session, visit) else { return }
        if visit.claim.cleanStart, !hasForgotten(session, visit, .nowhere) { return }
        if let saved = saved(visit), let last = gone(visit) ?? (visit.claim.cleanStart ? nil : forsaken(visit, saved)) {
            return restore(session, saved, from: last, epoch: epoch)
        }
        if !visit.claim.cleanStart, let source = visit.source {
            visit.stage = .fetching(IncomingSession.Fetch(source: source.node, offer: source.offer, asksAt: now))
            sessions[session].coming = visit
            log(
                .information,
                "the session of client \(Self.name(session)), by claim \(epoch), comes from node \(context.shownName(of: source.node)), which kept it by \(source.offer.epoch)."
            )
            post(.sessionClaimed(session, .arriving, epoch: epoch), of: session)
            return fetch(session)
        }
        let origin = origin(visit)
        guard hasForgotten(session, visit, origin) else { return }
        log(.information, "the session of client \(Self.name(session)) is this node's by claim \(epoch): \(origin).")
        sessions[session].coming = nil
        if sessions.take(\.going, of: session) != nil { post(.sessionStays(session), of: session) }
        drop(session, visit)
        if let missing, !visit.claim.hasSession {
            counters.lost += 1
            log(
                .warning,
                "client \(Self.name(session)) begins a new session: the node that kept its session, \(context.shownName(of: missing)), is gone."
            )
        }
        post(.sessionClaimed(session, origin, epoch: epoch), of: session)
    }

    /// The cluster's copy of a session, if it is newer than what any node that is there has. Of a session that ends,
    /// the copy is used if share groups may have dispatched messages to it: those go to others when it ends here.
    private func saved(_ visit: IncomingSession) -> SessionRecord.Saved? {
        guard let saved = visit.record?.saved ?? visit.ended, !visit.claim.cleanStart || SavedSession.isMember(state: saved.state)
        else { return nil }
        let own = visit.claim.hasSession ? visit.claim.epoch : 0
        return saved.epoch > max(own, visit.source?.offer.epoch ?? 0) ? saved : nil
    }

    /// The node that had a session last, if no node has it any more: others have claimed it since it was saved, and
    /// have not fetched it. nil if somebody may have it, or if who has saved it says now that it has ended.
    private func forsaken(_ visit: IncomingSession, _ saved: SessionRecord.Saved) -> NodeID? {
        guard let found = visit.found, found.epoch > saved.epoch, !visit.claim.hasSession, visit.source == nil else { return nil }
        return found.owners.last?.node
    }

    /// Whether nothing in the record is of a session that ends with this CONNECT; if not, that is begun. A new session
    /// that ends with its connection is not stored itself.
    private func hasForgotten(_ session: [UInt8], _ visit: IncomingSession, _ origin: SessionOrigin) -> Bool {
        let beginsAnew = visit.claim.cleanStart || origin == .nowhere || !visit.claim.hasSession
        guard visit.claim.expiryInterval == 0, beginsAnew, let record = visit.record,
            record.expiryInterval > 0 || record.saved != nil
        else { return true }
        sessions[session].coming?.ended = record.saved
        // A sink does not call its owner.
        sessions[session].coming?.wills = .forgetting
        ticksAt = now
        return false
    }

    /// Restores a session from the cluster's copy, and has the log read for it from there on.
    func restore(_ session: [UInt8], _ saved: SessionRecord.Saved, from missing: NodeID, epoch: UInt64) {
        guard let visit = sessions[session].coming else { return }
        let offer = SessionAnswer.Offer(number: 0, epoch: saved.epoch)
        sessions[session].coming?.stage = .fetching(
            IncomingSession.Fetch(source: missing, offer: offer, isLast: true, isRestored: true))
        counters.restored += 1
        sessions[session].going = nil
        let fate = visit.offers[missing.store] == nil ? "is gone" : "has nothing of it"
        log(
            .notice,
            "the session of client \(Self.name(session)) is restored by claim \(epoch) from what the cluster has stored by claim "
                + "\(saved.epoch): the node that kept it, \(context.shownName(of: missing)), \(fate).")
        post(.sessionClaimed(session, .arriving, epoch: epoch), of: session)
        // What is no chunk is told as illegible.
        let piece = SavedSession.piece(
            state: saved.state, places: context.positions(of: session, saved), epoch: saved.epoch, isOver: visit.hasExpired)
        post(.sessionArrives(session, piece ?? SessionChunk(number: 0, isLast: true, bytes: [0])), of: session)
    }

    /// Whether this node's own copy of a session counts, because no other node has a newer one.
    private func origin(_ visit: IncomingSession) -> SessionOrigin {
        guard let found = visit.found else {
            // The record of what this node has was removed, unless the servers have lost them all: the session has
            // ended elsewhere.
            let hasEnded =
                visit.claim.hasSession && visit.claim.epoch > 0 && records.createdAt.map { $0 < visit.claim.epoch } == true
            return hasEnded ? .nowhere : .here
        }
        if visit.hasExpired { return .nowhere }
        guard found.owners[0].node.store != node.store else { return .here }
        guard visit.claim.hasSession, !visit.claim.cleanStart else { return .nowhere }
        // Whoever has claimed it since has never got what this node has, or has found this node gone and began without
        // it.
        return found.owners.contains { $0.node.store == node.store } ? .here : .nowhere
    }

    func fetch(_ session: [UInt8]) {
        guard let visit = sessions[session].coming, case .fetching(var fetch) = visit.stage, fetch.isLast == nil,
            let epoch = visit.record?.epoch
        else { return }
        fetch.asksAt = nil
        sessions[session].coming?.stage = .fetching(fetch)
        let nodeMessage = SessionMessage(
            .fetch(offer: fetch.offer.number, number: fetch.number), node: node, epoch: epoch, identifier: session)
        // A node that was started again with that store answers for the one that was asked.
        let incarnations = nodes.incarnations(of: fetch.source.store)
        for incarnation in incarnations.isEmpty ? [fetch.source] : incarnations { send(nodeMessage, to: incarnation) }
    }

    /// Takes a chunk of a session from another node.
    func took(_ session: [UInt8], _ nodeMessage: SessionMessage, _ answer: SessionAnswer?, from other: NodeID) {
        guard let visit = sessions[session].coming, case .fetching(var fetch) = visit.stage,
            visit.record?.epoch == nodeMessage.epoch,
            nodeMessage.kind == .fetch(offer: fetch.offer.number, number: fetch.number), fetch.isLast == nil
        else { return }
        switch answer {
        case .piece(let number, let isLast, let bytes) where number == fetch.number:
            fetch.isLast = isLast
            sessions[session].coming?.stage = .fetching(fetch)
            sessions[session].coming?.progressAt = now
            post(.sessionArrives(session, SessionChunk(number: number, isLast: isLast, bytes: bytes)), of: session)
        case .unknown:
            // It was started again, or has waited for too long: from the beginning.
            sessions[session].coming?.offers[other.store] = nil
            sessions[session].coming?.stage = .fetching(fetch)
            askToStop(session, from: other, epoch: nodeMessage.epoch)
        case .piece, .stopped, .dropped, nil:
            fetch.asksAt = now + Limits.sessionTickMilliseconds
            sessions[session].coming?.stage = .fetching(fetch)
        }
    }

    /// Takes note that another node has stopped, and of what it offers of the session.
    func stopped(_ session: [UInt8], offer: SessionAnswer.Offer?, hasSettledWills: Bool, epoch: UInt64, by other: NodeID) {
        guard let visit = sessions[session].coming else {
            guard left.isHandling(session) else {
                guard sessions[session].unsettled?.epoch == epoch else { return }
                // Its client is in already, and needs nothing of it.
                owner?.hasStopped(other, session, epoch: epoch, self)
                if offer != nil { send(SessionMessage(.drop, node: node, epoch: epoch, identifier: session), to: other) }
                return
            }
            // Nobody has come for it here: what the other has stays there, and counts if it is newer.
            if let offer {
                send(SessionMessage(.stay, node: node, epoch: epoch, identifier: session), to: other)
                if offer.epoch > sessions[session].adoption.oldest ?? .max { sessions[session].adoption.oldest = .max }
            }
            owner?.hasStopped(other, session, epoch: epoch, self)
            return
        }
        // A late answer to an earlier claim says nothing of what it has kept since.
        if hasSettledWills, epoch == owner?.epoch(of: session), other == visit.found?.owners[0].node {
            sessions[session].coming?.hasSettledWills = true
        }
        sessions[session].coming?.offers[other.store] = (other, offer)
        sessions[session].coming?.progressAt = now
        if case .fetching(let fetch) = visit.stage {
            guard fetch.source.store == other.store, fetch.offer != offer, !fetch.isRestored else { return }
            return settled(session)
        }
        owner?.hasStopped(other, session, epoch: epoch, self)
    }

    /// Goes on when a chunk is durable here.
    func arrived(_ session: [UInt8], _ number: Int) {
        guard let visit = sessions[session].coming, case .fetching(var fetch) = visit.stage, fetch.number == number,
            let isLast = fetch.isLast
        else { return }
        sessions[session].coming?.progressAt = now
        guard isLast else {
            fetch.number += 1
            (fetch.isLast, fetch.asksAt) = (nil, now)
            sessions[session].coming?.stage = .fetching(fetch)
            return self.fetch(session)
        }
        counters.taken += 1
        sessions[session].coming?.stage = .replaying
        sessions[session].going = nil
        drop(session, visit)
    }

    func illegible(_ session: [UInt8]) {
        guard let visit = sessions[session].coming else { return }
        if case .fetching(let fetch) = visit.stage, fetch.isRestored, let epoch = visit.record?.epoch {
            counters.lost += 1
            log(.error, "client \(Self.name(session)) begins a new session: what the cluster has stored of it cannot be read.")
            sessions[session].coming = nil
            drop(session, visit)
            return post(.sessionClaimed(session, .nowhere, epoch: epoch), of: session)
        }
        giveUp(session, visit, "what another node has sent of the session cannot be read")
    }

    /// Gives a claim up: tells the client why, and the nodes that have stopped that they may go on.
    func giveUp(_ session: [UInt8], _ visit: IncomingSession, _ words: String) {
        sessions[session].coming = nil
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

    func fail(_ session: [UInt8], _ visit: IncomingSession, _ words: String) {
        // Many wait for one node.
        let isTold = !visit.isForNobody && visit.awaits.map { nodes.awaited.refuses(for: $0, now: now) } ?? true
        if !visit.isForNobody {
            counters.refused += 1
            if isTold { log(.warning, "client \(Self.name(session)) is refused: \(words).") }
        }
        post(.claimFailed(session, "\(words).", isTold: isTold), of: session)
    }

    func tickVisits() {
        for session in sessions.names(with: .coming) {
            guard let visit = sessions[session].coming else { continue }
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
            case .waiting: connect(session)
            case .claiming: break
            }
            guard now >= visit.progressAt + Limits.sessionClaimMillisecondsMax else { continue }
            giveUp(session, visit, trouble(visit))
        }
    }

    private func trouble(_ visit: IncomingSession) -> String {
        switch visit.stage {
        case .waiting: "this node has no lease, so it cannot claim the session"
        case .claiming:
            if let last = visit.found?.owners[0].node, last.store != node.store, visit.offers[last.store] == nil {
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
    private func drop(_ session: [UInt8], _ visit: IncomingSession) {
        guard let epoch = visit.record?.epoch else { return }
        let ticket = context.lastTicket
        var added: [SessionDrop] = []
        for (store, found) in visit.offers.sorted(by: { $0.key < $1.key }) where found.offer != nil {
            added.append(SessionDrop(session: session, epoch: epoch, store: store, ticket: ticket))
        }
        for owner in visit.found?.owners ?? []
        where owner.node.store != node.store && visit.offers[owner.node.store] == nil {
            added.append(SessionDrop(session: session, epoch: epoch, store: owner.node.store, ticket: ticket))
        }
        drops.add(added)
        sendDrops(last: added.count)
    }

    /// - Parameter count: so many of those that were added last; all, if it is nil.
    func sendDrops(last count: Int? = nil) {
        guard connection.isReady else { return }
        for drop in drops.due(now: now, last: count, { !nodes.incarnations(of: $0.store).isEmpty && context.isInForce($0.ticket) })
        {
            for incarnation in nodes.incarnations(of: drop.store) {
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

/// What other nodes are to forget, until they say that they have.
///
/// Invariant: at most `Limits.sessionDropsMax`, whose names have `Limits.sessionNameBytesMax`: the oldest are given up.
/// Belongs to a `SessionCoordinator`.
struct SessionDrops {
    private(set) var waiting: [SessionDrop] = []
    private var byteCount = 0

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ drops: [SessionDrop]) {
        waiting += drops
        byteCount += drops.reduce(0) { $0 + $1.session.count }
        var count = 0
        while waiting.count - count > Limits.sessionDropsMax || byteCount > Limits.sessionNameBytesMax {
            byteCount -= waiting[count].session.count
            count += 1
        }
        waiting.removeFirst(count)
    }

    mutating func remove(_ session: [UInt8]) { removeAll { $0.session == session } }

    mutating func remove(_ session: [UInt8], epoch: UInt64, store: UInt32) {
        removeAll { $0.session == session && $0.epoch == epoch && $0.store == store }
    }

    private mutating func removeAll(where isMeant: (SessionDrop) -> Bool) {
        waiting.removeAll { drop in
            guard isMeant(drop) else { return false }
            byteCount -= drop.session.count
            return true
        }
    }

    /// Those that are to be asked for now, which are due again when no answer has come.
    ///
    /// - Parameters:
    ///   - now: milliseconds.
    ///   - count: of how many that were added last; nil for all.
    ///   - mayBeAsked: whether somebody can be asked for it.
    mutating func due(now: UInt64, last count: Int? = nil, _ mayBeAsked: (SessionDrop) -> Bool) -> [SessionDrop] {
        var due: [SessionDrop] = []
        for index in waiting.indices.suffix(count ?? waiting.count) where waiting[index].asksAt <= now && mayBeAsked(waiting[index])
        {
            waiting[index].asksAt = now + Limits.sessionMessageMillisecondsMax
            due.append(waiting[index])
        }
        return due
    }
}
