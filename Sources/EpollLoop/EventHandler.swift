/// Whoever wants to hear of a descriptor's events. Called on the loop's thread, at most once per turn and registration.
public protocol EventHandler: AnyObject {
    /// Does what the events allow, without blocking.
    ///
    /// Events are level-triggered: what is left undone is told again in the next turn.
    func ready(_ events: ReadyEvents)
}

/// Whoever asked the loop to be called at a time.
public protocol AlarmHandler: AnyObject {
    /// The time has come. Called on the loop's thread, between the handlers and the end of the turn.
    func alarmRang()
}

/// What a handler wants to hear of. Errors and hang-ups are told in any case, even to an empty interest.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    public static let readable = Interest(rawValue: 0x1)
    public static let writable = Interest(rawValue: 0x4)
}
