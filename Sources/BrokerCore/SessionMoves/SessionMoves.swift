import BrokerModel
import MQTTCodec

/// How much of a session is here that is the cluster's.
///
///     importing ─► replaying ─► whole ─► exporting ─► gone
///                      ▲                     └─► it stays
///                      └─────────────────────────┘
enum SessionPhase {
    /// All of it, up to where its shard has read the log.
    case whole
    /// Its chunks are coming: `SessionMoves.coming` has them.
    case importing
    /// It lacks some of the log, and gets nothing else before. nil until the node has joined its cluster.
    case replaying(LogReplay?)
    /// It is on its way to another node.
    case exporting(SessionExport)

    var isWhole: Bool { if case .whole = self { true } else { false } }
}

extension Session {
    /// Whether it is on its way from another node, or to one.
    var isMoving: Bool {
        switch phase {
        case .importing, .exporting: true
        case .whole, .replaying: false
        }
    }

    /// Whether it lacks some of the log.
    var isReplaying: Bool { if case .replaying = phase { true } else { false } }
    var replay: LogReplay? { if case .replaying(let replay) = phase { replay } else { nil } }
    var export: SessionExport? { if case .exporting(let export) = phase { export } else { nil } }
    /// Whether it is being restored from what the cluster has stored of it and from the log, which this node has not
    /// all of yet.
    var isRestored: Bool { replay?.restoration != nil }
}

/// What the log may have of a session's flows that is unknown here, because another node, or this one before it was
/// started again, has put it there.
///
/// It is known when a mark is read that was put into the log behind that.
struct SessionOpening {
    /// The step that is put into the log for the session, and that is to be read again. One that may be lost is put
    /// there once more: any of them counts.
    struct Mark {
        /// Of the first one; 0 before that is put there.
        var number: UInt64 = 0
        /// The partitions in which none was read yet.
        var unread: Set<Int>
        /// When the last one was put there.
        var writtenAt: UInt64 = 0
    }

    /// nil if none is awaited.
    var mark: Mark?
    /// The newest step that is known of each packet identifier, while there may be others.
    var newestSteps: [UInt16: FlowStep.Place] = [:]

    var isKnown: Bool { mark == nil }
}

/// A session for which a client has come, or which is on its way to this node.
struct ComingSession {
    /// A CONNECT that waits for its session.
    struct Claim {
        let connection: ConnectionID
        /// Whether its client begins anew.
        let cleanStart: Bool
    }

    var claim: Claim?
    /// Its chunks, until all of them are durable.
    var sessionImport: SessionImport?
    /// By which claim this node keeps it, until it is open: see `Connecting.open`.
    var claimedBy: UInt64?
    /// Whether it came from elsewhere, or was given what it lacked of the log, and the cluster is to be told that it is
    /// up.
    var isBrought = false

    var isEmpty: Bool { claim == nil && sessionImport == nil && claimedBy == nil && !isBrought }
}

/// What a shard has to do with sessions that are the cluster's: which of them clients wait for, and of which something
/// is under way.
///
///     CONNECT ─► claim ─► sessionClaimed ─┬───────────────────────────► open ─► CONNACK
///                                         └─► import ─► (replay) ───►
///     sessionLeaves ─► export ─► chunks ─► sessionGone, sessionStays
///
/// There is none where each node keeps its own sessions.
final class SessionMoves {
    /// Something that is told when the journal is durable so far.
    struct Notice {
        let sequence: UInt64
        let sessionImport: SessionImport
        let number: Int
        let isLast: Bool
    }

    /// By Client Identifier; of the others there is no entry.
    private(set) var coming: [EncodedString: ComingSession] = [:]
    /// The sessions that are not whole, or of which the log may know more, by their keys.
    private(set) var underWay: [UInt64: Session] = [:]
    /// The exports that have something to do, or look each turn whether they have.
    var busyExports: [Session.Identity] = []
    /// The holders of what share groups have dispatched, as far as the log was read for sessions that are restored.
    var holders = DispatchHolders()
    /// The sessions that were given something of what they lack in this turn.
    var touchedReplays: [Session.Identity] = []
    /// Those of which something that the cluster stores has changed since the last turn.
    var changedSaves: [Session.Identity] = []
    /// All of which the cluster stores something, and some that are gone, in the order in which their places are looked
    /// at.
    var saveOrder: [Session.Identity] = []
    /// Where that goes on.
    var savePosition = 0
    /// Those of which the log is to have how far they have come.
    var progress = ProgressQueue()
    /// Those whose clients wait until the log has what they have subscribed to.
    var awaitingLog: [Session.Identity] = []
    var lastSaveNumber: UInt64 = 0
    /// The number of the newest will.
    var lastWill: UInt64 = 0
    /// What arrived and is not durable yet, in the order of its sequences.
    private var notices: [Notice] = []

