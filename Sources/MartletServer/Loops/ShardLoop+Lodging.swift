import EpollLoop

/// Whether this loop's turns are better run by another one's thread.
extension ShardLoop {
    func wantsToLodge() -> Bool {
        guard loops.count > 1, !isStopping else { return false }
        return plan.findHost(for: index, among: usages, now: events.nowMilliseconds, ThreadTimes.current)
    }

    func ask(_ request: LodgingRequest) {
        guard let host = plan.host else { return }
        loops[host].mailbox.post(.takeIn(request, until: plan.until))
    }

    func cameHome(wasAway: Bool) {
        plan.cameHome(wasAway: wasAway, index, usages, now: EventLoop.monotonicMilliseconds())
    }
}
