import BrokerModel
public import MQTTCodec

/// Sessions that are the cluster's: a client that comes waits until this node keeps its session.
///
///     CONNECT ─► claim ─► sendClaim ─► ToCluster.claim
///                CONNACK ◄─ admit ◄─ claim ◄─ open ◄─┬─ sessionClaimed
///                                                    ├─ its chunks are durable
///                                                    ├─ it has what it lacked of the log
///                                                    └─ its mark is read, or all that this node had put into the log
extension Connecting {
    /// This node keeps a session from now on.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - origin: where the newest of it is.
    ///   - epoch: tells this claim from earlier ones, which have lower numbers. A claim counts once.
    func sessionClaimed(_ identifier: [UInt8], _ origin: SessionOrigin, epoch: UInt64 = 0) {
        guard let moves = shard.cluster?.moves, let name = EncodedString(identifier) else { return }
        let session = shard.sessions.find(name)
        // A claim counts once.
        if let session, session.cluster.isClaimed, session.cluster.epoch == epoch, epoch != 0 {
            if moves[name].sessionImport == nil { keep(name, by: epoch, moves) }
            return
        }
        switch origin {
        case .here:
            if let session, session.export != nil { shard.departures.stay(session, moves) }
            if let session, moves[name].sessionImport?.isWhole == false { discard(session) }
            keep(name, by: epoch, moves)
        case .nowhere:
            // What its client had here, it ends itself, with its will.
            let endsItself = session?.cluster.isClaimed == true && moves[name].claim?.cleanStart == true
            if let session, !endsItself { discard(session) }
            moves[name].sessionImport = nil
            keep(name, by: epoch, moves)
        case .arriving:
            if let session { discard(session) }
            (moves[name].sessionImport, moves[name].claimedBy) = (SessionImport(epoch: epoch), epoch)
        }
    }

    /// Nobody can say who keeps a session: whoever waits for it is refused with Server unavailable. Of a session that
    /// has not arrived as a whole nothing is left.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - explanation: why.
    ///   - isTold: whether the log tells of it.
    func claimFailed(_ identifier: [UInt8], _ explanation: String, isTold: Bool = true) {
        guard let moves = shard.cluster?.moves, let name = EncodedString(identifier) else { return }
        let sessionImport = moves[name].sessionImport
        (moves[name].sessionImport, moves[name].claimedBy, moves[name].isBrought) = (nil, nil, false)
        if let sessionImport, !sessionImport.isWhole, let session = sessionImport.session { discard(session) }
        // Who comes next asks again for what the session lacks.
        shard.sessions.find(name)?.replay?.isAsked = false
        guard let claim = moves.takeClaim(of: name), let connection = shard.connections.find(claim.connection) else { return }
        advance(connection, .claimFailed(ConnectRefusal(.serverUnavailable, explanation, isTold: isTold)))
    }

    func joinMoves(_ port: ClusterPort) {
        let moves = SessionMoves()
        port.moves = moves
        // A message that was received on another node is told by the same digest there.
        for session in shard.sessions.all {
            var known: [UInt16] = []
            session.receivedIdentifiers.forEach { known.append($0) }
            for packetIdentifier in known { _ = session.receivedIdentifiers.insert(packetIdentifier, digest: 0) }
        }
        // What they lacked when the broker ended, they lack still.
        for session in shard.sessions.all where session.isReplaying {
            session.phase = .whole
            let floor = session.logFloor
            session.logFloor = nil
            if let floor { shard.sessionReplay.beginReplay(of: session, from: floor, moves) }
            // What it is given from now on, it does not lack after another crash.
            shard.sessionRows.keep(session)
        }
    }

    /// Whether the cluster is to say that this node keeps the client's session, where sessions are the cluster's.
    func needsClaim(
        _ connect: PendingConnect, _ existing: ExistingSession, _ connection: Connection
    ) throws(ConnectRefusal) -> Bool {
        guard connect.epoch == nil, let cluster = shard.cluster, cluster.moves != nil, !connection.client.isLocal else {
            return false
        }
        guard cluster.isAway else { return true }
        if let session = existing.session, session.isMoving || session.isReplaying {
            throw ConnectRefusal(.serverUnavailable, "the session is not complete, and the cluster cannot be reached.")
        }
        return false
    }

