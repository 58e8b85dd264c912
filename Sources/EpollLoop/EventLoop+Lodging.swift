/// Two loops on one thread, for a while: when cores are short and two loops together need no more than one, it is better that their turns
/// follow each other than that they cut each other off.
extension EventLoop {
    /// Runs another loop's turns between its own, until that time in milliseconds of the monotonic clock. For the host's thread.
    ///
    /// The other loop goes home sooner when it or the host is stopped, or has an errand. It stays at home when the request comes too late, or the
    /// host lodges itself.
    public func takeIn(_ request: LodgingRequest, until: UInt64) {
        guard !isLodging, request.guest.lodging.takeIn(request.number) else { return }
        lodgers.append(Lodger(request, until: until))
    }

    /// Whether this thread runs other loops' turns too, which must not wait for what this one waits for.
    public var hasLodgers: Bool { !lodgers.isEmpty }

    /// Lets another loop run this one's turns, if the turn has found one, and waits until it is back. For the loop's own thread.
    ///
    /// - Returns: whether the next turn must begin at once.
    func lodge(_ turn: any LoopTurn) -> Bool {
        guard lodgers.isEmpty, turn.wantsToLodge() else { return false }
        turn.ask(LodgingRequest(guest: self, turn: turn, number: lodging.ask()))
        let wasAway = lodging.waitUntilHome()
        takeOwnership()
        turn.cameHome(wasAway: wasAway)
        return true
    }

    /// Runs the turns of the loops that lodge here. Returns when the next one must begin at the latest.
    func workForLodgers() -> UInt64? {
        for position in lodgers.indices { lodgers[position].work(now: Self.monotonicMilliseconds()) }
        let now = Self.monotonicMilliseconds()
        sendHome { $0.isOver(now: now) }
        return lodgers.lazy.map(\.next).min()
    }

    /// A turn of this loop, on its host's thread, for that many events. Returns when the next one must begin at the latest.
    func workAway(_ turn: any LoopTurn, _ count: Int) -> UInt64? {
        takeOwnership()
        isLodging = true
        defer { isLodging = false }
        doorbell.answer()
        return work(turn, count)
    }

    /// Waits until something is ready here or at a lodger's, unless somebody has rung; -1 for ever.
    func sleepWithLodgers(milliseconds: Int32) {
        defer { for lodger in lodgers { lodger.guest.doorbell.wakeUp() } }
        guard lodgers.allSatisfy({ $0.guest.doorbell.prepareToSleep() }) else { return }
        SystemCall.waitUntilReadable([epoll] + lodgers.map(\.guest.epoll), timeoutMilliseconds: milliseconds)
    }

    func sendHome(_ isOver: (Lodger) -> Bool) {
        let leaving = lodgers.filter(isOver)
        if leaving.isEmpty { return }
        lodgers.removeAll(where: isOver)
        for lodger in leaving { lodger.guest.lodging.sendHome() }
    }
}
