public import BrokerModel
public import MQTTCodec

/// How a client that is connected has come in.
public struct ConnectedLogin: Sendable {
    public let info: ConnectionInfo
    /// Nil for a client without one.
    public let userName: EncodedString?
    /// The Authentication Method that proved it; nil for a password, or where nobody asked.
    public let method: EncodedString?

    public init(info: ConnectionInfo, userName: EncodedString?, method: EncodedString?) {
        self.info = info
        self.userName = userName
        self.method = method
    }
}
