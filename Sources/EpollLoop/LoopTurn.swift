/// What frames the handlers' work in each turn of a loop. Called on the thread that runs the loop.
///
/// ```
///   wait ──► beginTurn ──► handlers of ready descriptors (at most 256) ──► endRound ──► alarms ──► endOfTurn ──► release what was deregistered ──► wait
///                                  ▲ once more, if that asks for it ◄───────┘
/// ```
public protocol LoopTurn: AnyObject {
    /// The wait is over. `now` is in milliseconds of the monotonic clock and holds for the whole turn.
    ///
    /// Messages that were posted before the wake-up that ended the wait are in their mailboxes.
    func beginTurn(now: UInt64)

    /// The handlers have run. Does what they have left for this moment, and returns whether to look for more ready descriptors
    /// before the turn ends, and call their handlers; that is to be bounded by the answer.
    func endRound() -> Bool

    /// The handlers have run. Returns the time in milliseconds at which the next turn must begin at the latest, nil for none;
    /// a time that has passed, such as 0, lets the loop look for events without sleeping.
    func endOfTurn(now: UInt64) -> UInt64?

    /// Asked after `endOfTurn`: something to be done between two turns that may take a moment, or long. It must not touch what
    /// belongs to the loop, which a stand-in runs meanwhile if it takes long.
    func takeBlockingTask() -> BlockingTask?
}

extension LoopTurn {
    public typealias BlockingTask = @Sendable () -> Void

    public func endRound() -> Bool { false }

    public func takeBlockingTask() -> BlockingTask? { nil }
}
