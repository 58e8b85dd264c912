import BrokerCore
import BrokerModel
import Cluster
import ServerLoops

/// Clients that begin anew: they need nothing of the node that has kept their session, so they wait for its answer a
/// moment, and not until its lease has ended.
///
///     claiming ── no answer ──► kept, unsettled ── it has stopped, or its lease has ended ──► kept
///                                     └── the session ends meanwhile: its record stays until then, so that whoever comes next asks too
extension SessionCoordinator {
    /// Lets clients in whose claims stand, and that nobody has answered in time.
    func letInUnsettled() {
        for session in sessions.names(with: .coming) {
            guard let visit = sessions[session].coming, now >= visit.beganAt + Limits.sessionMessageMillisecondsMax,
                case .claiming = visit.stage, visit.record == nil, needsNobody(visit)
            else { continue }
            owner?.keepUnsettled(session, self)
            guard let epoch = owner?.epoch(of: session), owner?.isSettled(session) == false else { continue }
            sessions[session].unsettled = UnsettledSession(epoch: epoch, since: now)
        }
    }

    /// Whether a client begins anew, and nothing of what it had is owed to anybody: no will, and nothing that share
    /// groups may have dispatched to it.
    private func needsNobody(_ visit: IncomingSession) -> Bool {
        guard visit.claim.cleanStart, !visit.isForNobody, let found = visit.found, found.wills.isEmpty else { return false }
        return found.saved.map { !SavedSession.isMember(state: $0.state) } ?? true
    }

    func tickUnsettled() {
        letInUnsettled()
        for session in sessions.names(with: .unsettled) {
            guard let entry = sessions[session].unsettled else { continue }
            guard owner?.keeps(session) == true, owner?.epoch(of: session) == entry.epoch else {
                sessions[session].unsettled = nil
                continue
            }
            guard owner?.isSettled(session) == false else {
                sessions[session].unsettled = nil
                if entry.isOver { releaseAndEnd(session) }
                continue
            }
            if entry.isOver, !entry.isEmptied { empty(session) }
            guard now >= entry.since + Limits.sessionClaimMillisecondsMax else { continue }
            // The other node holds its lease and cannot be reached from here: the client would be connected twice for
            // as long as that lasts.
            sessions[session].unsettled = nil
            owner?.release(session)
            post(.sessionGone(session), of: session)
            log(
                .warning,
                "client \(Self.name(session)) is disconnected: another node that had its session holds its lease, and does not answer."
            )
        }
    }

    /// Ends a session that other nodes may still believe to own; false if it is not such a session.
    func endsUnsettled(_ session: [UInt8]) -> Bool {
        guard let entry = sessions[session].unsettled, owner?.epoch(of: session) == entry.epoch, owner?.isSettled(session) == false
        else {
            return false
        }
        sessions[session].unsettled?.isOver = true
        empty(session)
        return true
    }

    /// Has nothing in the record of a session that is over, so that no node restores it.
    ///
    /// - Returns: whether that is on its way there.
    func emptyRecord(of session: [UInt8]) -> Bool {
        owner?.save(session, hasAll: true, now: now, self) {
            ($0.wills, $0.awaySince, $0.expiryInterval, $0.saved) = ([], 0, 0, nil)
        } == true
    }

    private func empty(_ session: [UInt8]) {
        let isOnItsWay = emptyRecord(of: session)
        sessions[session].unsettled?.isEmptied = isOnItsWay
    }
}
