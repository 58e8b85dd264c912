/// Whoever wants to hear of a descriptor's events. Called on the loop's thread, at most once per turn and registration.
public protocol EventHandler: AnyObject {
    /// Does what the events allow, without blocking.
    ///
    /// Events are level-triggered: what is left undone is told again in the next turn.
    func ready(_ events: ReadyEvents)
}
