internal import ClientCore

/// What a call of the client may throw.
public enum ClientError: Error, Hashable, Sendable {
    /// There is no connection, and what is asked does not wait for one.
    case notConnected
    /// The client was ended.
    case ended
    /// The task was cancelled; what was still queued is withdrawn.
    case cancelled
    /// The answer did not come in time.
    case timedOut
    /// The message has waited for longer than its Message Expiry Interval, and was not sent.
    case expired
    /// The server refused a message, a subscription, its end or the login: why, in its own words and with the User
    /// Properties of its answer, where it has any. Before MQTT 5.0 it has none.
    case refused(ReasonCode, String? = nil, [UserProperty] = [])
    /// As many messages or bytes wait as may.
    case queueFull
    /// Nobody subscribes to what a request was sent to.
    case noResponder
    /// The server, or the version of MQTT that it speaks, cannot do what is asked: what.
    case unsupported(String)
    /// A connection cannot be made, or was lost: to which server, as its address is written, and why.
    case unreachable(server: String, reason: String)
    /// A connection was ended, as the server sent a packet larger than `ClientSettings.maximumPacketSize`, in bytes:
    /// which server.
    case packetTooLarge(server: String, maximum: UInt32)
    /// A payload is not what its endpoint says: what is wrong.
    case undecodable(String)
    /// A value that its endpoint's coding cannot write: why.
    case unencodable(String)
    /// A parameter, or an endpoint, that makes no legal topic: what is wrong.
    case topic(String)
    /// The responder failed, and does not say how.
    case responderFailed
    /// Settings that cannot be: which one, and what would be right.
    case settings(String)
    /// The store cannot be used: why.
    case store(String)
}

extension ClientError {
    /// A refusal, with what the answer's properties say of it.
    init(refused reason: ReasonCode, _ properties: Properties) {
        self = .refused(reason, properties.reasonString?.description, properties.userProperties)
    }

    init(refused reason: ReasonCode, _ texts: AnswerTexts?) {
        self = .refused(reason, texts?.words, texts?.userProperties ?? [])
    }
}

extension ClientError: CustomStringConvertible {
    /// The error as a sentence for people.
    public var description: String {
        switch self {
        case .notConnected: "there is no connection to the server"
        case .ended: "the client was ended"
        case .cancelled: "cancelled"
        case .timedOut: "no answer in time"
        case .expired: "the message got too old before it could be sent"
        case .refused(let reason, let words, _): "the server refuses: \(words ?? "\(reason)")"
        case .queueFull: "too many messages wait"
        case .noResponder: "nobody answers at that topic"
        case .unsupported(let what): what
        case .unreachable(let server, let reason): "\(server): \(reason)"
        case .packetTooLarge(let server, let maximum):
            "\(server): it sent a packet of more than \(maximum) bytes, the Maximum Packet Size of this client"
        case .undecodable(let why): "the payload cannot be read: \(why)"
        case .unencodable(let why): "the value cannot be written: \(why)"
        case .topic(let why): why
        case .responderFailed: "the responder failed"
        case .settings(let why): why
        case .store(let why): "the store: \(why)"
        }
    }
}
