public import MQTTCodec

/// What a bridge wants done, in order. What it has for either side waits in `Bridge.farOutput` and `Bridge.localOutput`.
public enum BridgeEffect: Sendable {
    /// Connect to an address, by its place; `connected` or `dialFailed` is the answer.
    case dial(address: Int)
    /// See whether the first address can be connected to, and let go of the connection; `probed` is the answer.
    case probe
    /// Write what there is, end the connection, or give up dialling.
    case hangUp
    /// Let the bridge's client into this broker; `attached` is the answer, and what it says.
    case attach(LocalJoin)
    /// The client in this broker may send so many bytes more.
    case openRoom(Int)
    /// Call `resume` when this call has returned.
    case resume
    /// It is let out by what was written; what it still says is of no interest.
    case forget
    /// Publish a retained message here, as the broker's own.
    case publish(TopicName, payload: [UInt8])
    case log(BridgeLogLevel, String)
    /// What `Bridge.report` says of the state has changed.
    case changed
}

/// How the bridge's client comes into this broker.
public struct LocalJoin: Hashable, Sendable {
    public var cleanStart: Bool
    /// Seconds that its session outlives it; `UInt32.max` for ever.
    public var sessionExpiryInterval: UInt32
    /// How many messages may be sent to it and not acknowledged.
    public var receiveMaximum: UInt16
    /// The bytes that it takes at once.
    public var room: Int
}

public enum BridgeLogLevel: Sendable {
    case debug
    /// Of connections that come and go: not written without `connection_messages`.
    case connection
    case warning
    case error
}

/// What an operator sees of a bridge.
public struct BridgeReport: Hashable, Sendable {
    public enum State: String, Sendable {
        case paused
        case waiting
        case connecting
        case connected
        /// Lazy, and nothing to do.
        case idle
        /// Once, and that is over.
        case ended
    }

    public var state = State.waiting
    /// Which address is connected or tried, by its place.
    public var address = 0
    /// When the connection was made, in milliseconds of the bridge's clock; nil without one.
    public var connectedSince: UInt64?
    /// Why it is not connected, in words.
    public var failure: String?
    public var connectionCount: UInt64 = 0
    public var messagesOut: UInt64 = 0
    public var messagesIn: UInt64 = 0
    public var bytesOut: UInt64 = 0
    public var bytesIn: UInt64 = 0
    /// How often the other broker had no room for a message, which is sent again later.
    public var postponedOut: UInt64 = 0
    /// What did not cross: too large, without a name at the other end, or refused there.
    public var droppedOut: UInt64 = 0
    public var droppedIn: UInt64 = 0
    /// Messages that came back and were not taken, or would have gone to where they have been.
    public var echoes: UInt64 = 0
}