    /// Whether the end of a turn has anything to do with it.
    var hasWork: Bool { hasNews || !notices.isEmpty || !busyExports.isEmpty || !touchedReplays.isEmpty || !changedSaves.isEmpty }

    /// Whether the end of a turn has something to do that nothing else announces.
    var hasNews = false

    subscript(name: EncodedString) -> ComingSession {
        get { coming[name] ?? ComingSession() }
        set { coming[name] = newValue.isEmpty ? nil : newValue }
    }

    func takeClaim(of name: EncodedString) -> ComingSession.Claim? {
        defer { self[name].claim = nil }
        return self[name].claim
    }

    /// The sessions that this node keeps and that are not open yet, in order.
    var claimed: [EncodedString] {
        coming.filter { $0.value.claimedBy != nil }.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    func change(phaseOf session: Session, to phase: SessionPhase) {
        session.phase = phase
        track(session)
    }

    func change(openingOf session: Session, _ change: (inout SessionOpening) -> Void) {
        change(&session.opening)
        track(session)
    }

    /// Nothing is under way of a session any more.
    func endAll(of session: Session) {
        session.endUnderWay()
        underWay[session.key] = nil
    }

    private func track(_ session: Session) {
        underWay[session.key] = session.phase.isWhole && session.opening.isKnown ? nil : session
    }

    func announce(_ notice: Notice) { notices.append(notice) }

    /// The notices that are durable.
    func takeNotices(persisted: UInt64) -> [Notice] {
        let count = notices.prefix { $0.sequence <= persisted }.count
        guard count > 0 else { return [] }
        defer { notices.removeFirst(count) }
        return Array(notices.prefix(count))
    }

    func makeBusy(_ export: SessionExport) {
        hasNews = true
        let session = export.session.identity
        if !busyExports.contains(where: { $0 == session }) { busyExports.append(session) }
    }
}

/// A session on its way from another node, as far as it has come.
///
/// Its row says that it is not whole: a crash leaves nothing of it. Nobody routes to it before its last chunk.
final class SessionImport {
    /// By which claim this node keeps it.
    let epoch: UInt64
    /// The number of the chunk that comes next.
    var nextSessionChunk = 0
    /// nil before the first chunk.
    var session: Session?
    var subscriptions: [(filter: TopicFilter, terms: SubscriptionTerms)] = []
    /// The retained messages that its client has not had, by filter.
    var owed: [(filter: [UInt8], stage: OwedRetained.Stage)] = []
    /// Up to where the node that kept it had read the log, and before what it had nothing left to do, if that is known.
    var places: LogPositions?
    var done: LogPositions?
    /// The share groups that its messages name, by their place among its subscriptions to such: the group's serial
    /// number here.
    var groups: [UInt32] = []
    /// Whether a message is among them that was never sent: behind it stands none that was.
    var hasUnsent = false
    /// Whether the log may have more of what its client has sent.
    var lacksSteps = false
    /// Whether it comes from what the cluster has stored of it, and what that says beside what it is.
    var isRestored = false
    var saved = SessionRestoration.Saved(epoch: 0)
    /// Whether its last chunk is here.
    var isWhole = false

    init(epoch: UInt64) { self.epoch = epoch }
}

/// How much of a session that is kept here the cluster has stored, and who waits for more.
///
///     changed ─► given, under way ─► sessionSaved ─► answers
///
/// One of a session is under way at a time. What changes meanwhile goes with the next one, and so do the answers that
/// wait for that.
final class SessionSave {
    /// What a client is told when the cluster has it.
    enum Answer {
        /// CONNACK and all behind it, which stand in the connection's output.
        case output
        case held(HeldAnswer)
    }

