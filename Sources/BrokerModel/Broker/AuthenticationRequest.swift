public import MQTTCodec

/// A decision that a shard asks its shell for.
public struct AuthenticationRequest: Sendable {
    public enum Step: Sendable {
        /// A user name and perhaps a password, as CONNECT gave them.
        case password(userName: EncodedString?, password: [UInt8]?)
        /// CONNECT with an Authentication Method, or AUTH that begins a re-authentication.
        case begin(method: EncodedString, data: [UInt8]?)
        /// AUTH with the client's answer to a challenge.
        case proceed(method: EncodedString, data: [UInt8]?)
        /// The connection went away in the middle; nothing is to be answered.
        case abandon
    }

    public let clientIdentifier: EncodedString
    public let info: ConnectionInfo
    public let step: Step

    public init(clientIdentifier: EncodedString, info: ConnectionInfo, step: Step) {
        self.clientIdentifier = clientIdentifier
        self.info = info
        self.step = step
    }
}

/// The shell's answer to an `AuthenticationRequest`.
public enum AuthenticationOutcome: Sendable {
    /// The client is who it says. `data` goes back with the last packet of an enhanced authentication; `userName`, if given, replaces
    /// the one in CONNECT.
    case accepted(userName: EncodedString?, data: [UInt8]?)
    /// Send `data` to the client and wait for its answer.
    case challenge(data: [UInt8])
    /// The client is told the reason code, the log what lies behind it.
    case refused(ReasonCode, because: LoginFailure = .unspecified)
}

/// A login that was accepted.
public struct VerifiedLogin: Sendable {
    /// Nil for a client without a user name.
    public let userName: EncodedString?
    /// What CONNACK carries of an enhanced authentication.
    public let authenticationData: [UInt8]?

    package init(
        userName: EncodedString?, authenticationData: [UInt8]?
    ) {
        self.userName = userName
        self.authenticationData = authenticationData
    }
}