    /// Asks the cluster for the session, unless another connection has done so already, in whose place this one waits.
    func sendClaim(
        _ connect: PendingConnect, _ login: VerifiedLogin, _ existing: ExistingSession, _ connection: Connection
    ) {
        guard let moves = shard.cluster?.moves else { return }
        connect.awaited = .claim
        let identifier = connect.packet.clientIdentifier
        let earlier = moves[identifier].claim
        moves[identifier].claim = ComingSession.Claim(connection: connection.id, cleanStart: connect.packet.cleanStart)
        shard.memoryBound.recount(connection)
        guard let earlier else {
            let claim = SessionClaim(
                identifier: Array(identifier.bytes), expiryInterval: expiryInterval(of: connect),
                cleanStart: existing.endsSession, hasSession: existing.session != nil, epoch: existing.session?.cluster.epoch ?? 0,
                userName: login.userName, mountPoint: connect.mountPoint)
            shard.effects.append(.cluster(.claim(claim)))
            return
        }
        // Nothing may come before CONNACK, which knows no Session taken over: it was never connected. [MQTT-3.2.0-1 v5]
        guard earlier.connection != connection.id, let old = shard.connections.find(earlier.connection) else { return }
        advance(old, .claimFailed(ConnectRefusal(.serverUnavailable, "another connection uses this Client Identifier.")))
    }

    /// A client does not wait for its session any more: who comes next asks again.
    func forgetClaim(of connect: PendingConnect, _ connection: Connection) {
        guard let moves = shard.cluster?.moves, moves[connect.packet.clientIdentifier].claim?.connection == connection.id else {
            return
        }
        moves[connect.packet.clientIdentifier].claim = nil
    }

    /// This node keeps a session by a claim, and all of it is here but for what it lacks of the log.
    func keep(_ name: EncodedString, by epoch: UInt64, _ moves: SessionMoves) {
        guard let session = shard.sessions.find(name) else { return admit(name, by: epoch, moves) }
        recordClaim(of: session, by: epoch, moves)
        // Who asks again may do so because the mark was lost.
        if session.replay?.restoration?.phase == .awaitingMark || session.opening.mark != nil && moves[name].claimedBy != nil {
            shard.clusterLogReading.mark(session, moves)
        }
        moves[name].claimedBy = epoch
        open(session, moves)
    }

    private func recordClaim(of session: Session, by epoch: UInt64, _ moves: SessionMoves) {
        session.cluster.isClaimed = true
        if session.cluster.epoch != epoch {
            session.cluster.epoch = epoch
            shard.moves.nameWill(of: session, moves)
            shard.sessionRows.keep(session)
        }
        shard.saves.markClaimed(of: session, moves)
    }

    /// Lets the client of a session in that this node keeps, or whoever waits for it go on, if all of it is here; else
    /// has it given what it lacks. To be called whenever something of that has come. Wherever a session comes from, it
    /// is opened here:
    ///
    ///     its chunks are durable ─► it has been given the log ─► nothing of its flows is unknown ─► open
    func open(_ session: Session, _ moves: SessionMoves) {
        let name = session.clientIdentifier
        guard let epoch = moves[name].claimedBy, moves[name].sessionImport == nil else { return }
        if let replay = session.replay { return shard.sessionReplay.ask(for: replay) }
        moves.hasNews = true
        guard session.cluster.isClaimed, session.cluster.epoch == epoch else {
            return failClaim(of: name, moves, "this node does not keep the session any more.")
        }
        recordClaim(of: session, by: epoch, moves)
        let isBrought = moves[name].isBrought
        moves[name].isBrought = false
        if !shard.clusterLogReading.awaitsLog(session) { admit(name, by: epoch, moves) }
        if isBrought { shard.effects.append(.cluster(.restored(identifier: Array(name.bytes)))) }
    }

    /// Opens the sessions that have waited for something of the whole node.
    func openAll(_ moves: SessionMoves) {
        for name in moves.claimed {
            if let session = shard.sessions.find(name) {
                open(session, moves)
            } else if moves[name].sessionImport == nil {
                moves[name].claimedBy = nil
            }
        }
    }

    /// This node keeps a session no more before it was opened: who comes next claims it anew.
    func failClaim(of name: EncodedString, _ moves: SessionMoves, _ explanation: String) {
        if moves[name].claimedBy != nil { claimFailed(Array(name.bytes), explanation) }
    }

    private func admit(_ name: EncodedString, by epoch: UInt64, _ moves: SessionMoves) {
        moves[name].claimedBy = nil
        let hadSession = shard.sessions.find(name) != nil
        guard let claim = moves.takeClaim(of: name), let connection = waiting(claim) else {
            // Its client has gone, and there is nothing to keep.
            if !hadSession { shard.effects.append(.cluster(.sessionEnded(identifier: Array(name.bytes)))) }
            return
        }
        // CONNACK waits for what the session was given just now; acknowledgements of that wait for CONNACK.
        shard.save()
        advance(connection, .claimed(epoch: epoch))
        if !hadSession, shard.sessions.find(name) == nil {
            shard.effects.append(.cluster(.sessionEnded(identifier: Array(name.bytes))))
        }
    }

