public import Platform

/// What an operator should hear of a listener: each told once per trouble, not once per connection.
public enum ListenerReport: Sendable {
    /// Connections cannot be accepted, most often for want of descriptors. The listener tries again by itself.
    case paused(SystemError)
    /// A connection has been accepted again. `turnedAway` were closed meanwhile without a word.
    case resumed(turnedAway: Int)
}
