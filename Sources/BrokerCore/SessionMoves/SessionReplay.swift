public import BrokerModel
import MQTTCodec

/// Giving sessions what they lack of the log, when they come from a node that had read less of it, or were on their way
/// and have stayed.
struct SessionReplay {
    let shard: BrokerShard

    /// Whether a session is to be given something of a record now.
    func lacks(_ replay: LogReplay, _ sequence: UInt64, in partition: Int, _ moves: SessionMoves) -> Bool {
        guard let floor = replay.session.logFloor, floor.isNew(sequence, in: partition),
            !replay.through.isNew(sequence, in: partition)
        else { return false }
        guard replay.isGiving else { return true }
        moves.hasNews = true
        if replay.given.allSatisfy({ $0 == nil }) { moves.touchedReplays.append(replay.session.identity) }
        if partition < replay.given.count { replay.given[partition] = sequence }
        return true
    }

    /// A session has been given all that `replayNeeded` named. It may lack more meanwhile: then `ToCluster.lacksLog`
    /// comes again.
    func replayed(_ identifier: [UInt8]) {
        guard let moves = shard.cluster?.moves, let replay = replay(identifier) else { return }
        guard replay.isGiving else { return readForRestoration(replay) }
        let session = replay.session
        shard.storing.beginPacket()
        session.logFloor = session.logFloor?.later(replay.through)
        replay.given = replay.given.map { _ in nil }
        replay.restoration?.flows.forgetDispatched()
        replay.isAsked = false
        if replay.isOverflowing, let places = shard.clusterLog?.places {
            replay.isOverflowing = false
            replay.through = places
            shard.sessionRows.keep(session)
            return ask(for: replay)
        }
        moves.change(phaseOf: session, to: .whole)
        if replay.restoration != nil {
            shard.lifecycle.armTimer(of: session)
            shard.saves.markWhole(session, moves)
        }
        shard.clusterLogReading.forgetKnownSteps(of: session)
        shard.saves.markGiven(session)
        for aside in replay.aside {
            var publication = Publication(aside.message)
            (publication.path, publication.mustArrive) = (.lasting, aside.mustArrive)
            publication.name = aside.name
            deliverReplayed(&publication, to: [session])
            shard.dispatcher.finish(&publication)
        }
        shard.sessionRows.keep(session)
        // A client may be here whose claim is not answered: another node may have the session by then.
        guard moves[session.clientIdentifier].claimedBy != nil else { return }
        moves[session.clientIdentifier].isBrought = true
        shard.connecting.open(session, moves)
    }

    func replay(_ identifier: [UInt8]) -> LogReplay? {
        guard shard.cluster?.moves?.underWay.isEmpty == false else { return nil }
        return shard.sessions.find(identifier)?.replay
    }

    /// A session that has been given the log up to some places is given from now on what its shard reads of it.
    func beginReplay(of session: Session, from places: LogPositions, _ moves: SessionMoves) {
        guard let read = shard.clusterLog?.places else { return }
        let floor = places.fitted(to: read)
        session.logFloor = floor
        guard floor.isBehind(read) else { return }
        moves.change(phaseOf: session, to: .replaying(LogReplay(session, through: read)))
    }

    /// A partition is read from another place on, perhaps of another stream: what sessions were given of that one says
    /// nothing.
    func recordLogBegins(_ partition: Int, after place: LogPositions.Place) {
        for session in shard.sessions.all {
            guard let floor = session.logFloor, partition < floor.places.count, floor.places[partition]?.stream != place.stream
            else {
                continue
            }
            session.logFloor?.places[partition] = nil
        }
        for session in shard.cluster?.moves?.underWay.values ?? [:].values {
            guard let replay = session.replay, partition < replay.through.places.count else { continue }
            replay.through.places[partition] = place
        }
    }

    /// Has the cluster read again what a session lacks.
    func ask(for replay: LogReplay) {
        guard !replay.isAsked, replay.restoration?.phase != .awaitingMark else { return }
        replay.isAsked = true
        shard.effects.append(.cluster(.lacksLog(identifier: replay.session.clientIdentifier.bytes)))
    }

    /// Keeps a message that came out of the log for a session that lacks some before it; false for other sessions.
    func keepsAside(_ publication: inout Publication, _ route: Route) -> Bool {
        guard shard.cluster?.moves?.underWay.isEmpty == false else { return false }
        return route.session.with { session in
            guard let replay = session.replay else { return false }
            replay.keep(publication.makeMessage(shard.ledger), mustArrive: publication.mustArrive, name: publication.name)
            return true
        }
    }

