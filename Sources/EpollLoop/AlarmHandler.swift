/// Whoever asked the loop to be called at a time.
public protocol AlarmHandler: AnyObject {
    /// The time has come. Called on the loop's thread, between the handlers and the end of the turn.
    func alarmRang()
}
