/// The loop's own few alarms, such as a listener's pause.
///
/// A short array that is searched whole: there are as many as listeners. Sessions' timers are not kept here; they reach the loop
/// as the deadline that `LoopTurn.endOfTurn` returns.
struct AlarmList {
    private var alarms: [(deadline: UInt64, handler: any AlarmHandler)] = []

    /// The earliest deadline in milliseconds, nil when there is none.
    private(set) var next: UInt64?

    /// Rings at the deadline, and no longer at the one that the handler had before.
    mutating func set(at deadline: UInt64, for handler: any AlarmHandler) {
        alarms.removeAll { $0.handler === handler }
        alarms.append((deadline, handler))
        next = alarms.lazy.map(\.deadline).min()
    }

    /// Rings no longer for the handler.
    mutating func cancel(for handler: any AlarmHandler) {
        alarms.removeAll { $0.handler === handler }
        next = alarms.lazy.map(\.deadline).min()
    }

    /// Takes out one alarm that is due, earliest set first; nil when none is.
    mutating func popDue(now: UInt64) -> (any AlarmHandler)? {
        guard let next, next <= now, let index = alarms.firstIndex(where: { $0.deadline <= now }) else { return nil }
        let handler = alarms.remove(at: index).handler
        self.next = alarms.lazy.map(\.deadline).min()
        return handler
    }
}
