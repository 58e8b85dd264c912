public import BrokerModel
import MQTTCodec

/// The sessions of a shard of which the log is to have how far they have come: each second those that were given
/// something since.
///
///     given something ─► append ─► waiting ── a second is over ─► due ─► writeProgress ─► ToCluster.messages ─► the log
///
/// A session stands here once. One whose queue is not empty stays until its client has acknowledged it, or has gone.
struct ProgressQueue {
    private var waiting: [Session.Identity] = []
    private var due: ArraySlice<Session.Identity> = []
    /// How many may be written until the next second.
    private var left = 0
    /// How many seconds those that are due have taken by now.
    private var seconds = 0
    /// How many seconds the last ones have taken; 0 before the first.
    private(set) var interval = 0

    /// Whether some are to be written in the next turn.
    var hasWork: Bool { left > 0 && !due.isEmpty }

    /// How many there are.
    var count: Int { waiting.count + due.count }

    /// A session that is not here.
    mutating func append(_ session: Session.Identity) { waiting.append(session) }

    /// A second is over.
    ///
    /// - Parameter countMax: how many may be written until the next one.
    mutating func begin(_ countMax: Int) {
        left = countMax
        seconds += 1
        guard due.isEmpty else { return }
        (due, waiting, interval, seconds) = (waiting[...], [], seconds, 0)
    }

    /// Takes some out, at most so many as one turn may do.
    mutating func take(_ countMax: Int) -> ArraySlice<Session.Identity> {
        let taken = due.prefix(min(countMax, left))
        due.removeFirst(taken.count)
        left -= taken.count
        return taken
    }
}

/// How far sessions have come, as entries of the cluster's log.
extension SessionSaves {
    /// A session that lasts was given something of the log.
    @inline(__always)
    func markGiven(_ session: Session) {
        guard !session.cluster.owesProgress else { return }
        session.cluster.owesProgress = true
        shard.cluster?.moves?.progress.append(session.identity)
    }

    /// To be called each second.
    func beginProgress(_ moves: SessionMoves) {
        // What is no message is taken by a log that has no room, which is kept for what clients wait for.
        guard let log = shard.clusterLog, !log.refusesPublishers else { return }
        let (count, before) = (moves.progress.count, moves.progress.interval)
        moves.progress.begin(max(1, Limits.progressPerSecondMax / shard.shardCount))
        let interval = moves.progress.interval
        if interval != before, max(interval, before) > 1 {
            shard.log(.warning) {
                "How far sessions have come was put into the cluster's log within \(max(1, interval)) s: \(count) of this loop move at "
                    + "a time, and it writes \(Limits.progressPerSecondMax / shard.shardCount) a second. So much may come twice when this "
                    + "node is lost with its disk."
            }
        }
        if moves.progress.hasWork { moves.hasNews = true }
    }

    /// At the end of a turn: puts into the log how far some of those sessions have come.
    func writeProgress(_ moves: SessionMoves) {
        guard moves.progress.hasWork, let port = shard.cluster, port.log != nil else { return }
        var partitions: UInt64 = 0
        for identity in moves.progress.take(Limits.progressPerTurnMax) {
            guard let session = shard.sessions.find(identity) else { continue }
            session.cluster.owesProgress = false
            if let save = session.save { partitions |= writeProgress(save, of: session, port) }
        }
        // Nobody waits for it: what does not get there, the next one says.
        if partitions != 0 { shard.clusterLogReading.awaitLog(port, besidesPacketIn: partitions) }
        if moves.progress.hasWork { moves.hasNews = true }
    }

    /// - Returns: the partition of the log that is given something, as a bit.
    @discardableResult
    func writeProgress(_ save: SessionSave, of session: Session, _ port: ClusterPort) -> UInt64 {
        guard mayGive(session, save), session.expiryIntervalSeconds > 0, !session.isReplaying else { return 0 }
        let done = donePlaces(of: session, save)
        // What has come since is looked at again when it is acknowledged; of a client that is away nothing is.
        if !session.queue.isEmpty, session.connection != nil { markGiven(session) }
        let place = shard.clusterLogReading.stepsKnown(of: session)
        guard let done, done != save.logged, place.epoch == session.cluster.epoch else { return 0 }
        save.logged = done
        var progress = SessionProgress(done, receipts: shard.clusterLogReading.loggedReceipts(of: session))
        progress.subscriptionsAfter = save.subscriptions.after
        return port.append(SessionStep(FlowStep(.progress(progress), 0, at: place), of: session))
    }
}

extension SavedSession {
    /// The later one of what is saved and of what the log says of a session.
    ///
    /// - Parameters:
    ///   - saved: `places` of what is saved.
    ///   - step: what says in the log how far the session has come by the same claim.
    ///   - read: up to where this node has read the log.
    /// - Returns: what is to stand in the place of `saved`.
    public static func places(_ saved: [UInt8], or step: FlowStep, in read: LogPositions) -> [UInt8] {
        guard let progress = step.progress, let positions = progress.positions(in: read),
            let known = parts(of: saved)?.places.withUnsafeBytes({ StoredLogPositions(decoding: $0) })?.places,
            known.isBehind(positions)
        else { return saved }
        let receipts = progress.receipts.map { ChunkItem.receipt($0) }
        let unsaved = progress.subscriptionsAfter.map { [ChunkItem.unsaved(after: $0)] } ?? []
        return encoded(positions, [ChunkItem.steps(after: step.place)] + unsaved + receipts)
    }
}

extension Limits {
    /// How many sessions of a node have it put into the log each second how far they have come; with more the interval
    /// grows, and with it what comes twice when the node is lost. Bytes: some 50 each.
    static let progressPerSecondMax = 50_000

    /// How many of them in one turn; the others in the next ones.
    static let progressPerTurnMax = 1000
}
