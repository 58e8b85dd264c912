public import MQTTCodec

/// Why a client did not take a request.
public enum RequestRefusal: Error, Hashable, Sendable {
    /// There is no connection, and what is asked does not wait for one.
    case notConnected
    /// As many messages wait as may.
    case tooManyWaiting
    /// The server takes no packet as large.
    case packetTooLarge
    /// The server takes no message of that QoS.
    case qosNotSupported
    /// The server keeps no retained messages.
    case retainNotSupported
    /// 65,535 requests are unanswered.
    case noIdentifierLeft
    /// The standard does not let a client send it, or this server has said that it takes no such thing: what it would answer.
    case notAllowed(ReasonCode)
}

extension RequestRefusal {
    /// What a server says to the same request.
    public var reasonCode: ReasonCode {
        switch self {
        case .notConnected: .unspecifiedError
        case .tooManyWaiting: .quotaExceeded
        case .packetTooLarge: .packetTooLarge
        case .qosNotSupported: .qosNotSupported
        case .retainNotSupported: .retainNotSupported
        case .noIdentifierLeft: .packetIdentifierInUse
        case .notAllowed(let reason): reason
        }
    }
}
