import BrokerCore
import Cluster
import NATSClient
import ServerLoops

/// Clients that come for their sessions, and sessions that are over.
extension SessionCoordinator {
    func claimed(_ claim: SessionClaim, by shard: Int) {
        let session = claim.identifier
        endings[session] = nil
        endsAfterWills.remove(session)
        guard visits[session] == nil else {
            // What is under way serves the newer client; what the shard has by now is a part of what is under way.
            visits[session]?.claim.cleanStart = claim.cleanStart
            visits[session]?.isForNobody = false
            visits[session]?.progressAt = now
            return
        }
        let isKept = keeper?.keeps(session) == true && !left.isHandling(session)
        let isOver = unsettled[session]?.isOver == true && keeper?.epoch(of: session) == unsettled[session]?.epoch
        unsettled[session]?.isOver = false
        // What it publishes from now on comes behind its earlier connection's will.
        if isKept, !isOver, !publishesWill(of: session), let epoch = keeper?.epoch(of: session) {
            return post(.claimed(session, .here, epoch: epoch), to: shard)
        }
        ticksAt = min(ticksAt, now + Limits.sessionTickMilliseconds)
        visits[session] = SessionVisit(shard: shard, claim: claim, stage: .waiting, now: now)
        // A session that is looked after here has a client again.
        if let record = left.record(of: session) ?? awaitingShards[session] ?? (isKept ? keeper?.record(of: session) : nil) {
            recordFound(record, by: session)
        }
        if isOver { visits[session]?.beginsAnew() }
        // The shard gives it anew by the new claim.
        if isKept { (savesUnderWay[session], savesWaiting[session]) = (nil, nil) }
        left.notTaken(session)
        (adoptions[session], awaitingShards[session]) = (nil, nil)
        connect(session)
    }

    func connect(_ session: [UInt8]) {
        guard keeper != nil, let claim = visits[session]?.claim, case .waiting = visits[session]?.stage else { return }
        visits[session]?.stage = .claiming
        // A session that begins once more has higher numbers than what may be left of it somewhere.
        let terms = SessionKeeper.Terms(expiryInterval: claim.expiryInterval, firstEpoch: wallClock)
        isConnecting = true
        keeper?.connect(session, terms, now: now, self)
        isConnecting = false
    }

    /// A session is over: its record goes, if it is this node's.
    func ended(_ session: [UInt8]) {
        guard visits[session] == nil else { return }
        drops.removeAll { $0.session == session }
        if publishesWill(of: session) {
            endsAfterWills.insert(session)
            return
        }
        forgetSaves(of: session)
        if !endsUnsettled(session) { releaseAndEnd(session) }
    }

    /// This node acts for a session no more, and its record goes.
    func releaseAndEnd(_ session: [UInt8]) {
        let epoch = keeper?.epoch(of: session)
        let number = keeper?.release(session)
        let found = epoch.flatMap { epoch in number.map { (epoch: epoch, number: $0) } }
        endings[session] = .some(found)
        end(session, found)
    }

    func end(_ session: [UInt8], _ found: (epoch: UInt64, number: UInt64)?) {
        guard connection.isReady else { return }
        if let found { records.remove(session, epoch: found.epoch, expecting: found.number) } else { records.read(session) }
    }
}
