/// What a session wants done, or has to tell.
public enum NATSEffect: Sendable, Equatable {
    /// Connect to this server; `connected` or `dialFailed` has to follow.
    case dial(ServerAddress)
    /// Put TLS on the connection. What is sent after that goes through it.
    case secure(ServerAddress)
    /// Let the connection go, or stop dialling.
    case hangUp
    /// Messages flow from now on. What was subscribed to before is subscribed to again.
    case ready(ServerInfo)
    /// They do not any more, or a server was tried in vain; the next is tried by itself.
    case away(reason: String)
    /// A server has refused something that it was asked, in its words; the connection goes on.
    case complaint(String)
    /// What has become of a request.
    case answered(token: UInt64, NATSAnswer)
}

/// What became of a request.
public enum NATSAnswer: Sendable, Equatable {
    case message(ReceivedMessage)
    /// Nobody listens there.
    case nobody
    /// No answer in time: whether it was heard is unknown.
    case late
    /// The connection was lost: whether it was heard is unknown.
    case lost
}

/// Why a message was not taken.
public enum NATSRefusal: Error, Equatable {
    /// There is no connection.
    case away
    /// More than `bytesMax` bytes.
    case tooLarge(bytesMax: Int)
    /// The server does not read as fast as one writes.
    case full
}
