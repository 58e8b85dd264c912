internal import ClientCore
internal import Transports

/// What is asked of a client from outside its loop.
enum ClientCommand: Sendable {
    /// Connect, and stay connected. The call hears of the first success, or why there is none; without one it is tried for ever.
    case start(AwaitedOutcome<Void>?)
    /// That call was cancelled.
    case withdrawStart(AwaitedOutcome<Void>)
    case reconnectNow
    /// Say goodbye and stay away; the call hears when it is said.
    case disconnect(ReasonCode, Properties, AwaitedOutcome<Void>?)
    /// The client is gone: say goodbye, and end all that waits.
    case end
    case publish(PublishCall)
    /// QoS 0: nobody waits.
    case publishAtMostOnce(Publication)
    /// QoS 0: the call waits until there is room.
    case publishWhenRoom(PublishCall)
    case withdraw(PublishCall)
    case subscribe(MessagePipe)
    case acknowledge(AcknowledgementToken, ReasonCode)
    case resume(MessagePipe)
    case close(MessagePipe, [AcknowledgementToken])
    /// What concerns the store.
    case records(@Sendable (ClientEngine) -> Void)
    /// Unsubscribe from what an earlier process has subscribed to.
    case forget([TopicFilter], Properties, AwaitedOutcome<Void>)
    case resolved(attempt: Int, Result<[SocketAddress], ResolutionError>)
    /// What an attempt has asked somebody for is there; the body looks whether that attempt still goes on.
    case attempt(@Sendable (ClientEngine) -> Void)
    /// Show once more who we are.
    case reauthenticate(AwaitedOutcome<Void>)
    /// A step of an extended authentication: the exchange as it is now, and what it has to say.
    case authenticated(step: Int, Result<(any AuthenticationExchange, [UInt8]?), ClientError>)
}
