public import BrokerModel
import MQTTCodec

/// Wills of sessions that are the cluster's: they stand in the session's record while its client is connected, and go through the log when they
/// are due, in which one counts once. So one is published whatever becomes of its node, and not twice.
///
///     CONNECT ─► nameWill ─► ClusterNote.saves ─► CONNACK
///     the connection ends ─► publishWill ─► ClusterNote.will ─► the log ─► received(_:partition:sequence:isOwn:) on every node
extension BrokerShard {
    /// Gives the will of a session that this node keeps its name, if it has none.
    func nameWill(of session: Session, _ moves: SessionMoves) {
        guard session.isClaimed, session.willName == nil, let will = session.will,
            will.topic.bytes.withUnsafeBytes({ isCarried($0) })
        else { return }
        moves.lastWill += 1
        session.willName = SavedWill.Name(epoch: session.epoch, number: moves.lastWill)
    }

    /// The will as the cluster has it; nil for none, or one that is this node's alone.
    func savedWill(of session: Session) -> SavedWill? {
        guard let will = session.will, let name = session.willName, cluster?.moves != nil else { return nil }
        let isRetained = will.retain && settings.retainAvailable
        return SavedWill(
            name: name, delayInterval: will.properties.willDelayInterval ?? 0, topic: Array(will.topic.bytes),
            properties: ForwardedProperties.encode(will.properties), payload: will.payload, qos: will.qos, retain: isRetained,
            messageExpiryInterval: will.properties.messageExpiryInterval, publisher: session.publisherKey,
            origin: isRetained ? retainedSource(of: session).row : [])
    }

    /// Gives a will that is due to the cluster; false if it is this node's alone.
    func givesWill(_ saved: SavedWill?, of session: Session) -> Bool {
        guard let saved, let moves = cluster?.moves else { return false }
        moves.hasNews = true
        effects.append(.cluster(.will(identifier: Array(session.clientIdentifier.bytes), saved)))
        return true
    }

    /// The will is not to be published any more. The cluster cannot tell that from the will of a session that is not there: it may be on its way.
    func forgetWill(of session: Session) {
        if session.will != nil, let name = session.willName { sendWillEnds(name, of: session) }
        (session.will, session.willName) = (nil, nil)
    }

    func sendWillEnds(_ name: SavedWill.Name, of session: Session) {
        guard let moves = cluster?.moves else { return }
        moves.hasNews = true
        effects.append(.cluster(.willEnds(identifier: Array(session.clientIdentifier.bytes), name)))
    }

    /// Publishes a will for this node's clients, and those that can be reached, while the cluster keeps no sessions.
    public func publishAlone(_ will: SavedWill) {
        beginPacket()
        will.withMessage { message in
            guard var publication = publication(message) else { return }
            if will.retain { _ = takeOrigin(message.origin, &publication) }
            publish(&publication)
        }
    }

    /// This node looks after a session from now on, whose client has not come.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - epoch: of the claim.
    ///   - oldest: what this shard may have of it by an earlier claim is out of date.
    public func sessionAdopted(_ identifier: [UInt8], epoch: UInt64, from oldest: UInt64) {
        guard let moves = cluster?.moves, let name = EncodedString(identifier) else { return }
        guard let session = sessions.find(name), session.epoch >= oldest, session.epoch > 0, !session.isMoving else {
            effects.append(.cluster(.adopted(identifier: identifier, isHere: false, will: nil)))
            return
        }
        session.isClaimed = true
        session.epoch = epoch
        let will = session.will == nil ? nil : session.willName
        // The will of a client that has stayed may have been published meanwhile, and counts once under its name.
        if session.connection != nil { session.willName = nil }
        effects.append(.cluster(.adopted(identifier: identifier, isHere: true, will: will)))
        markClaimed(of: session, moves)
        keep(session)
        if session.connection == nil { armTimer(of: session) }
    }

    /// A session for which `ClusterNote.wakes` has asked is another node's, or has ended: nobody is told what this shard has of it.
    public func sessionIsElsewhere(_ identifier: [UInt8]) {
        guard cluster?.moves != nil, let name = EncodedString(identifier), let session = sessions.find(name), !session.isClaimed,
            !session.isMoving, session.connection == nil
        else { return }
        discard(session)
    }

    /// A session for which `ClusterNote.wakes` has asked is looked after by another node, which may not have what this shard has of it: only
    /// its will is seen to there.
    public func sessionWillIsElsewhere(_ identifier: [UInt8]) {
        guard cluster?.moves != nil, let name = EncodedString(identifier), let session = sessions.find(name), !session.isClaimed,
            !session.isMoving, session.connection == nil
        else { return }
        (session.will, session.willName, session.willDueAt) = (nil, nil, .max)
        keep(session)
        // What is over by this node's clock it asks for again later.
        if session.endsAt > now { armTimer(of: session) }
    }

    /// The cluster has lost what it knew of a session: it is this node's.
    public func sessionIsUnknown(_ identifier: [UInt8]) {
        guard let name = EncodedString(identifier), let session = sessions.find(name), !session.isClaimed else { return }
        (session.epoch, session.willName) = (0, nil)
        keep(session)
        if session.connection == nil, !session.isMoving { armTimer(of: session) }
    }

    /// Whether it has to be found out first whose a session is, before anything of it ends.
    func mustBeAdopted(_ session: Session) -> Bool {
        cluster?.moves != nil && session.epoch > 0 && !session.isClaimed && !session.isMoving
    }

    private func askWhose(_ session: Session) {
        effects.append(
            .cluster(
                .wakes(
                    identifier: Array(session.clientIdentifier.bytes), epoch: session.epoch, isConnected: session.connection != nil)
            ))
    }

    /// The node acts for its sessions again, which others may have looked after meanwhile: asks whose those are whose clients have stayed. The
    /// others are asked for when something of them is due, or their clients come. O(sessions).
    public func leaseBegins() {
        guard cluster?.moves != nil else { return }
        for session in sessions.all where session.epoch > 0 && !session.isMoving {
            if session.connection == nil { session.isClaimed = false } else { askWhose(session) }
        }
    }

    /// Something of such a session is due: asks, and looks again later.
    func wake(_ session: Session) {
        askWhose(session)
        session.timer = wheel.arm(
            TimerSubject(kind: .session, index: session.index, generation: session.generation), at: now + Limits.wakeMilliseconds)
    }
}