    /// The connection that waits for a session, if it still does.
    private func waiting(_ claim: ComingSession.Claim) -> Connection? {
        guard let connection = shard.connections.find(claim.connection), connection.state == .authenticating else { return nil }
        return connection
    }

    // MARK: Sessions that are not this node's any more

    /// Forgets a session that another node has, or that is only half here: nobody else gets its messages, and its will
    /// stays unsaid.
    func discard(_ session: Session) {
        session.cluster.isClaimed = false
        (session.will, session.willName) = (nil, nil)
        let connection = session.connection?.object
        if let connection {
            shard.sending.sendDisconnect(.sessionTakenOver, to: connection, explanation: Self.takenOverWords)
            shard.presence.reportDeparture(of: connection, .sessionTakenOver, Self.takenOverWords, will: .discarded)
            session.queue.rewind()
        }
        let late = shard.departures.takeLate(of: session)
        endMoves(of: session)
        shard.shareGroups.forgetGroups(of: session)
        for entry in late { shard.shareGroups.redistribute(entry, from: session.key, connectedOnly: false) }
        guard let connection else { return shard.lifecycle.endSession(session, publishesWill: false, isElsewhere: true) }
        session.expiryIntervalSeconds = 0
        shard.disconnecting.detach(connection, will: .discarded)
        shard.disconnecting.close(connection)
    }

    static let takenOverWords = "another connection uses this Client Identifier on another node of the cluster."

    /// A session ends, or is ended before it has arrived or left: its queue is where any session's is, and nothing
    /// waits for it.
    func endMoves(of session: Session) {
        guard let moves = shard.cluster?.moves else { return }
        // The next connection's claim may have been answered already: then this node goes on to keep what that begins.
        if session.cluster.isClaimed, session.freesRoom, moves[session.clientIdentifier].claim == nil {
            shard.effects.append(.cluster(.sessionEnded(identifier: Array(session.clientIdentifier.bytes))))
        }
        shard.saves.forgetSave(of: session)
        _ = shard.clusterLog?.takeFinished(of: session)
        session.cluster.isClaimed = false
        moves[session.clientIdentifier].isBrought = false
        let export = session.export
        let wasMoving = session.isMoving
        moves.endAll(of: session)
        guard wasMoving else { return }
        if let export {
            shard.departures.takeBack(export)
            for held in export.subscriptions { shard.sessionRows.forgetSubscription(held.storeNumber) }
        }
        if let sessionImport = moves[session.clientIdentifier].sessionImport, sessionImport.session === session {
            moves[session.clientIdentifier].sessionImport = nil
            for serial in sessionImport.groups {
                if let group = shard.groups.find(serial: serial) { shard.shareGroups.removeIfEmpty(group) }
            }
        }
    }
}

/// A client has come for its session, which another node of the cluster may keep.
public struct SessionClaim: Equatable, Sendable {
    /// The Client Identifier.
    public var identifier: [UInt8]
    /// Seconds that the session is to outlive the connection; `UInt32.max` for ever.
    public var expiryInterval: UInt32
    /// Whether the client begins anew, whatever there is.
    public var cleanStart: Bool
    /// Whether this shard has something of the session, which may be out of date.
    public var hasSession: Bool
    /// By which claim this node has kept it; 0 for none. Of all nodes that have something, the newest is where this is
    /// highest.
    public var epoch: UInt64
    /// The client's user and its mount point: a session is one user's behind one mount point.
    public var userName: EncodedString?
    public var mountPoint: [UInt8]

    public init(
        identifier: [UInt8], expiryInterval: UInt32, cleanStart: Bool, hasSession: Bool, epoch: UInt64 = 0,
        userName: EncodedString? = nil, mountPoint: [UInt8] = []
    ) {
        (self.identifier, self.expiryInterval) = (identifier, expiryInterval)
        (self.cleanStart, self.hasSession, self.epoch) = (cleanStart, hasSession, epoch)
        (self.userName, self.mountPoint) = (userName, mountPoint)
    }
}

/// Where a session is that this node keeps from now on.
public enum SessionOrigin: Equatable, Sendable {
    /// What this shard has of it is the newest; if it has nothing, the session is new.
    case here
    /// Nobody has anything, or it begins anew: what this shard may have is out of date, and goes without its will.
    case nowhere
    /// The node that kept it gives it away: its chunks follow.
    case arriving
}