    /// The number of what is under way; nil for nothing.
    var underWay: UInt64?
    /// Whether the state has changed since it was given.
    var isChanged = false
    /// The connections that wait for what is under way, and for what follows it.
    var given: [(connection: ConnectionID, answer: Answer)] = []
    var waiting: [(connection: ConnectionID, answer: Answer)] = []
    /// Places up to which the session had been given the log when the journal had come to a number: when all messages
    /// that it had then are done, everything before the places is.
    var mark: (number: UInt64, places: LogPositions)?
    /// What is known of the places before which nothing is left to do.
    var done: LogPositions?
    /// The subscriptions that the log has and the cluster's record has not.
    var subscriptions = UnsavedSubscriptions()
    /// The positions that were given last, and those that the log was given by this claim.
    var places: LogPositions?
    var logged: LogPositions?
    /// By which claim, with which expiry, and whether with a will it was given last.
    var epoch: UInt64 = 0
    /// By which claim it was stored last.
    var storedEpoch: UInt64 = 0
    var expiryInterval: UInt32 = 0
    var hasWill = false

    /// Cuts a partition of the log off that ends at this record.
    func cut(_ partition: Int, at last: UInt64) {
        mark?.places.cut(partition, at: last)
        done?.cut(partition, at: last)
        logged?.cut(partition, at: last)
    }
}

/// Wills of sessions that are the cluster's: they stand in the session's record while its client is connected, and go
/// through the log when they are due, in which one counts once. So one is published whatever becomes of its node, and
/// not twice.
///
///     CONNECT ─► nameWill ─► ToCluster.saves ─► CONNACK
///     the connection ends ─► publishWill ─► ToCluster.will ─► the log ─► received(_:partition:sequence:isOwn:) on every node
struct SessionMoving {
    let shard: BrokerShard

    /// Gives the will of a session that this node keeps its name, if it has none.
    func nameWill(of session: Session, _ moves: SessionMoves) {
        guard session.cluster.isClaimed, session.willName == nil, let will = session.will,
            will.topic.bytes.withUnsafeBytes({ shard.clusterMessaging.isCarried($0) })
        else { return }
        moves.lastWill += 1
        session.willName = WillName(epoch: session.cluster.epoch, number: moves.lastWill)
    }

    /// The will as the cluster has it; nil for none, or one that is this node's alone.
    func savedWill(of session: Session) -> SavedWill? {
        guard let will = session.will, let name = session.willName, shard.cluster?.moves != nil else { return nil }
        let isRetained = will.retain && shard.settings.retainAvailable
        let properties = ForwardedProperties.encode(will.properties)
        let message = will.topic.bytes.withUnsafeBytes { topic in
            properties.withUnsafeBytes { properties in
                will.payload.withUnsafeBytes { payload in
                    var message = LogMessage(
                        topic: topic, properties: properties, payload: payload, qos: will.qos, retain: isRetained,
                        millisecondsLeft: will.properties.messageExpiryInterval.map { UInt64($0) * 1000 })
                    message.publisher = session.publisherKey
                    return message.entry
                }
            }
        }
        return SavedWill(
            name: name, delayInterval: will.properties.willDelayInterval ?? 0, message: message,
            origin: isRetained ? shard.retainedMessages.retainedSource(of: session).row : [])
    }

    /// Gives a will that is due to the cluster; false if it is this node's alone.
    func givesWill(_ saved: SavedWill?, of session: Session) -> Bool {
        guard let saved, let moves = shard.cluster?.moves else { return false }
        moves.hasNews = true
        shard.effects.append(.cluster(.will(identifier: session.clientIdentifier.bytes, saved)))
        return true
    }

    /// The will is not to be published any more. The cluster cannot tell that from the will of a session that is not
    /// there: it may be on its way.
    func forgetWill(of session: Session) {
        if session.will != nil, let name = session.willName { sendWillEnds(name, of: session) }
        (session.will, session.willName) = (nil, nil)
    }

    func sendWillEnds(_ name: WillName, of session: Session) {
        guard let moves = shard.cluster?.moves else { return }
        moves.hasNews = true
        shard.effects.append(.cluster(.willEnds(identifier: session.clientIdentifier.bytes, name)))
    }

    /// Publishes a will for this node's clients, and those that can be reached, while the cluster keeps no sessions.
    func publishAlone(_ will: SavedWill) {
        shard.storing.beginPacket()
        _ = will.withMessage { logged in
            let message = ClusterMessage(
                topic: logged.topic, properties: logged.properties, payload: logged.payload, qos: logged.qos, retain: logged.retain,
                expiresAt: logged.millisecondsLeft.map { shard.now &+ $0 }, publisher: logged.publisher, isLogged: true)
            guard var publication = shard.clusterMessaging.publication(message) else { return }
            if message.retain { will.origin.withUnsafeBytes { _ = shard.clusterMessaging.takeOrigin($0, &publication) } }
            shard.publishing.publish(&publication)
        }
    }

