import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// Clients that begin anew: they need nothing of the node that has kept their session, so they wait for its answer a moment, and not until its
/// lease has ended.
///
///     claiming ── no answer ──► kept, unsettled ── it has stopped, or its lease has ended ──► kept
///                                     └── the session ends meanwhile: its record stays until then, so that whoever comes next asks too
extension SessionCoordinator {
    /// Lets clients in whose claims stand, and that nobody has answered in time.
    func letInUnsettled() {
        for (session, visit) in visits where now >= visit.beganAt + Limits.sessionMessageMillisecondsMax {
            guard case .claiming = visit.stage, visit.record == nil, needsNobody(visit) else { continue }
            keeper?.keepUnsettled(session, self)
            guard let epoch = keeper?.epoch(of: session), keeper?.isSettled(session) == false else { continue }
            unsettled[session] = UnsettledSession(epoch: epoch, since: now)
        }
    }

    /// Whether a client begins anew, and nothing of what it had is owed to anybody: no will, and nothing that share groups may have dealt it.
    private func needsNobody(_ visit: SessionVisit) -> Bool {
        guard visit.claim.cleanStart, !visit.isForNobody, let found = visit.found, found.wills.isEmpty else { return false }
        return found.saved.map { !SavedSession.isMember(state: $0.state) } ?? true
    }

    func tickUnsettled() {
        letInUnsettled()
        for (session, entry) in unsettled {
            guard keeper?.keeps(session) == true, keeper?.epoch(of: session) == entry.epoch else {
                unsettled[session] = nil
                continue
            }
            guard keeper?.isSettled(session) == false else {
                unsettled[session] = nil
                if entry.isOver { releaseAndEnd(session) }
                continue
            }
            if entry.isOver, !entry.isEmptied { empty(session) }
            guard now >= entry.since + Limits.sessionClaimMillisecondsMax else { continue }
            // The other node holds its lease and cannot be reached from here: the client would be connected twice for as long as that lasts.
            unsettled[session] = nil
            keeper?.release(session)
            if let shard = shard(of: session) { post(.gone(session), to: shard) }
            log(
                .warning,
                "client \(Self.name(session)) is disconnected: another node that had its session holds its lease, and does not answer."
            )
        }
    }

    /// A session is over of which others may not know that they keep it no more; false if it is not such a one.
    func endsUnsettled(_ session: [UInt8]) -> Bool {
        guard let entry = unsettled[session], keeper?.epoch(of: session) == entry.epoch, keeper?.isSettled(session) == false else {
            return false
        }
        unsettled[session]?.isOver = true
        empty(session)
        return true
    }

    /// Nobody is to take up what stands in the record of a session that is over.
    private func empty(_ session: [UInt8]) {
        let isOnItsWay = keeper?.save(session, hasAll: true, now: now, self) {
            ($0.wills, $0.awaySince, $0.expiryInterval, $0.saved) = ([], 0, 0, nil)
        }
        unsettled[session]?.isEmptied = isOnItsWay == true
    }
}

/// A session that is kept here while another node may still act by an earlier claim.
struct UnsettledSession {
    let epoch: UInt64
    /// When its client was let in.
    let since: UInt64
    /// Whether it has ended, and its record has nothing of it any more.
    var isOver = false
    var isEmptied = false
}