    /// At the end of a turn: a session's row says what it has been given, in one batch with that.
    func keepReplays(_ moves: SessionMoves) {
        guard !moves.touchedReplays.isEmpty else { return }
        for session in moves.touchedReplays {
            guard let replay = shard.sessions.find(session)?.replay else { continue }
            for (partition, sequence) in replay.given.enumerated() {
                guard let sequence else { continue }
                replay.session.logFloor?.places[partition]?.sequence = sequence
                replay.given[partition] = nil
            }
            shard.sessionRows.keep(replay.session)
        }
        moves.touchedReplays = []
    }

    /// A message to some sessions, as their subscriptions want it. O(its receivers).
    fileprivate func deliverReplayed(_ publication: inout Publication, to sessions: [Session]) {
        guard !sessions.isEmpty else { return }
        let keys = Set(sessions.map(\.key))
        let matches = shard.dispatcher.matches(of: publication.topic)
        matches.with { matches in
            for position in 0..<matches.routeCount {
                let route = matches.routes[position]
                if keys.contains(route.session.with(\.key)) { shard.dispatcher.deliver(&publication, to: route) }
            }
        }
    }
}

/// What a session that lacks some of the log gets when it has that: nothing reaches it before, so that its messages
/// keep their order.
///
///     given to it ──► logFloor ──replay──► through ──► aside ──► as it comes
final class LogReplay {
    /// A message that came out of the log meanwhile.
    struct Aside {
        let message: Message
        let mustArrive: Bool
        let name: MessageName
    }

    unowned let session: Session
    /// Up to where it is replayed.
    var through: LogPositions
    /// What came behind that, in its order.
    var aside: [Aside] = []
    var asideBytes = 0
    /// Whether that was too much: then it is replayed too.
    var isOverflowing = false
    /// The record that the session is given in this turn, by partition; nil for none.
    var given: [UInt64?]
    /// Whether a replay was asked for that has not ended.
    var isAsked = false
    /// Of a session that is restored from what the cluster has stored; nil for others.
    var restoration: SessionRestoration?

    init(_ session: Session, through: LogPositions) {
        (self.session, self.through) = (session, through)
        given = Array(repeating: nil, count: through.places.count)
    }

    /// Keeps a message for later.
    func keep(_ message: Message, mustArrive: Bool, name: MessageName) {
        guard !isOverflowing else { return }
        aside.append(Aside(message: message, mustArrive: mustArrive, name: name))
        asideBytes += message.byteCount
        guard aside.count > Limits.asideMessagesMax || asideBytes > Limits.asideBytesMax else { return }
        (aside, asideBytes, isOverflowing) = ([], 0, true)
    }

    /// The spans of the log behind `floor` that are to be read now.
    func spans(after floor: LogPositions) -> [LogSpan] {
        restoration?.spans(after: floor, through: through) ?? floor.spans(through: through)
    }

    /// Whether the session is given what is read, and has it then.
    var isGiving: Bool { restoration.map { $0.phase == .rest } ?? true }
}

extension Limits {
    /// Their bytes; beyond them the same.
    static let asideBytesMax = 4 << 20
}

extension BrokerShard {
    /// Which records a session has not been given that this shard has read before; empty if none.
    public func replayNeeded(_ identifier: [UInt8]) -> [LogSpan] {
        guard let replay = sessionReplay.replay(identifier) else { return [] }
        return replay.session.logFloor.map { replay.spans(after: $0) } ?? []
    }

    /// Gives a message of a record to those of the sessions that lack the record. All messages of a record are given in
    /// one turn, in their order, and the records of a partition in theirs.
    ///
    /// - Returns: false if it is no message: a topic or properties that no client could have sent.
    func replay(_ message: ClusterMessage, partition: Int, sequence: UInt64, for identifiers: [[UInt8]]) -> Bool {
        guard let moves = cluster?.moves else { return true }
        guard var publication = clusterMessaging.publication(message) else { return false }
        storing.beginPacket()
        publication.path = .lasting
        publication.name = MessageName(partition: partition, sequence: sequence, index: message.index)
        var takers: [Session] = []
        for identifier in identifiers {
            guard let replay = sessionReplay.replay(identifier) else { continue }
            // What was passed on is its groups' alone: all others have had it.
            if sessionReplay.lacks(replay, sequence, in: partition, moves),
                sessionReplay.takes(&publication, message.dispatch, replay), message.dispatch?.isPassedOn != true
            {
                takers.append(replay.session)
            }
        }
        sessionReplay.deliverReplayed(&publication, to: takers)
        for identifier in identifiers {
            if let replay = sessionReplay.replay(identifier) {
                sessionReplay.giveDispatched(&publication, message.dispatch, replay)
            }
        }
        dispatcher.finish(&publication)
        return true
    }
}
