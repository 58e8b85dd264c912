/// What the control thread hears.
enum ControlEvent: Equatable {
    /// SIGINT or SIGTERM: end gracefully.
    case stop
    /// SIGINT or SIGTERM once more: end at once.
    case stopAtOnce(signal: Int32)
    /// The graceful end has taken all the time that it may: end at once.
    case stopOverdue
    /// SIGHUP: read the configuration again, and open the logs anew.
    case reload
    /// SIGUSR1: save what is to be saved.
    case save
    /// SIGUSR2: log what is subscribed to.
    case listSubscriptions
    /// SIGRTMIN: open the logs anew, somebody has moved them away.
    case reopenLogs
    /// The time has come to tell the service manager that all is well.
    case watch
}
