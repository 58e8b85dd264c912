/// What the signals that end the broker bring about, and when: the first one a graceful stop, which has its time; a second one the end.
struct StopDeadlines {
    /// When the first signal came, in milliseconds.
    private var askedAt: UInt64?
    /// The signal that asked for it again.
    private var secondSignal: Int32?

    /// A signal has come that asks for the end.
    ///
    /// - Returns: what is to be done at once; nil for nothing.
    mutating func signalled(_ signal: Int32, now: UInt64) -> ControlEvent? {
        guard askedAt == nil else {
            secondSignal = signal
            return nil
        }
        askedAt = now
        return .stop
    }

    /// Returns the event that is due by now; nil for none.
    func due(now: UInt64) -> ControlEvent? {
        guard let askedAt else { return nil }
        if let secondSignal, now >= askedAt + Limits.graceMilliseconds { return .stopAtOnce(signal: secondSignal) }
        return now >= askedAt + Limits.stopMillisecondsMax ? .stopOverdue : nil
    }

    /// When `due` must next be asked, in milliseconds; nil for never.
    var next: UInt64? {
        askedAt.map { $0 + (secondSignal == nil ? Limits.stopMillisecondsMax : Limits.graceMilliseconds) }
    }
}