    /// This node looks after a session from now on, whose client has not come.
    ///
    /// - Parameters:
    ///   - identifier: the Client Identifier.
    ///   - epoch: of the claim.
    ///   - oldest: what this shard may have of it by an earlier claim is out of date.
    func sessionAssumed(_ identifier: [UInt8], epoch: UInt64, from oldest: UInt64) {
        guard let moves = shard.cluster?.moves, let name = EncodedString(identifier) else { return }
        guard let session = shard.sessions.find(name), session.cluster.epoch >= oldest, session.cluster.epoch > 0,
            !session.isMoving
        else {
            shard.effects.append(.cluster(.assumed(identifier: identifier, isHere: false, will: nil)))
            return
        }
        session.cluster.isClaimed = true
        session.cluster.epoch = epoch
        let will = session.will == nil ? nil : session.willName
        // The will of a client that has stayed may have been published meanwhile, and counts once under its name.
        if session.connection != nil { session.willName = nil }
        shard.effects.append(.cluster(.assumed(identifier: identifier, isHere: true, will: will)))
        shard.saves.markClaimed(of: session, moves)
        shard.sessionRows.keep(session)
        if session.connection == nil { shard.lifecycle.armTimer(of: session) }
    }

    /// A session for which `ToCluster.wakes` has asked is another node's, or has ended: nobody is told what this shard
    /// has of it.
    func sessionIsElsewhere(_ identifier: [UInt8]) {
        if let session = unclaimed(identifier) { shard.connecting.discard(session) }
    }

    /// A session for which `ToCluster.wakes` has asked is looked after by another node, which may not have what this
    /// shard has of it: only its will is seen to there.
    func sessionWillIsElsewhere(_ identifier: [UInt8]) {
        guard let session = unclaimed(identifier) else { return }
        (session.will, session.willName, session.willDueAt) = (nil, nil, .max)
        shard.sessionRows.keep(session)
        // What is over by this node's clock it asks for again later.
        if session.times.endsAt > shard.now { shard.lifecycle.armTimer(of: session) }
    }

    /// A session for which `ToCluster.wakes` has asked, if nobody has come for it since.
    private func unclaimed(_ identifier: [UInt8]) -> Session? {
        guard shard.cluster?.moves != nil, let session = shard.sessions.find(identifier), !session.cluster.isClaimed,
            !session.isMoving, session.connection == nil
        else { return nil }
        return session
    }

    /// The cluster has lost what it knew of a session: it is this node's.
    func sessionIsUnknown(_ identifier: [UInt8]) {
        guard let session = shard.sessions.find(identifier), !session.cluster.isClaimed else { return }
        (session.cluster.epoch, session.willName) = (0, nil)
        shard.sessionRows.keep(session)
        if session.connection == nil, !session.isMoving { shard.lifecycle.armTimer(of: session) }
    }

    /// Whether it has to be found out first whose a session is, before anything of it ends.
    func mustBeAssumed(_ session: Session) -> Bool {
        shard.cluster?.moves != nil && session.cluster.epoch > 0 && !session.cluster.isClaimed && !session.isMoving
    }

    private func askWhose(_ session: Session) {
        shard.effects.append(
            .cluster(
                .wakes(
                    identifier: session.clientIdentifier.bytes, epoch: session.cluster.epoch,
                    isConnected: session.connection != nil)
            ))
    }

    /// The node acts for its sessions again, which others may have looked after meanwhile: asks whose those are whose
    /// clients have stayed. The others are asked for when something of them is due, or their clients come. O(sessions).
    func leaseBegins() {
        guard shard.cluster?.moves != nil else { return }
        for session in shard.sessions.all where session.cluster.epoch > 0 && !session.isMoving {
            if session.connection == nil { session.cluster.isClaimed = false } else { askWhose(session) }
        }
    }

    /// Something of such a session is due: asks, and looks again later.
    func wake(_ session: Session) {
        askWhose(session)
        session.timer = shard.wheel.arm(
            TimerSubject(kind: .session, index: session.index, generation: session.generation),
            at: shard.now + Limits.wakeMilliseconds)
    }
}

extension SessionMoves: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.cluster?.moves?.hasWork ?? false }
    static func step(_ shard: BrokerShard) { if let moves = shard.cluster?.moves { shard.arrivals.stepMoves(moves) } }

    static func deadline(_ shard: BrokerShard) -> UInt64? {
        shard.cluster?.moves.flatMap { $0.hasNews ? shard.now : shard.departures.nextDeadline($0) }
    }
}
