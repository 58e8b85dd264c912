/// A loop that lodges with another one, as the host sees it.
struct Lodger {
    let guest: EventLoop
    let turn: any LoopTurn
    /// When it goes home, in milliseconds of the monotonic clock.
    let until: UInt64
    /// When its next turn must begin at the latest.
    private var deadline: UInt64? = 0

    init(_ request: LodgingRequest, until: UInt64) {
        (guest, turn, self.until) = (request.guest, request.turn, until)
    }

    /// When the host must come at the latest.
    var next: UInt64 { min(deadline ?? until, until) }

    /// Runs a turn if there is something to do.
    mutating func work(now: UInt64) {
        let count = guest.poll(milliseconds: 0)
        guard count > 0 || guest.doorbell.isRung || deadline.map({ $0 <= now }) ?? false else { return }
        deadline = guest.workAway(turn, count)
    }

    func isOver(now: UInt64) -> Bool { now >= until || guest.isStopping || turn.hasErrand }
}
